"""Who rests for what and how it comes back, on numbers for time."""

import pytest

from pulsegate.core.breaker import TRIAL_S
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.provider_fault import ProviderFault
from pulsegate.core.provider_health import Place, ProviderHealth

A1, A2, B1 = EndpointId("a/1"), EndpointId("a/2"), EndpointId("b/1")
F = ProviderFault


def fresh() -> ProviderHealth:
    """Models a and b; a with two keys."""
    return ProviderHealth((Place(A1, PoolName("a"), "1"), Place(A2, PoolName("a"), "2"), Place(B1, PoolName("b"), "1")))


def asked(health: ProviderHealth) -> list[str]:
    """The places that may be asked."""
    return [place for place in (A1, A2, B1) if health.view(place).weight]


def fail(health: ProviderHealth, place: EndpointId, fault: ProviderFault, now: float, **more: float) -> bool:
    """One attempt that fails; whether it was a trial."""
    trial = health.begin(place, now)
    health.failed(place, fault, now, trial=trial, **more)
    return trial


def serve(health: ProviderHealth, place: EndpointId, now: float, ttft_s: float | None = None) -> bool:
    trial = health.begin(place, now)
    health.served(place, now, trial=trial, ttft_s=ttft_s)
    return trial


def at(health: ProviderHealth, now: float) -> list[str]:
    health.tick(now)
    return asked(health)


@pytest.mark.parametrize(
    ("fault", "left", "rest_s"),
    [
        (F.BILLING, [A2], 300.0),  # the key, for all its models
        (F.AUTH, [A2], 300.0),
        (F.NOT_FOUND, [B1], 300.0),  # the model, for all its keys
        (F.RATE_LIMIT, [A2, B1], 1.0),  # this key at this model
        (F.BUSY, [B1], 1.0),
        (F.TOO_LARGE, [A1, A2, B1], None),  # the user's own
        (F.REQUEST, [A1, A2, B1], None),
    ],
)
def test_each_fault_rests_what_it_is_about(fault, left, rest_s):
    health = fresh()
    fail(health, A1, fault, 0.0)
    assert asked(health) == left
    if rest_s is not None:
        assert at(health, rest_s - 0.01) == left
        assert at(health, rest_s) == [A1, A2, B1]


def test_an_outage_needs_three_failures_in_a_row():
    health = fresh()
    fail(health, A1, F.OUTAGE, 0.0)
    fail(health, A2, F.OUTAGE, 1.0)
    serve(health, A1, 2.0)
    fail(health, A1, F.OUTAGE, 3.0)
    fail(health, A2, F.OUTAGE, 4.0)
    assert asked(health) == [A1, A2, B1]
    fail(health, A1, F.OUTAGE, 5.0)
    assert asked(health) == [B1]
    assert health.view(A1).state is State.UNHEALTHY
    assert health.view(A1).reason is Reason.ERROR


def test_half_of_the_last_ten_is_an_outage_too():
    health = fresh()
    for turn in range(5):
        serve(health, A1, 2.0 * turn)
        fail(health, A1, F.OUTAGE, 2.0 * turn + 1.0)
    assert asked(health) == [B1]


def test_what_was_asked_for_is_honoured():
    health = fresh()
    fail(health, A1, F.RATE_LIMIT, 0.0, retry_after_s=17.0)
    assert at(health, 16.9) == [A2, B1]
    assert at(health, 17.0) == [A1, A2, B1]


def test_an_older_answer_that_asks_for_more_lengthens_the_rest():
    health = fresh()
    fail(health, A1, F.RATE_LIMIT, 0.0)
    health.failed(A1, F.RATE_LIMIT, 0.5, trial=False, retry_after_s=20.0)
    assert at(health, 20.4) == [A2, B1]
    assert at(health, 20.5) == [A1, A2, B1]


def test_the_way_back_is_one_request_at_a_time_and_two_of_them():
    health = fresh()
    fail(health, A1, F.BUSY, 0.0)
    assert at(health, 1.0) == [A1, A2, B1]
    assert health.view(A1).reason is Reason.RECOVERING
    assert health.begin(A1, 1.0)
    assert asked(health) == [B1]  # by no key: it is the model that is tried
    health.served(A1, 1.5, trial=True)
    assert asked(health) == [A1, A2, B1]
    assert health.begin(A2, 1.6)
    assert asked(health) == [B1]
    health.served(A2, 1.8, trial=True)
    assert health.view(A1).reason is Reason.OK
    assert not health.begin(A1, 2.0)
    assert asked(health) == [A1, A2, B1]


def test_a_trial_that_fails_doubles_the_rest():
    health, now = fresh(), 0.0
    fail(health, A1, F.RATE_LIMIT, now)
    for rest_s in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
        assert at(health, now + rest_s - 0.01) == [A2, B1]
        assert at(health, now + rest_s) == [A1, A2, B1]
        now += rest_s
        assert fail(health, A1, F.RATE_LIMIT, now)


