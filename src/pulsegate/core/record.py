"""One endpoint's health record, and the one function that moves it: a look-up in ``health.TABLE``."""

from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import (
    NOTHING,
    TABLE,
    WRONG_LIMIT,
    Count,
    Limit,
    Move,
    Reason,
    Signal,
    Special,
    State,
    Target,
)
from pulsegate.core.ids import PromptId


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRecord:
    """One endpoint's health. ``since`` is when the state or the reason last changed.

    ``streak`` counts fast tokens in a row, up to ``rise``; ``fails`` timeouts and errors in a row, up to ``fall``;
    ``wrong`` wrong answers in a row to different prompts, the last of them to ``wrong_prompt``. ``deep_due``:
    a deep probe must pass before it may be healthy. ``hard``: unhealthy for a reason that leaves no doubt. ``beneath``
    is what the probes say while an operator drains the endpoint.
    """

    state: State
    reason: Reason
    since: float
    detail: str = ""
    streak: int = 0
    fails: int = 0
    wrong: int = 0
    wrong_prompt: PromptId | None = None
    deep_due: bool = True
    hard: bool = False
    beneath: "HealthRecord | None" = None

    @property
    def judged(self) -> "HealthRecord":
        """What the probes say, draining or not."""
        return self if self.beneath is None else self.beneath


def born(at: float, reason: Reason = Reason.STARTING, detail: str = "") -> HealthRecord:
    """The first record of an incarnation."""
    return HealthRecord(state=State.WARMING, reason=reason, since=at, detail=detail)


@dataclass(frozen=True, slots=True)
class Given:
    """What comes with a signal. ``reason``: where the table leaves it to the signal; ``prompt``: of a wrong answer."""

    at: float
    reason: Reason = Reason.ERROR
    detail: str = ""
    prompt: PromptId | None = None


def step(record: HealthRecord, signal: Signal, policy: ProbePolicy, given: Given) -> HealthRecord:
    """What ``record`` becomes; the same object when nothing changed."""
    move = TABLE[record.state][signal]
    if move is NOTHING:
        return record
    if move.special is not Special.NO:
        return _special(record, move, signal, policy, given)
    streak = _count(move.streak, record.streak, policy.rise)
    fails = _count(move.fails, record.fails, policy.fall)
    repeated = move.wrong is Count.UP and record.wrong > 0 and given.prompt == record.wrong_prompt
    wrong = record.wrong if repeated else _count(move.wrong, record.wrong, WRONG_LIMIT)
    deep_due = record.deep_due and not move.deep_passed and policy.deep_interval_s > 0
    full = (
        (move.limit is Limit.RISE and streak >= policy.rise and not deep_due)
        or (move.limit is Limit.FALL and fails >= policy.fall)
        or (move.limit is Limit.WRONG and wrong >= WRONG_LIMIT)
    )
    counted = _Counters(streak, fails, wrong, deep_due)
    return _arrive(record, move.at_limit if full else move.to, counted, policy, given)


class _Counters(NamedTuple):
    streak: int
    fails: int
    wrong: int
    deep_due: bool


def _count(op: Count, value: int, most: int) -> int:
    if op is Count.KEEP:
        return value
    return min(value + 1, most) if op is Count.UP else 0


def _arrive(record: HealthRecord, to: Target, counted: _Counters, policy: ProbePolicy, given: Given) -> HealthRecord:
    """The record at its target, or the same one if neither target nor counters are new."""
    state = record.state if to.state is None else to.state
    entered = state is not record.state
    reason = record.reason
    if to.state is not None and (entered or reason not in to.hold):
        reason = given.reason if to.reason is None else to.reason
    hard = state is State.UNHEALTHY and (to.hard or (record.hard and not entered))
    deep_due = policy.deep_interval_s > 0 if entered and state is State.UNHEALTHY else counted.deep_due
    moved = entered or reason is not record.reason
    known = (record.streak, record.fails, record.wrong, record.deep_due, record.hard)
    if not moved and known == (*counted[:3], deep_due, hard):
        return record
    prompt = given.prompt if counted.wrong > record.wrong else record.wrong_prompt
    return HealthRecord(
        state=state,
        reason=reason,
        since=given.at if moved else record.since,
        detail=given.detail if moved else record.detail,
        streak=counted.streak,
        fails=counted.fails,
        wrong=counted.wrong,
        wrong_prompt=prompt if counted.wrong else None,
        deep_due=deep_due,
        hard=hard,
    )


def _special(record: HealthRecord, move: Move, signal: Signal, policy: ProbePolicy, given: Given) -> HealthRecord:
    match move.special:
        case Special.RESTART:
            return born(given.at, move.to.reason or Reason.STARTING, given.detail)
        case Special.COVER:
            return HealthRecord(
                state=State.DRAINING, reason=Reason.OPERATOR, since=given.at, detail=given.detail, beneath=record
            )
        case Special.BENEATH:
            beneath = step(record.judged, signal, policy, given)
            return record if beneath is record.beneath else replace(record, beneath=beneath)
        case Special.UNCOVER:
            return replace(record.judged, since=given.at)
        case Special.NO:
            return record
        case _:
            assert_never(move.special)
