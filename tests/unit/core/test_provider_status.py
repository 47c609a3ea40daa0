"""What everybody's news of a provider amount to."""

import pytest

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.provider_fault import ProviderFault
from pulsegate.core.provider_status import KeyPing, PlaceSeen, ProviderSeen, ProviderState, resting_keys, status_of


def seen(*reasons: Reason, answered_at: float | None = 5.0) -> ProviderSeen:
    places = tuple(
        PlaceSeen(
            endpoint=EndpointId(f"p/{number}"),
            pool=PoolName("m"),
            key=f"p#{number}",
            state=State.HEALTHY if reason is Reason.OK else State.UNHEALTHY,
            reason=reason,
            weight=100 if reason is Reason.OK else 0,
            since=None,
        )
        for number, reason in enumerate(reasons)
    )
    return ProviderSeen(name="p", places=places, answered_at=answered_at)


def ping(fault: ProviderFault | None, at: float, key: str = "p#0") -> KeyPing:
    return KeyPing(provider="p", key=key, fault=fault, at=at)


@pytest.mark.parametrize(
    ("told", "pings", "expected"),
    [
        ([], [], ("unknown", "", None)),
        ([seen(Reason.OK, answered_at=None)], [], ("unknown", "", None)),
        ([seen(Reason.OK)], [], ("up", "", 5.0)),
        ([seen(Reason.OK, Reason.BILLING)], [], ("degraded", "billing", 5.0)),
        ([seen(Reason.BILLING)], [], ("down", "billing", 5.0)),
        ([seen(Reason.BILLING), seen(Reason.OK)], [], ("degraded", "billing", 5.0)),  # two workers
        ([], [ping(None, 7.0)], ("up", "", 7.0)),
        ([seen(Reason.OK)], [ping(ProviderFault.OUTAGE, 7.0)], ("down", "it does not answer pings", 7.0)),
        ([seen(Reason.OK)], [ping(ProviderFault.OUTAGE, 3.0)], ("up", "", 5.0)),  # it has answered since
        ([], [ping(ProviderFault.OUTAGE, 7.0), ping(None, 7.0, "p#1")], ("up", "", 7.0)),
        ([], [ping(ProviderFault.AUTH, 7.0)], ("down", "auth", 7.0)),
        ([], [ping(ProviderFault.AUTH, 7.0), ping(None, 7.0, "p#1")], ("degraded", "auth", 7.0)),
        ([seen(Reason.OK)], [ping(ProviderFault.AUTH, 3.0)], ("up", "", 5.0)),
        ([], [ping(ProviderFault.NOT_FOUND, 7.0)], ("up", "", 7.0)),  # no list, but it answers
    ],
)
def test_status(told, pings, expected):
    status = status_of("p", configured=True, seen=told, pings=pings)
    assert (status.state.value, status.reason, status.checked_at) == expected


def test_a_key_rests_when_no_worker_may_ask_with_it():
    one, other = seen(Reason.BILLING, Reason.OK, Reason.BUSY), seen(Reason.BILLING, Reason.OK, Reason.OK)
    assert resting_keys([one]) == {Reason.BILLING: 1, Reason.BUSY: 1}
    assert resting_keys([one, other]) == {Reason.BILLING: 1}
    assert resting_keys([]) == {}


def test_without_a_key():
    status = status_of("p", configured=False, seen=[], pings=[])
    assert (status.state, status.configured) == (ProviderState.DOWN, False)