def test_a_trial_that_never_ends_is_a_failure():
    health = fresh()
    for _ in range(3):
        fail(health, A1, F.OUTAGE, 0.0)
    assert at(health, 5.0) == [A1, A2, B1]
    health.begin(A1, 5.0)
    assert at(health, 5.0 + TRIAL_S) == [B1]
    assert at(health, 5.0 + TRIAL_S + 10.0) == [A1, A2, B1]  # and tried again
    health.served(A1, 100.0, trial=True)  # the one that hung: too late to count
    assert health.view(A1).reason is Reason.RECOVERING


def test_a_trial_whose_client_left_is_repeated():
    health = fresh()
    fail(health, A1, F.BUSY, 0.0)
    at(health, 1.0)
    health.begin(A1, 1.0)
    health.neutral(A1, trial=True)
    assert asked(health) == [A1, A2, B1]
    assert health.begin(A2, 1.1)


def test_a_trial_may_meet_another_fault():
    health = fresh()
    fail(health, A1, F.BUSY, 0.0)
    at(health, 1.0)
    assert fail(health, A1, F.BILLING, 1.0)
    assert asked(health) == [A2]  # the key rests; the model is still to be tried, with the other key
    assert health.begin(A2, 1.1)


def test_answers_to_requests_from_before_the_rest_move_nothing():
    health = fresh()
    fail(health, A1, F.BUSY, 0.0)
    health.served(A2, 0.5, trial=False)
    assert asked(health) == [B1]
    at(health, 1.0)
    health.begin(A1, 1.0)
    health.failed(A2, F.BUSY, 1.1, trial=False)  # the trial decides
    health.served(A1, 1.2, trial=True)
    assert asked(health) == [A1, A2, B1]


def test_failures_from_before_a_rest_are_forgotten_after_it():
    health = fresh()
    for _ in range(3):
        fail(health, A1, F.OUTAGE, 0.0)
    at(health, 5.0)
    serve(health, A1, 5.0)
    serve(health, A1, 6.0)
    fail(health, A1, F.OUTAGE, 7.0)
    assert asked(health) == [A1, A2, B1]


def test_a_key_that_a_human_must_mend_is_tried_when_the_setup_changes():
    health = fresh()
    fail(health, A1, F.BILLING, 0.0)
    fail(health, A2, F.RATE_LIMIT, 0.0, retry_after_s=60.0)
    assert health.view(A1).state is State.MISCONFIGURED
    health.configure((Place(A1, PoolName("a"), "1"), Place(A2, PoolName("a"), "2")))
    assert [bool(health.view(place).weight) for place in (A1, A2)] == [True, False]


def test_what_is_configured_no_more_is_not_spoken_of():
    health = fresh()
    health.configure((Place(A1, PoolName("a"), "1"),))
    assert not health.begin(B1, 1.0)
    assert not health.failed(B1, F.BILLING, 1.0, trial=False)
    assert not health.served(B1, 1.0, trial=False)
    assert not health.neutral(B1, trial=True)


def test_a_ping_tells_keys_apart_and_brings_back_what_it_can():
    health = fresh()
    health.pinged("1", F.AUTH, 0.0)
    assert asked(health) == [A2]
    health.pinged("1", None, 1.0)
    assert asked(health) == [A1, A2, B1]
    assert health.begin(A1, 1.0)  # carefully all the same
    fail(health, B1, F.NOT_FOUND, 2.0)
    health.pinged("1", None, 3.0)
    assert not health.view(B1).weight  # a list proves no model
    health.pinged("2", F.NOT_FOUND, 3.0)
    health.pinged("unknown", F.AUTH, 3.0)
    assert health.view(A2).reason is not Reason.NOT_FOUND


def test_a_good_ping_ends_the_rest_after_an_outage_but_not_after_money():
    health = fresh()
    for _ in range(3):
        fail(health, A1, F.OUTAGE, 0.0)
    health.failed(A2, F.BILLING, 0.0, trial=False)
    health.pinged("1", None, 1.0)
    health.pinged("2", None, 1.0)
    assert asked(health) == [A1, B1]


def test_slow_is_what_is_slow_for_this_provider():
    health = fresh()
    for turn in range(8):
        serve(health, A1, float(turn), ttft_s=4.0)
    for turn in range(3):
        serve(health, A1, 10.0 + turn, ttft_s=11.0)  # below three times its habit
    assert health.view(A1).reason is Reason.OK
    for turn in range(3):
        serve(health, A1, 20.0 + turn, ttft_s=40.0)
    assert (health.view(A1).state, health.view(A1).reason) == (State.DEGRADED, Reason.SLOW)
    assert health.view(A1).weight == 30
    serve(health, A1, 30.0, ttft_s=4.0)
    assert health.view(A1).reason is Reason.OK


def test_when_it_changes_next_and_what_rests_how_long():
    health = fresh()
    assert health.due_at is None
    fail(health, A1, F.BUSY, 0.0, retry_after_s=9.0)
    fail(health, B1, F.BILLING, 0.0)
    assert health.due_at == 9.0
    assert health.back_in_s(1.0) == {A1: 299.0, A2: 8.0, B1: 299.0}
    assert not health.tick(8.0)
    assert health.tick(9.0)
