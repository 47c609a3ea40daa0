"""Where a worker's news go: the joint between the data plane and the process around it."""

from collections.abc import Sequence
from typing import Protocol

from pulsegate.core.events import TrafficSeen
from pulsegate.core.figures import WorkerFigures
from pulsegate.core.provider_status import ProviderSeen


class Sink(Protocol):
    """Takes a worker's reports. Called from the event loop: must be quick and must not raise."""

    def traffic(self, seen: Sequence[TrafficSeen]) -> None:
        """What happened at endpoints since the last call: at most every 100 ms, failures and stalls at once."""
        ...

    def figures(self, figures: WorkerFigures) -> None:
        """All counters, about once a second while something happened."""
        ...

    def providers(self, seen: Sequence[ProviderSeen]) -> None:
        """How hosted providers are now, those that have changed."""
        ...

    def ask_ping(self, ask: int) -> bool:
        """Have providers pinged: ``Gateway.ping_over(ask)`` is called then. False: there is nobody who could."""
        ...


class NullSink:
    """Forgets everything."""

    __slots__ = ()

    def traffic(self, seen: Sequence[TrafficSeen]) -> None:
        """Forget it."""

    def figures(self, figures: WorkerFigures) -> None:
        """Forget it."""

    def providers(self, seen: Sequence[ProviderSeen]) -> None:
        """Forget it."""

    def ask_ping(self, ask: int) -> bool:  # noqa: ARG002 - there is nobody who could
        """Nobody pings."""
        return False
