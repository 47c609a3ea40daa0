"""A worker's eye on one hosted provider: attempts tell it how they fared, routing is told when that changes anything.

Each worker judges by itself and at once, so that nothing has to be asked or waited for, and goes on without a control
process. The control process hears of it for readiness (``seen``).
"""

from collections.abc import Callable, Iterable, Iterator

from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.provider_fault import ProviderFault
from pulsegate.core.provider_health import Place, ProviderHealth
from pulsegate.core.provider_status import PlaceSeen, ProviderSeen
from pulsegate.core.snapshot import EndpointView, PoolView
from pulsegate.gateway.setup import PoolSetup


class ProviderWatch:
    """One provider. ``changed`` is called when its views are others than before; ``outcomes`` counts attempts."""

    __slots__ = ("_changed", "_now", "_outcomes", "_pools", "_reported", "health", "name")

    def __init__(
        self, name: str, now: Callable[[], float], changed: Callable[[], None], outcomes: dict[str, int]
    ) -> None:
        self.name = name
        self.health = ProviderHealth(())
        self._now = now
        self._changed = changed
        self._outcomes = outcomes
        self._pools: tuple[PoolSetup, ...] = ()
        self._reported: ProviderSeen | None = None

    def configure(self, pools: Iterable[PoolSetup]) -> None:
        """Take over a setup's pools of this provider."""
        self._pools = tuple(pools)
        self.health.configure(
            Place(endpoint.id, pool.name, endpoint.key or "") for pool in self._pools for endpoint in pool.endpoints
        )

    def since(self, began_at: float) -> float:
        """Seconds since then."""
        return self._now() - began_at

    # what attempts tell; each is told whether it is a trial and tells it again

    def begin(self, endpoint: EndpointId) -> bool:
        """An attempt starts there; whether it is a trial."""
        trial = self.health.begin(endpoint, self._now())
        if trial:
            self._changed()
        return trial

    def served(self, endpoint: EndpointId, *, trial: bool, ttft_s: float | None) -> None:
        """It answered; ``ttft_s`` for streams."""
        if self.health.served(endpoint, self._now(), trial=trial, ttft_s=ttft_s):
            self._changed()

    def failed(
        self, endpoint: EndpointId, fault: ProviderFault | None, *, trial: bool, retry_after_s: float | None = None
    ) -> None:
        """It failed; None: by no fault of the provider's."""
        if fault is None:
            changed = self.health.neutral(endpoint, trial=trial)
        else:
            changed = self.health.failed(endpoint, fault, self._now(), trial=trial, retry_after_s=retry_after_s)
        if changed:
            self._changed()

    def came_to(self, outcome: str) -> None:
        """Count an attempt that was sent."""
        self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1

    def pinged(self, key: str, fault: ProviderFault | None) -> None:
        """The control process has pinged it with that key."""
        if self.health.pinged(key, fault, self._now()):
            self._changed()

    def tend(self, now: float) -> None:
        """Time passed."""
        due_at = self.health.due_at
        if due_at is not None and now >= due_at and self.health.tick(now):
            self._changed()

    # what is known

    def views(self) -> Iterator[PoolView]:
        """Its pools as routing takes them."""
        for pool in self._pools:
            views = tuple(self._view(endpoint.id) for endpoint in pool.endpoints)
            yield PoolView(name=pool.name, endpoints=views, down=not any(view.weight for view in views))

    def back_in_s(self) -> dict[PoolName, float]:
        """In how many seconds each of its pools may be asked again at the soonest; 0: now, or once a trial is over."""
        rests = self.health.back_in_s(self._now())
        return {
            pool.name: min(rests.get(endpoint.id, 0.0) for endpoint in pool.endpoints)
            for pool in self._pools
            if pool.endpoints
        }

    def _view(self, endpoint: EndpointId) -> EndpointView:
        view = self.health.view(endpoint)
        return EndpointView(
            id=endpoint,
            state=view.state,
            reason=view.reason,
            weight=view.weight,
            low_only=False,
            max_inflight=None,
            ejected=False,
            suspect=False,
            incarnation=Incarnation(0),
        )

    def seen(self) -> ProviderSeen:
        """All of it."""
        places: list[PlaceSeen] = []
        for pool in self._pools:
            for endpoint in pool.endpoints:
                view = self.health.view(endpoint.id)
                places.append(
                    PlaceSeen(
                        endpoint=endpoint.id,
                        pool=pool.name,
                        key=endpoint.key or "",
                        state=view.state,
                        reason=view.reason,
                        weight=view.weight,
                        since=view.since,
                    )
                )
        return ProviderSeen(name=self.name, places=tuple(places), answered_at=self.health.answered_at)

    def news(self) -> ProviderSeen | None:
        """What has changed since it was asked last, None if nothing has."""
        seen = self.seen()
        if seen == self._reported:
            return None
        self._reported = seen
        return seen

    def __repr__(self) -> str:
        return f"ProviderWatch({self.name}, pools={len(self._pools)})"
