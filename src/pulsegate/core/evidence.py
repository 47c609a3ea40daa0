"""Busy or dead: what the engine's own counters and users' tokens say while a probe waits.

A probe without a token proves nothing by itself: a full engine makes it wait just like a frozen one. Progress tells
them apart. This module only weighs what was seen; what follows is the table's business (``health.py``).

Why *frozen* is more than "unchanged": the counters are published by the web process, which may be lively while the
engine behind it stands still, and a healthy idle engine does not move them either. So unchanged counters count only
while work is there: requests running or waiting, or running = waiting = 0 although our own probe is in flight, which
the engine then has not even seen. And engines do stand still for a second or so when a kernel is compiled for a feature
that is used for the first time: therefore the readings must span ``frozen_after_s``.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from pulsegate.core.probe import Counters

MIN_SPAN_S = 0.5
"""Two readings closer together than this prove nothing: counters are published in steps."""

TRAFFIC_LAG_S = 0.3
"""Users' tokens are reported in batches: a report that comes sooner may be about the time before."""


class Progress(StrEnum):
    """What is known about the engine's progress while a probe waits."""

    SEEN = "seen"
    FLAT = "flat"  # not moving, but not for long enough
    FROZEN = "frozen"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Readings of one endpoint, folded. Times are monotonic seconds; None: never.

    ``value`` is the progress counter of the last good reading, taken at ``read_at``; ``flat_since`` is when it was
    first seen with that value, ``moved_at`` when it was last seen to grow. ``told``: the last reading had gauges.
    ``tokens_at``: users' requests last got a token.
    """

    value: float | None = None
    started_at: float | None = None
    flat_since: float | None = None
    read_at: float | None = None
    moved_at: float | None = None
    told: bool = False
    tokens_at: float | None = None


def read(evidence: Evidence, counters: Counters | None, at: float, *, stale_after_s: float) -> tuple[Evidence, bool]:
    """The evidence after one reading, and whether the reading shows that the engine is a new process.

    A previous reading older than ``stale_after_s`` is no base for "moved": the engine may have stopped since.
    """
    if counters is None or counters.progress is None:
        return replace(evidence, told=False), False
    fresh = replace(
        evidence,
        value=counters.progress,
        started_at=counters.started_at,
        flat_since=at,
        read_at=at,
        told=counters.running is not None and counters.waiting is not None,
    )
    if _is_new_process(evidence, counters):
        return replace(fresh, moved_at=None), True
    if evidence.read_at is None or evidence.value is None:
        return fresh, False
    if counters.progress == evidence.value:
        return replace(fresh, flat_since=evidence.flat_since), False
    return (replace(fresh, moved_at=at) if at - evidence.read_at <= stale_after_s else fresh), False


def _is_new_process(evidence: Evidence, counters: Counters) -> bool:
    if evidence.started_at is not None and counters.started_at is not None:
        return abs(evidence.started_at - counters.started_at) > 1.0
    return evidence.value is not None and counters.progress is not None and counters.progress < evidence.value


def settled(evidence: Evidence) -> Evidence:
    """Our own probe got a token: what was read before says nothing about the next wait."""
    if evidence.read_at is None:
        return evidence
    return replace(evidence, flat_since=None, read_at=None, moved_at=None, told=False)


def saw_tokens(evidence: Evidence, at: float) -> Evidence:
    """Users' requests got tokens."""
    return evidence if _after(evidence.tokens_at, at) else replace(evidence, tokens_at=at)


def moved_since(evidence: Evidence, since: float) -> bool:
    """Whether users got tokens or the engine's counters moved after this moment."""
    return _after(evidence.tokens_at, since) or _after(evidence.moved_at, since)


def judge(evidence: Evidence, since: float, at: float, frozen_after_s: float) -> Progress:
    """What is known ``at`` this moment about a probe that has waited since ``since``."""
    if _after(evidence.tokens_at, since + TRAFFIC_LAG_S) or _after(evidence.moved_at, since):
        return Progress.SEEN
    if not evidence.told or evidence.flat_since is None or evidence.read_at is None:
        return Progress.UNKNOWN
    if at - evidence.read_at > max(frozen_after_s, MIN_SPAN_S):
        return Progress.UNKNOWN  # nothing was read lately
    span_s = evidence.read_at - evidence.flat_since
    return Progress.FROZEN if span_s >= max(frozen_after_s, MIN_SPAN_S) - 1e-9 else Progress.FLAT


def _after(moment: float | None, since: float) -> bool:
    return moment is not None and moment > since


def flat_for_s(evidence: Evidence) -> float:
    """Over how long the counters were seen without a move."""
    if evidence.flat_since is None or evidence.read_at is None:
        return 0.0
    return evidence.read_at - evidence.flat_since
