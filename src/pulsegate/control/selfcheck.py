"""Doubts the prober itself: how long did our own event loop stand still?

A probe that was late because *we* were late says nothing about its endpoint. A heartbeat on the loop notices every
stall, also one in which the whole process was stopped or the machine slept; each probe result carries the longest
stall of its life, and the core calls it LOCAL when that was too long. What to do about it is not decided here.
"""

from collections import deque
from dataclasses import dataclass

from pulsegate.control.ports import Cancellable, Clock, Timers

BEAT_S = 0.04  # a quarter of what spoils a probe with the default deadline
NOTABLE_S = BEAT_S  # smaller stalls are ordinary scheduling and are not kept
KEEP_S = 120.0  # longer than any probe lives


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """The loop stood still for ``lag_s`` and went on at ``until`` (monotonic seconds)."""

    until: float
    lag_s: float


class LoopLag:
    """A heartbeat on the event loop that measures how late it is, as long as somebody has entered.

    A stall is seen with the precision of one beat (40 ms): a shorter one may be missed, a longer one is measured at
    most one beat too short.
    """

    __slots__ = ("_beat_boot", "_clock", "_inside", "_stalls", "_timer", "_timers")

    def __init__(self, clock: Clock, timers: Timers) -> None:
        self._clock = clock
        self._timers = timers
        self._stalls: deque[Stall] = deque()
        self._inside = 0
        self._beat_boot: float | None = None  # when the last beat was, None while there is none
        self._timer: Cancellable | None = None

    def enter(self) -> None:
        """A probe begins: measure from now on."""
        self._inside += 1
        if self._timer is None:
            self._rearm()

    def leave(self) -> None:
        """A probe that had entered is over. The heart beats once more, then rests if nobody else is inside."""
        self._inside -= 1

    def stop(self) -> None:
        """Beat no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._beat_boot = None

    def since(self, began: float) -> float:
        """The longest stall, in seconds, that touched the time from ``began`` (monotonic) until now.

        A stall that has not met its beat yet (this call runs first after it) counts too.
        """
        longest_s = self._overdue()
        if longest_s < NOTABLE_S:
            longest_s = 0.0
        if not self._stalls:
            return longest_s
        for stall in reversed(self._stalls):
            if stall.until < began:
                break
            longest_s = max(longest_s, stall.lag_s)
        return longest_s

    def _overdue(self) -> float:
        if self._beat_boot is None:
            return 0.0
        return max(0.0, self._clock.boot() - self._beat_boot - BEAT_S)

    def _rearm(self) -> None:
        self._beat_boot = self._clock.boot()
        self._timer = self._timers.call_at(self._clock.now() + BEAT_S, self._beat)

    def _beat(self) -> None:
        now = self._clock.now()
        lag_s = self._overdue()
        if lag_s >= NOTABLE_S:
            self._stalls.append(Stall(until=now, lag_s=lag_s))
        while self._stalls and self._stalls[0].until < now - KEEP_S:
            self._stalls.popleft()
        if self._inside:
            self._rearm()
        else:
            self.stop()

    def __repr__(self) -> str:
        return f"LoopLag(stalls={len(self._stalls)})"
