"""Due times: absolute, spread, never in a tight loop."""

from itertools import pairwise
from random import Random

import pytest

from pulsegate.core.events import ProbeCause
from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId
from pulsegate.core.probe import ProbeKind
from pulsegate.core.record import HealthRecord
from pulsegate.core.schedule import (
    Course,
    Timetable,
    backed_off_s,
    first_due_at,
    jittered,
    next_slot,
    phase,
    plan,
)

POLICY = ProbePolicy()


def test_a_timetable_gives_the_earliest_and_forgets_what_was_moved() -> None:
    table: Timetable[str] = Timetable()
    for name, at in (("a", 3.0), ("b", 1.0), ("c", 2.0), ("b", 4.0)):
        table.put(name, at)
    table.drop("c")
    assert table.next_at() == 3.0
    assert table.pop(2.9) is None
    assert [table.pop(9.0), table.pop(9.0), table.pop(9.0)] == [(3.0, "a"), (4.0, "b"), None]


def test_a_timetable_does_not_grow_with_moves() -> None:
    table: Timetable[int] = Timetable()
    for number in range(10_000):
        table.put(number % 3, float(number))
    assert len(table._heap) < 100


def test_phases_are_stable_and_spread() -> None:
    phases = sorted(phase(EndpointId(f"10.0.0.{number}:8000")) for number in range(1000))
    assert phase(EndpointId("10.0.0.1:8000")) == phase(EndpointId("10.0.0.1:8000"))
    assert max(b - a for a, b in pairwise(phases)) < 0.02


def test_first_probes_come_soon_but_not_all_at_once() -> None:
    assert [first_due_at(rank, 2, 3.0, 100.0) for rank in range(2)] == [100.0, 100.002]
    many = [first_due_at(rank, 5000, 3.0, 100.0) for rank in range(5000)]
    assert (many[0], many[-1]) == (100.0, pytest.approx(103.0, abs=0.001))


def test_slots_are_absolute_whatever_the_probe_took() -> None:
    at, slots = 100.0, []
    for took in (0.02, 0.8, 1.6, 0.02, 2.5):
        at = next_slot(0.25, 3.0, at + took)
        slots.append(at)
    assert slots == [102.75, 105.75, 108.75, 111.75, 114.75]


def test_a_slot_is_at_most_a_tenth_of_an_interval_more_than_an_interval_away() -> None:
    waits = [next_slot(0.3, 3.0, 50 + number / 100) - (50 + number / 100) for number in range(1000)]
    assert min(waits) >= 0.3
    assert max(waits) <= 3.3 + 1e-9


def test_neighbours_are_never_farther_apart_than_the_interval_and_its_jitter() -> None:
    rng, at, starts = Random(7), 0.0, []
    for _ in range(5000):
        at = jittered(next_slot(0.6, 3.0, at + 0.02, POLICY.jitter), POLICY, rng)
        starts.append(at)
    gaps = [b - a for a, b in pairwise(starts)]
    assert 2.7 <= min(gaps) < 2.75
    assert 3.25 < max(gaps) <= 3.3
    assert sum(gaps) / len(gaps) == pytest.approx(3.0, rel=1e-3)


def record(state: State, reason: Reason, streak=0, fails=0, deep_due=False) -> HealthRecord:
    return HealthRecord(state=state, reason=reason, since=0.0, streak=streak, fails=fails, deep_due=deep_due)


def course(failed: ProbeKind | None = None, waits: int = 0, *, deep=False, unproven=False) -> Course:
    return Course(failed_kind=failed, deep_is_due=deep, waits=waits, doubted=False, unproven=unproven)


MICRO, DEEP = ProbeKind.MICRO, ProbeKind.DEEP


@pytest.mark.parametrize(
    ("now", "way", "kind", "cause", "delay_s"),
    [
        (record(State.HEALTHY, Reason.OK, 3), course(), MICRO, None, None),
        (record(State.HEALTHY, Reason.OK, 3), course(deep=True), DEEP, ProbeCause.DEEP, None),
        (record(State.WARMING, Reason.STARTING), course(MICRO), MICRO, None, None),
        (record(State.WARMING, Reason.STARTING, 1, deep_due=True), course(), MICRO, ProbeCause.RISE, 0.25),
        (record(State.WARMING, Reason.STARTING, 2, deep_due=True), course(), DEEP, ProbeCause.RISE, 0.25),
        (record(State.DEGRADED, Reason.TIMEOUT, fails=1), course(MICRO), MICRO, ProbeCause.CONFIRM, 0.0),
        (record(State.DEGRADED, Reason.STALLED, fails=1), course(DEEP), DEEP, ProbeCause.CONFIRM, 0.0),
        (record(State.DEGRADED, Reason.REFUSED, fails=1), course(MICRO), MICRO, ProbeCause.CONFIRM, 0.2),
        (record(State.DEGRADED, Reason.WRONG_OUTPUT), course(DEEP), DEEP, ProbeCause.CONFIRM, 0.0),
        (record(State.DEGRADED, Reason.WRONG_OUTPUT), course(), MICRO, None, None),  # its peers said so
        (record(State.DEGRADED, Reason.BUSY), course(deep=True), MICRO, None, None),
        (record(State.DEGRADED, Reason.SLOW, 2), course(), MICRO, None, None),
        (record(State.DEGRADED, Reason.RECOVERING, 1, deep_due=True), course(), MICRO, ProbeCause.RISE, 0.25),
        (record(State.DEGRADED, Reason.RECOVERING, 1), course(unproven=True), MICRO, None, None),
        (record(State.UNHEALTHY, Reason.HUNG), course(MICRO, 1), MICRO, None, None),
        (record(State.UNHEALTHY, Reason.STALLED), course(DEEP, 1), DEEP, None, None),
    ],
)
def test_what_comes_next(now: HealthRecord, way: Course, kind: ProbeKind, cause: ProbeCause | None, delay_s) -> None:
    following = plan(now, POLICY, way)
    assert (following.kind, following.cause, following.delay_s) == (kind, cause, delay_s)


def test_backing_off_doubles_up_to_a_limit() -> None:
    unhealthy = [plan(record(State.UNHEALTHY, Reason.REFUSED), POLICY, course(MICRO, n)).wait_s for n in range(1, 6)]
    assert unhealthy == [3, 6, 12, 15, 15]
    stuck = [plan(record(State.MISCONFIGURED, Reason.AUTH), POLICY, course(MICRO, n)).wait_s for n in range(1, 7)]
    assert stuck == [3, 6, 12, 24, 30, 30]
    assert backed_off_s(60.0, 5, 15.0) == 60.0
