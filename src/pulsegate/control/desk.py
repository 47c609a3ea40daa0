"""What may be asked of a running control process, and what an operator may tell it: the port of admin surfaces."""

from collections.abc import Iterator
from dataclasses import replace

from pulsegate.control.clock import wall_time_of
from pulsegate.control.fellowship import Company, Fellowship
from pulsegate.control.outlook import Outlook
from pulsegate.control.ports import Clock
from pulsegate.control.prober import Prober
from pulsegate.control.readiness import ReadinessReport, readiness_of
from pulsegate.core.board import Board
from pulsegate.core.events import DrainAsked
from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.ids import EndpointId, MemberId
from pulsegate.core.snapshot import Snapshot
from pulsegate.core.status import EndpointStatus


class Desk:
    """Reads the board, and passes on what an operator asks for."""

    def __init__(
        self,
        board: Board,
        prober: Prober,
        clock: Clock,
        outlook: Outlook | None = None,
        fellowship: Fellowship | None = None,
    ) -> None:
        self._outlook = outlook
        self._fellowship = fellowship
        self._board = board
        self._prober = prober
        self._clock = clock
        self._began = clock.now()

    @property
    def snapshot(self) -> Snapshot:
        """The routing table."""
        return self._board.snapshot

    def ids(self) -> tuple[EndpointId, ...]:
        """All endpoints, in the order of the configuration."""
        return tuple(self._prober.specs)

    def spec(self, endpoint: str) -> EndpointSpec | None:
        """What is configured for this endpoint; None if it is not known. Holds secrets: never show it whole."""
        return self._prober.specs.get(EndpointId(endpoint))

    def status(self, endpoint: EndpointId) -> EndpointStatus | None:
        """What is known of this endpoint; None if it is not known."""
        return self._board.status(endpoint)

    def statuses(self) -> Iterator[EndpointStatus]:
        """Every endpoint in the order of the configuration, each as it is when it is reached."""
        for endpoint in self.ids():
            status = self._board.status(endpoint)
            if status is not None:  # it may have been removed meanwhile
                yield status

    def drain(self, endpoint: EndpointId, *, drain: bool) -> None:
        """Take an endpoint out of routing, or give it back."""
        self._prober.tell(DrainAsked(at=self._clock.now(), endpoint=endpoint, drain=drain))

    def readiness(self) -> ReadinessReport:
        """May traffic be sent here?"""
        snapshot, outlook = self._board.snapshot, self._outlook
        if outlook is None:
            return readiness_of(snapshot)
        return readiness_of(replace(snapshot, pools=snapshot.pools + outlook.pools()), outlook.knowledge())

    @property
    def company(self) -> Company | None:
        """How this gateway stands with others; None where there are none."""
        return None if self._fellowship is None else self._fellowship.company

    def owner(self, endpoint: EndpointId) -> MemberId | None:
        """Which gateway probes this endpoint; None where there are no others, or it is not known."""
        return None if self._fellowship is None else self._fellowship.owner(endpoint)

    def uptime_s(self) -> float:
        """Seconds since this process began to work."""
        return self._clock.now() - self._began

    def wall_now(self) -> float:
        """Seconds since the epoch."""
        return self._clock.wall()

    def wall_of(self, at: float) -> float:
        """Monotonic seconds as seconds since the epoch."""
        return wall_time_of(self._clock, at)
