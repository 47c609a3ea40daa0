"""How many users' requests each endpoint holds, over all workers: each of them reports only its own."""

from dataclasses import replace

from pulsegate.core.events import TrafficSeen
from pulsegate.core.ids import EndpointId


class Holding:
    """What workers said that endpoints hold for them, added up. A worker that is gone holds nothing."""

    def __init__(self) -> None:
        self._by_worker: dict[int, dict[EndpointId, int]] = {}

    def summed(self, worker: int, seen: TrafficSeen) -> TrafficSeen:
        """One worker's report, with what all of them hold there in the place of what it holds itself."""
        self._by_worker.setdefault(worker, {})[seen.endpoint] = seen.inflight
        inflight = self._sum(seen.endpoint)
        return seen if inflight == seen.inflight else replace(seen, inflight=inflight)

    def without(self, worker: int, at: float) -> list[TrafficSeen]:
        """That worker is gone: reports on the endpoints where it held requests, which ended with it."""
        held = self._by_worker.pop(worker, {})
        return [TrafficSeen(at=at, endpoint=key, inflight=self._sum(key)) for key, count in held.items() if count]

    def _sum(self, endpoint: EndpointId) -> int:
        return sum(held.get(endpoint, 0) for held in self._by_worker.values())
