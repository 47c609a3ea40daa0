"""What the control process knows of hosted providers and of money: told by workers, by pings, and by the treasury."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pulsegate.control.readiness import CostView, Knowledge
from pulsegate.core.fleet import ProviderSpec, RouteSpec
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.provider_fault import ProviderFault
from pulsegate.core.provider_status import KeyPing, ProviderSeen, ProviderStatus, resting_keys, status_of
from pulsegate.core.snapshot import EndpointView, PoolView


class Outlook:
    """Kept by the control process.

    ``told`` is called after each round of pings; ``ping`` is who makes one (``Pinging.when_fresh``). ``apart`` says why
    other gateways cannot be reached.
    """

    def __init__(self, cost: Callable[[], CostView] | None = None) -> None:
        self._cost = cost or CostView
        self._routes: tuple[RouteSpec, ...] | None = None
        self._providers: tuple[ProviderSpec, ...] = ()
        self._hosted: tuple[tuple[PoolName, str], ...] = ()
        self._seen: dict[int, dict[str, ProviderSeen]] = {}  # by worker and provider
        self._pings: dict[EndpointId, KeyPing] = {}  # by key
        self.apart: Callable[[], str] = str
        self.told: Callable[[], object] | None = None
        self.ping: Callable[[Callable[[], object]], object] | None = None

    @property
    def providers(self) -> tuple[ProviderSpec, ...]:
        """All that are configured."""
        return self._providers

    def configure(
        self, routes: Sequence[RouteSpec], providers: Sequence[ProviderSpec], hosted: Iterable[tuple[PoolName, str]]
    ) -> None:
        """Take over a configuration; ``hosted`` are the pools of providers."""
        self._routes, self._providers, self._hosted = tuple(routes), tuple(providers), tuple(hosted)
        keys = {key.id for provider in self._providers for key in provider.keys}
        self._pings = {key: ping for key, ping in self._pings.items() if key in keys}

    def heard(self, worker: int, seen: Iterable[ProviderSeen]) -> None:
        """A worker tells how its providers are now."""
        self._seen.setdefault(worker, {}).update((one.name, one) for one in seen)

    def forget(self, worker: int) -> None:
        """That worker is gone."""
        self._seen.pop(worker, None)

    def pinged(self, provider: str, key: EndpointId, fault: ProviderFault | None, at: float) -> None:
        """A ping came back."""
        self._pings[key] = KeyPing(provider=provider, key=key, fault=fault, at=at)

    def when_fresh(self, done: Callable[[], object]) -> None:
        """Call ``done`` when providers have been pinged just now; without anybody who pings, at once."""
        if self.ping is None:
            done()
        else:
            self.ping(done)

    @property
    def pings(self) -> list[KeyPing]:
        """The latest of each key."""
        return list(self._pings.values())

    def tell(self) -> None:
        """A round of pings is over."""
        if self.told is not None:
            self.told()

    # what is known

    @property
    def cost(self) -> CostView:
        """How money stands."""
        return self._cost()

    def knowledge(self) -> Knowledge:
        """For readiness."""
        providers = tuple(self._status(spec) for spec in self._providers)
        return Knowledge(
            routes=self._routes, providers=providers, hosted=self._hosted, cost=self._cost(), apart=self.apart()
        )

    def standings(self) -> list[tuple[ProviderStatus, Counter[Reason]]]:
        """For metrics: each provider, and how many of its keys rest, by why."""
        return [(self._status(spec), resting_keys(self._seen_of(spec))) for spec in self._providers]

    def _status(self, spec: ProviderSpec) -> ProviderStatus:
        pings = [ping for ping in self._pings.values() if ping.provider == spec.name]
        return status_of(spec.name, configured=spec.configured, seen=self._seen_of(spec), pings=pings)

    def _seen_of(self, spec: ProviderSpec) -> list[ProviderSeen]:
        return [seen[spec.name] for seen in self._seen.values() if spec.name in seen]

    def pools(self) -> tuple[PoolView, ...]:
        """The pools of providers: one serves while any worker thinks so, or none has said anything."""
        return tuple(self._pool(name, provider) for name, provider in self._hosted)

    def _pool(self, name: PoolName, provider: str) -> PoolView:
        places = [
            place
            for seen in self._seen.values()
            if provider in seen
            for place in seen[provider].places
            if place.pool == name
        ]
        weight = max((place.weight for place in places), default=100)
        view = EndpointView(
            id=EndpointId(name),
            state=State.HEALTHY if weight else State.UNHEALTHY,
            reason=Reason.OK,
            weight=weight,
            low_only=False,
            max_inflight=None,
            ejected=False,
            suspect=False,
            incarnation=Incarnation(0),
        )
        return PoolView(name=name, endpoints=(view,), down=not weight)
