"""Something that rests after it has failed and comes back carefully: serving, resting, and one trial at a time.

Decides when it serves; why it failed, and for how long to rest, is said by whoever calls. Times are monotonic seconds,
so that a wall clock that jumps moves nothing.

::

    serving --trip--> resting --time--> trial due --begin--> trying --well, well--> serving
                         ^                  ^                  |  |
                         |                  '----neutral-------'  |
                         '-----------------ill, or too long-------'
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pulsegate.core.health import Reason

TRIAL_S: Final = 30.0
"""How long one trial may take before it counts as failed: a trial that never ends must not block the way back."""

TRIALS: Final = 2
"""So many trials in a row must go well."""


class Phase(StrEnum):
    """What it does."""

    SERVING = "serving"
    RESTING = "resting"
    TRIAL_DUE = "trial_due"
    TRYING = "trying"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """How long to rest: ``first_s``, and twice as long each time it fails again, at most ``longest_s``."""

    first_s: float
    longest_s: float

    def length(self, times: int) -> float:
        """The ``times``-th rest in a row, from 1, in seconds."""
        return min(self.longest_s, self.first_s * 2.0 ** min(times - 1, 30))


class Breaker:
    """One key, one model of a provider, or one of them at the other.

    Attributes:
        phase: as in the module's picture.
        reason: why it does not serve; OK while it does.
        since: when it left the service.
        due_at: when ``tick`` changes something, None if time changes nothing.
    """

    __slots__ = ("_rest", "_times", "_well", "due_at", "phase", "reason", "since")

    def __init__(self) -> None:
        self.phase = Phase.SERVING
        self.reason = Reason.OK
        self.since = 0.0
        self.due_at: float | None = None
        self._rest = Rest(first_s=1.0, longest_s=1.0)
        self._times = 0
        self._well = 0

    def trip(self, reason: Reason, rest: Rest, now: float, *, at_least_s: float = 0.0) -> None:
        """Rest from now on. While it rests already, only a longer rest or a graver reason counts.

        ``at_least_s``: what the other side asked for.
        """
        if self.phase in (Phase.RESTING, Phase.TRIAL_DUE) and self.reason is reason:
            if self.due_at is not None:
                self.due_at = max(self.due_at, now + at_least_s)
            return
        if self.phase is Phase.SERVING:
            self.since = now
            self._times = 0
        self.reason = reason
        self._rest = rest
        self._rest_again(now, at_least_s)

    def _rest_again(self, now: float, at_least_s: float = 0.0) -> None:
        self._times += 1
        self._well = 0
        self.phase = Phase.RESTING
        self.due_at = now + max(at_least_s, self._rest.length(self._times))

    def begin(self, now: float) -> None:
        """A trial begins: nobody else is sent there."""
        self.phase = Phase.TRYING
        self.due_at = now + TRIAL_S

    def well(self) -> None:
        """The trial went well."""
        self._well += 1
        if self._well >= TRIALS:
            self.close()
        else:
            self._offer()

    def ill(self, now: float, *, at_least_s: float = 0.0) -> None:
        """The trial failed in the way for which it rested."""
        self._rest_again(now, at_least_s)

    def neutral(self) -> None:
        """The trial told nothing: another one."""
        if self.phase is Phase.TRYING:
            self._offer()

    def hint(self) -> None:
        """There is reason to think that it is back: no need to rest any longer, but a trial decides."""
        if self.phase is Phase.RESTING:
            self._offer()

    def close(self) -> None:
        """It serves."""
        self.phase = Phase.SERVING
        self.reason = Reason.OK
        self.due_at = None
        self._times = self._well = 0

    def _offer(self) -> None:
        self.phase = Phase.TRIAL_DUE
        self.due_at = None

    def tick(self, now: float) -> bool:
        """Time passed; whether that changed anything."""
        if self.due_at is None or now < self.due_at:
            return False
        if self.phase is Phase.TRYING:
            self._rest_again(now)
        else:
            self._offer()
        return True

    def __repr__(self) -> str:
        return f"Breaker({self.phase}, {self.reason}, due_at={self.due_at})"
