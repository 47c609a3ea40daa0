"""The one owner of truth: folds events into what is known about every endpoint.

Synchronous and without I/O: ``apply`` never waits, so nobody needs a lock. The caller's loop is::

    for due in board.take_due(clock.now()):
        start(due)                       # ends in board.apply(ProbeDone(...)), or board.give_back(...)
    sleep_until(board.next_wake_at())    # or until an event was applied
    board.apply(Tick(at=clock.now()))

and after every ``apply`` the effects are carried out. ``ProbeWanted`` needs no bookkeeping by the caller: the board has
moved the endpoint's due time already, so look at ``next_wake_at`` again.
"""

from random import Random

from pulsegate.core.events import Effect, Event
from pulsegate.core.ids import EndpointId
from pulsegate.core.snapshot import Snapshot
from pulsegate.core.status import DueProbe, EndpointStatus


class Board:
    """Knows the fleet from ``FleetChanged`` on; until then it is empty."""

    def __init__(self, rng: Random) -> None:
        """``rng`` gives the jitter and the seed of the nonces."""
        self._rng = rng

    def apply(self, event: Event) -> tuple[Effect, ...]:
        """Take in one event; what follows from it, in order. Events of an unknown endpoint or an earlier life: ()."""
        raise NotImplementedError

    @property
    def snapshot(self) -> Snapshot:
        """The routing table; the same object as long as nothing that others can see has changed."""
        raise NotImplementedError

    def take_due(self, at: float, limit: int | None = None) -> tuple[DueProbe, ...]:
        """The probes that must start now, at most ``limit``, earliest first; claims them: one in flight each."""
        raise NotImplementedError

    def give_back(self, endpoint: EndpointId, at: float) -> None:
        """A claimed probe that was never taken (a shutdown, a cancelled task): due again an interval later."""
        raise NotImplementedError

    def next_wake_at(self) -> float | None:
        """When to call ``apply(Tick)`` and ``take_due`` next, monotonic seconds; None when nothing is watched."""
        raise NotImplementedError

    def status(self, endpoint: EndpointId) -> EndpointStatus | None:
        """Everything about one endpoint; None if it is not known."""
        raise NotImplementedError

    def statuses(self) -> tuple[EndpointStatus, ...]:
        """Everything about every endpoint, in the order of the configuration."""
        raise NotImplementedError
