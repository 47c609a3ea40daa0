"""What all requests of one worker share."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pulsegate.control.readiness import CostView
from pulsegate.core.provider_status import KeyPing
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Seat
from pulsegate.gateway.access import AccessLog
from pulsegate.gateway.books import Books
from pulsegate.gateway.counters import Counters
from pulsegate.gateway.framing import SizeLines
from pulsegate.gateway.keys import KeyRing
from pulsegate.gateway.request_head import HeadRules
from pulsegate.gateway.roster import Roster
from pulsegate.gateway.setup import Setup


class Live(Protocol):
    """A request under way, as the sweeper and the snapshots see it."""

    due_at: float
    started_at: float

    def due(self, now: float) -> None:
        """``due_at`` has come."""
        ...

    def budget_freed(self, now: float) -> None:
        """The retry budget may have room."""
        ...

    def endpoints_changed(self, ejected: list[Seat], suspect: list[Seat], now: float) -> None:
        """A snapshot ejected or suspects endpoints."""
        ...

    def crash(self) -> None:
        """Our own code failed: give up everything that belongs to it."""
        ...

    def client_gone(self) -> None:
        """Nobody waits for it any more."""
        ...


class PingCall(Protocol):
    """Who waits for providers to be pinged."""

    def ping_over(self) -> None:
        """They have been, or nobody can."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class Context:
    """One worker's shared state: plain references, owned by ``Gateway``.

    Attributes:
        now: monotonic seconds; ``wall`` seconds since the epoch; ``wall_offset_s`` between them, looked at every
            second.
        turn_at: monotonic seconds at the sweeper's latest turn, for deadlines that may be 50 ms off.
        random: uniform in [0, 1).
        live: requests under way.
        parked: those of them that wait for the retry budget, in order.
        rules: what becomes of clients' headers.
        books: what attempts are written into; None: nowhere.
        draining: answers close their connections.
        pings: the latest with each provider's key; ``cost`` how money stands; ``apart`` why other gateways cannot be
            reached: told by the control process.
        ask_ping: has providers pinged for somebody.
        alarm: called when something should be reported at once; ``pump`` when the retry budget may have room again.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    random: Callable[[], float]
    new_id: Callable[[], bytes]
    setup: Setup
    roster: Roster
    counters: Counters
    budget: RetryBudget
    keys: KeyRing | None
    access: AccessLog
    alarm: Callable[[], object]
    pump: Callable[[], object]
    started_at: float
    books: Books | None = None
    wall_offset_s: float = 0.0
    turn_at: float = 0.0
    rules: HeadRules = field(default_factory=HeadRules)
    draining: bool = False
    pings: dict[str, KeyPing] = field(default_factory=dict[str, KeyPing])
    cost: CostView = field(default_factory=CostView)
    apart: str = ""
    ask_ping: Callable[[PingCall], object] | None = None
    size_lines: SizeLines = field(default_factory=SizeLines)
    live: set[Live] = field(default_factory=set[Live])
    parked: deque[Live] = field(default_factory=deque[Live])
