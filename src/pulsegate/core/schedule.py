"""When an endpoint is probed next and how: absolute due times, spread over the interval, never in a tight loop."""

import heapq
from collections.abc import Hashable
from hashlib import blake2b
from random import Random
from typing import Generic, NamedTuple, TypeVar

from pulsegate.core.events import ProbeCause
from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.probe import ProbeKind
from pulsegate.core.record import HealthRecord

RISE_DELAY_S = 0.25
"""Between the probes of an endpoint that starts or comes back: nobody should wait three intervals for it."""

ERROR_CONFIRM_DELAY_S = 0.2
"""Before an error is asked for again: the same instant would bring the same error. A timeout has waited enough."""

UNHEALTHY_MAX_S = 15.0
MISCONFIGURED_MAX_S = 30.0
SPREAD_S = 0.002
"""First probes after a start follow one another this closely, over at most one interval."""

_CONFIRMED_AT_ONCE = frozenset({Reason.TIMEOUT, Reason.STALLED, Reason.WRONG_OUTPUT, Reason.CONGESTED})

Key = TypeVar("Key", bound=Hashable)


class Timetable(Generic[Key]):
    """Keys and when each is due. A key has one appointment; a new one replaces it. O(log n) each."""

    __slots__ = ("_due", "_heap", "_serial")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._due: dict[Key, tuple[float, int]] = {}
        self._serial = 0

    def put(self, key: Key, at: float) -> None:
        """Make or move the appointment."""
        self._serial += 1
        self._due[key] = (at, self._serial)
        heapq.heappush(self._heap, (at, self._serial, key))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [(due_at, serial, one) for one, (due_at, serial) in self._due.items()]
            heapq.heapify(self._heap)

    def drop(self, key: Key) -> None:
        """Cancel the appointment, if there is one."""
        self._due.pop(key, None)

    def at(self, key: Key) -> float | None:
        """When this key is due."""
        due = self._due.get(key)
        return None if due is None else due[0]

    def next_at(self) -> float | None:
        """When the first key is due."""
        heap = self._heap
        while heap:
            at, serial, key = heap[0]
            if self._due.get(key) == (at, serial):
                return at
            heapq.heappop(heap)
        return None

    def pop(self, at: float) -> tuple[float, Key] | None:
        """The first key that is due by ``at``, taken out, with its due time."""
        due_at = self.next_at()
        if due_at is None or due_at > at:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._due[key]
        return due_at, key


def phase(name: str) -> float:
    """Where in the interval an endpoint has its place, 0 to 1: the same in every process and after every restart.

    Also by how much a gateway moves all of them, when several probe everything and cannot agree on places.
    """
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest(), "big") / 2**32


def first_due_at(rank: int, fleet_size: int, interval_s: float, at: float) -> float:
    """The first probe of the endpoint that is ``rank``-th by phase: soon, but not all at once."""
    spread_s = min(interval_s, SPREAD_S * fleet_size)
    return at + spread_s * rank / max(1, fleet_size)


def next_slot(endpoint_phase: float, wait_s: float, after: float, jitter: float = 0.0) -> float:
    """The next time on the endpoint's grid after ``after``, but not right away.

    The grid is absolute: a slow probe or a late start does not shift those that follow. "Not right away" is a tenth of
    the wait, or more where jitter may have brought the last probe forward by more.
    """
    offset_s = endpoint_phase * wait_s
    soonest = after + wait_s * max(0.1, 0.75 * jitter)
    return ((soonest - offset_s) // wait_s + 1) * wait_s + offset_s


def jittered(slot_at: float, policy: ProbePolicy, rng: Random) -> float:
    """A slot moved by up to half of ``policy.jitter`` of the interval to either side.

    Half, so that two neighbours are never farther apart than ``1 + jitter`` intervals.
    """
    return slot_at + policy.interval_s * policy.jitter * (rng.random() - 0.5)


class Next(NamedTuple):
    """The next probe: ``delay_s`` from now, or None for the grid after ``wait_s``; and which kind."""

    kind: ProbeKind
    cause: ProbeCause | None
    delay_s: float | None
    wait_s: float


class Course(NamedTuple):
    """What the schedule has to know about an endpoint besides its health.

    ``failed_kind``: of the last probe, if it failed. ``deep_is_due``: the last deep probe is ``deep_interval_s`` ago.
    ``waits``: probes since it is unhealthy or misconfigured. ``doubted``: its last deep answer that meant anything was
    wrong. ``unproven``: its answers wait for the comparison with
    its peers before they count, so there is no point in hurrying.
    """

    failed_kind: ProbeKind | None
    deep_is_due: bool
    waits: int
    doubted: bool
    unproven: bool


def plan(record: HealthRecord, policy: ProbePolicy, course: Course) -> Next:
    """When to probe next after a probe has ended."""
    record = record.judged
    kind = _kind(record, policy, course)
    match record.state:
        case State.UNHEALTHY:
            wait_s = backed_off_s(policy.interval_s, course.waits, UNHEALTHY_MAX_S)
            return Next(kind, None, None, wait_s)
        case State.MISCONFIGURED:
            return Next(kind, None, None, backed_off_s(policy.interval_s, course.waits, MISCONFIGURED_MAX_S))
        case State.DEGRADED if _is_under_suspicion(record, course):
            delay_s = 0.0 if record.reason in _CONFIRMED_AT_ONCE else ERROR_CONFIRM_DELAY_S
            return Next(course.failed_kind or kind, ProbeCause.CONFIRM, delay_s, policy.interval_s)
        case State.WARMING | State.DEGRADED if _rises(record, course):
            return Next(kind, ProbeCause.RISE, RISE_DELAY_S, policy.interval_s)
        case _:
            cause = ProbeCause.DEEP if kind is ProbeKind.DEEP else None
            return Next(kind, cause, None, policy.interval_s)


def _is_under_suspicion(record: HealthRecord, course: Course) -> bool:
    """A failure or a wrong answer that waits for a second opinion."""
    return course.failed_kind is not None and (record.fails > 0 or record.reason is Reason.WRONG_OUTPUT)


def _rises(record: HealthRecord, course: Course) -> bool:
    if course.unproven or record.streak == 0:
        return False
    return record.state is State.WARMING or record.reason is Reason.RECOVERING


def _kind(record: HealthRecord, policy: ProbePolicy, course: Course) -> ProbeKind:
    """Deep when it is due, when the way to healthy asks for it, or when that is what had failed."""
    if policy.deep_interval_s <= 0:
        return ProbeKind.MICRO
    last_step = record.deep_due and record.streak >= policy.rise - 1 and record.state is not State.UNHEALTHY
    only_deep_tells = course.failed_kind is ProbeKind.DEEP or course.doubted
    if last_step or (record.state is State.UNHEALTHY and only_deep_tells):
        return ProbeKind.DEEP
    quiet = record.state is State.HEALTHY or (record.state is State.DEGRADED and record.reason is not Reason.BUSY)
    return ProbeKind.DEEP if quiet and record.fails == 0 and course.deep_is_due else ProbeKind.MICRO


def backed_off_s(interval_s: float, waits: int, most_s: float) -> float:
    """The interval, doubled with every wait, up to ``most_s`` (or the interval, if that is longer)."""
    return min(max(interval_s, most_s), interval_s * 2 ** min(max(0, waits - 1), 16))
