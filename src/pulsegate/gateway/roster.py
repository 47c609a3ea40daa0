"""Routes, pools and endpoints as a worker holds them: made from a setup, moved by snapshots."""

from collections.abc import Callable, Sequence
from math import ceil

from pulsegate.core.blame import RETRY_SOON_S
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.rescue import RescuePolicy
from pulsegate.core.routing import Plan, Seat, affinity_seed_of, compile_plan, seat_views
from pulsegate.core.snapshot import PoolView, Snapshot
from pulsegate.gateway.access import json_text
from pulsegate.gateway.backend import Backend, Spawn
from pulsegate.gateway.counters import Counters, RouteCounters
from pulsegate.gateway.provider_watch import ProviderWatch
from pulsegate.gateway.setup import EndpointSetup, PoolSetup, RouteSetup, Setup
from pulsegate.gateway.welcome import untold_view


class Route:
    """One public model name: how it is served now. ``plan`` is replaced by each snapshot."""

    __slots__ = ("counters", "json_name", "plan", "setup", "streams", "wholes")

    def __init__(self, setup: RouteSetup, counters: RouteCounters) -> None:
        self.setup = setup
        self.counters = counters
        self.json_name = json_text(setup.name)
        self.plan = Plan(route=setup.name, tiers=())
        self.streams = RescuePolicy(attempt_deadline_s=30.0, total_deadline_s=900.0)
        self.wholes = self.streams

    def current_plan(self) -> Plan:
        """The plan as of now."""
        return self.plan


class Roster:
    """Everything that requests are routed to."""

    __slots__ = ("_counters", "_now", "_spawn", "_views", "backends", "routes", "version", "watches")

    def __init__(self, counters: Counters, *, now: Callable[[], float], spawn: Spawn) -> None:
        self.routes: dict[str, Route] = {}
        self.backends: dict[EndpointId, Backend] = {}
        self.version: int | None = None
        self.watches: dict[str, ProviderWatch] = {}
        self._views: dict[PoolName, PoolView] = {}
        self._counters = counters
        self._now = now
        self._spawn = spawn

    def configure(self, setup: Setup) -> None:
        """Take over a setup. Endpoints that are unchanged keep their connections, all that stay keep their counts.

        Raises:
            ValueError: the setup contradicts itself; nothing has changed then.
        """
        check(setup)
        backends = self._backends(setup)
        for endpoint, old in self.backends.items():
            if backends.get(endpoint) is not old:
                old.retire()
        self.backends = backends
        self.watches = self._watches(setup)
        for pool in setup.pools:
            watch = None if pool.provider is None else self.watches[pool.provider]
            for endpoint in pool.endpoints:
                backends[endpoint.id].adjust(pool, setup.limits, watch)
        pools = {pool.name: pool for pool in setup.pools}
        for pool in setup.pools:
            self._views[pool.name] = untold_view(pool, self._views.get(pool.name), started=self.version is not None)
        self._views = {name: self._views[name] for name in pools}
        old_routes = self.routes
        self.routes = {}
        for spec in setup.routes:
            route = old_routes.get(spec.name) or Route(spec, self._counters.route(spec.name))
            route.setup = spec
            route.streams, route.wholes = policies(setup, [pools[tier] for tier in spec.tiers])
            self.routes[spec.name] = route
        self._apply()

    def _watches(self, setup: Setup) -> dict[str, ProviderWatch]:
        """One watch per provider; those that stay know what they knew."""
        watches: dict[str, ProviderWatch] = {}
        for name in dict.fromkeys(pool.provider for pool in setup.pools if pool.provider is not None):
            watch = self.watches.get(name) or ProviderWatch(
                name, self._now, self._apply_news, self._counters.provider(name)
            )
            watches[name] = watch
            watch.configure(pool for pool in setup.pools if pool.provider == name)
        return watches

    def _apply_news(self) -> None:
        self._apply()

    def tend(self, now: float) -> None:
        """Time passed: what rested may be tried again."""
        for watch in self.watches.values():
            watch.tend(now)

    def back_in_s(self, route: Route, otherwise_s: int) -> int:
        """When to ask again for what nobody serves now: as soon as a provider has rested.

        ``otherwise_s``: nobody knows when a self-hosted server comes back.
        """
        known = {pool: rest_s for watch in self.watches.values() for pool, rest_s in watch.back_in_s().items()}
        return max(RETRY_SOON_S, ceil(min(known.get(tier, otherwise_s) for tier in route.setup.tiers)))

    def _backends(self, setup: Setup) -> dict[EndpointId, Backend]:
        backends: dict[EndpointId, Backend] = {}
        for pool in setup.pools:
            for endpoint in pool.endpoints:
                old = self.backends.get(endpoint.id)
                if old is None or old.setup != endpoint:
                    old = self._backend(endpoint, pool, setup)
                backends[endpoint.id] = old
        return backends

    def _backend(self, endpoint: EndpointSetup, pool: PoolSetup, setup: Setup) -> Backend:
        seat = Seat(id=endpoint.id, pool=pool.name, affinity_seed=affinity_seed_of(endpoint.id))
        counters = self._counters.endpoint(seat)
        try:
            return Backend(endpoint, pool, setup.limits, counters=counters, now=self._now, spawn=self._spawn)
        except OSError as exc:
            raise ValueError(f"endpoint {endpoint.id}: its TLS files cannot be read: {exc}") from exc

    def follow(self, snapshot: Snapshot) -> tuple[list[Seat], list[Seat]]:
        """Route by this snapshot from now on.

        Returns:
            the seats that became ejected, and those that became suspect.
        """
        self.version = snapshot.version
        for view in snapshot.pools:
            if view.name in self._views:
                self._views[view.name] = view
        return self._apply()

    @property
    def table(self) -> Snapshot:
        """What requests are routed by now."""
        return Snapshot(version=self.version or 0, pools=tuple(self._views.values()))

    def _apply(self) -> tuple[list[Seat], list[Seat]]:
        for watch in self.watches.values():
            self._views.update((view.name, view) for view in watch.views())
        seats = {endpoint: backend.seat for endpoint, backend in self.backends.items()}
        changed = seat_views(seats, self._views.values())
        for view in (view for pool in self._views.values() for view in pool.endpoints):
            backend = self.backends.get(view.id)
            if backend is not None:
                backend.model = backend.setup.model or view.served_model
        for route in self.routes.values():
            route.plan = compile_plan(route.setup.name, route.setup.tiers, self._views, seats)
        return changed

    def close(self) -> None:
        """Close every connection."""
        for backend in self.backends.values():
            backend.close()


