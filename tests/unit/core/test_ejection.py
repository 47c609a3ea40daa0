"""Who is out and for how long, and what share the others get."""

import pytest

from pulsegate.core.ejection import INNOCENT, Detected, Standing, admit, budget, choose, eject, pardon, release
from pulsegate.core.fleet import EjectionPolicy, EndpointSpec
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.record import HealthRecord
from pulsegate.core.weights import Share, next_ramp_at, ramp_percent, share
from support.samples import spec

POLICY = EjectionPolicy()


def found(name: str, since: float = 0.0, *, hard=False, cut_off=False, enforced=False) -> Detected:
    return Detected(endpoint=EndpointId(name), since=since, hard=hard, cut_off=cut_off, enforced=enforced)


def out(*detected: Detected, size: int = 4, others_give: bool = True, suspect: bool = False, percent: int = 50) -> str:
    policy = EjectionPolicy(max_ejection_percent=percent)
    return "".join(sorted(choose(detected, size, policy, others_give=others_give, network_suspect=suspect)))


@pytest.mark.parametrize(("size", "percent", "most"), [(1, 50, 1), (2, 50, 1), (4, 50, 2), (5, 50, 2), (10, 0, 1)])
def test_the_budget_is_a_share_and_at_least_one(size: int, percent: int, most: int) -> None:
    assert budget(size, EjectionPolicy(max_ejection_percent=percent)) == most


def test_soft_reasons_within_the_budget_first_come_first() -> None:
    assert out(found("c", 3), found("a", 1), found("b", 2)) == "ab"


def test_hard_reasons_know_no_budget_but_use_it_up() -> None:
    assert out(found("a", hard=True), found("b", hard=True), found("c", hard=True)) == "abc"
    assert out(found("a", 1), found("b", hard=True), found("c", hard=True)) == "bc"


def test_all_are_out_when_nobody_gives_tokens() -> None:
    assert out(found("a"), found("b"), found("c"), found("d"), others_give=False) == "abcd"


def test_who_is_out_is_not_put_back_by_the_budget() -> None:
    assert out(found("a", 1, enforced=True), found("b", 2, enforced=True), found("c", 3, enforced=True)) == "abc"


def test_a_suspect_network_keeps_in_who_cannot_be_reached_and_nobody_else() -> None:
    cut_off = found("a", cut_off=True, enforced=True)
    assert out(cut_off, found("b", hard=True), suspect=True) == "b"
    assert out(cut_off, found("b", hard=True), suspect=True, others_give=False) == "b"
    assert out(cut_off, found("b", hard=True)) == "ab"


def test_each_ejection_within_ten_minutes_doubles_the_hold_off() -> None:
    standing, holds = INNOCENT, []
    for number in range(7):
        at = 60.0 * number
        standing = eject(standing, POLICY, at)
        assert standing.hold_until is not None
        holds.append(standing.hold_until - at)
    assert holds == [10, 20, 40, 80, 160, 300, 300]
    assert eject(standing, POLICY, 5000.0).hold_until == 5010.0


def test_a_pardon_is_as_if_nothing_had_happened() -> None:
    assert pardon(eject(INNOCENT, POLICY, 5.0)) == INNOCENT


def test_release_keeps_the_hold_off_and_admission_begins_the_ramp() -> None:
    released = release(eject(INNOCENT, POLICY, 5.0))
    assert (released.enforced, released.hold_until) == (False, 15.0)
    assert admit(released, 15.0) == Standing(past=(5.0,), ramp_from=15.0)


def test_slow_start_goes_from_ten_to_a_hundred_per_cent_in_thirty_seconds_in_steps() -> None:
    standing = Standing(ramp_from=100.0)
    seen, at = [], 100.0
    while (following := next_ramp_at(standing, POLICY, at)) is not None and following > at:
        seen.append((round(at, 2), ramp_percent(standing, POLICY, at)))
        at = following
    assert seen[:3] == [(100.0, 10), (101.67, 15), (103.33, 20)]
    assert seen[-1] == (128.33, 95)
    assert (at, ramp_percent(standing, POLICY, at)) == (130.0, 100)
    assert ramp_percent(INNOCENT, POLICY, 0.0) == 100


def record(state: State, reason: Reason = Reason.OK) -> HealthRecord:
    return HealthRecord(state=state, reason=reason, since=0.0)


def got(record: HealthRecord, standing: Standing = INNOCENT, *, sound=True, at=0.0, one: EndpointSpec | None = None):
    return share(record, standing=standing, spec=one or spec("a"), policy=POLICY, sound=sound, at=at)


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        (State.HEALTHY, Reason.OK, Share(100, low_only=False, max_inflight=None)),
        (State.DEGRADED, Reason.SLOW, Share(30, low_only=True, max_inflight=4)),
        (State.DEGRADED, Reason.BUSY, Share(100, low_only=False, max_inflight=None)),
        (State.WARMING, Reason.STARTING, Share(0, low_only=False, max_inflight=None)),
        (State.MISCONFIGURED, Reason.AUTH, Share(0, low_only=False, max_inflight=None)),
        (State.DRAINING, Reason.OPERATOR, Share(0, low_only=False, max_inflight=None)),
        (State.UNHEALTHY, Reason.ERROR, Share(30, low_only=True, max_inflight=4)),  # detected, not enforced
    ],
)
def test_shares(state: State, reason: Reason, expected: Share) -> None:
    assert got(record(state, reason)) == expected


def test_a_pool_that_is_degraded_as_a_whole_serves_as_a_whole() -> None:
    assert got(record(State.DEGRADED, Reason.SLOW), sound=False) == Share(30, low_only=False, max_inflight=None)


def test_ejected_and_held_get_nothing_however_well_they_do() -> None:
    assert got(record(State.UNHEALTHY, Reason.HUNG), Standing(enforced=True)).weight == 0
    assert got(record(State.HEALTHY), Standing(hold_until=15.0)).weight == 0


def test_weights_multiply_and_never_vanish() -> None:
    half = EndpointSpec(id=EndpointId("a"), pool=PoolName("m"), url="http://a", weight=50, max_inflight=2)
    assert got(record(State.HEALTHY), one=half) == Share(50, low_only=False, max_inflight=2)
    assert got(record(State.DEGRADED, Reason.SLOW), one=half) == Share(15, low_only=True, max_inflight=2)
    tiny = EndpointSpec(id=EndpointId("a"), pool=PoolName("m"), url="http://a", weight=1)
    assert got(record(State.HEALTHY), Standing(ramp_from=0.0), one=tiny).weight == 1