def check(setup: Setup) -> None:
    """Whether a setup holds together.

    Raises:
        ValueError: it does not; the message says what is missing or double.
    """
    pools = {pool.name for pool in setup.pools}
    for route in setup.routes:
        if not route.tiers:
            raise ValueError(f"route {route.name}: it names no pool")
        missing = [tier for tier in route.tiers if tier not in pools]
        if missing:
            raise ValueError(f"route {route.name}: there is no pool {missing[0]}")
    ids = [endpoint.id for pool in setup.pools for endpoint in pool.endpoints]
    double = next((endpoint for endpoint in ids if ids.count(endpoint) > 1), None)
    if double is not None:
        raise ValueError(f"endpoint {double} is configured twice")


def policies(setup: Setup, pools: Sequence[PoolSetup]) -> tuple[RescuePolicy, RescuePolicy]:
    """How long streams, and requests without streaming, may wait, and how often they are tried.

    Hosted providers come on top of the ordinary number of attempts, each key once: a chain is there to be gone through.
    """
    limits, pool = setup.limits, pools[0]
    hosted = sum(len(pool.endpoints) for pool in pools if pool.provider is not None)

    def policy(attempt_deadline_s: float) -> RescuePolicy:
        return RescuePolicy(
            attempt_deadline_s=attempt_deadline_s,
            total_deadline_s=limits.total_deadline_s,
            max_attempts=limits.max_attempts + hosted,
            hedge=setup.hedge,
        )

    return policy(pool.ttft_deadline_s), policy(pool.answer_deadline_s)
