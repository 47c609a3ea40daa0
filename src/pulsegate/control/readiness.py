"""May traffic be sent to this gateway? Read from what is known, without touching the network.

The control process and each worker ask the same function about what each of them knows, so that both ports say the
same as long as they hear of each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from pulsegate.core.fleet import RouteSpec
from pulsegate.core.ids import PoolName
from pulsegate.core.provider_status import ProviderState, ProviderStatus
from pulsegate.core.snapshot import PoolView, Snapshot


class Readiness(StrEnum):
    """Three answers: a gateway that has lost something but still serves must not be pulled out."""

    READY = "ready"
    DEGRADED = "degraded"
    NOT_READY = "not_ready"


class CostState(StrEnum):
    """Whether paid calls may be made."""

    OPEN = "open"
    WARNING = "warning"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CostView:
    """Money, as far as readiness goes. ``detail`` says why paid calls are refused, or that the limit is near."""

    status: CostState = CostState.OPEN
    detail: str = ""
    total_cny: Decimal | None = None
    limit_cny: Decimal | None = None
    remaining_cny: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReadiness:
    """One public model name: ``up`` by its first tier, ``degraded`` by a fallback of it, or ``down``."""

    name: str
    status: str
    served_by: PoolName | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """The answer, why it is not ``ready``, and what serves."""

    readiness: Readiness
    reasons: tuple[str, ...]
    serving: tuple[PoolName, ...]
    down: tuple[PoolName, ...]
    models: tuple[ModelReadiness, ...] = ()
    providers: tuple[ProviderStatus, ...] = ()
    cost: CostView = CostView()


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known beside the routing table.

    Attributes:
        routes: None: each pool is a route of its own.
        providers: all that are configured.
        hosted: pools of providers, by name the provider.
        cost: whether paid calls may be made.
        apart: why other gateways, which share our probes, cannot be reached; empty: they can, or there are none.
    """

    routes: Sequence[RouteSpec] | None = None
    providers: tuple[ProviderStatus, ...] = ()
    hosted: tuple[tuple[PoolName, str], ...] = ()
    cost: CostView = CostView()
    apart: str = ""


def readiness_of(snapshot: Snapshot, known: Knowledge | None = None) -> ReadinessReport:
    """READY: every model is served as it should be. DEGRADED: something is lost. NOT_READY: no model is served at all.

    Args:
        snapshot: all pools, those of providers among them.
        known: what else there is.
    """
    known = known or Knowledge()
    providers = {status.name: status for status in known.providers}
    hosted = dict(known.hosted)
    serving = tuple(
        view.name for view in snapshot.pools if _serves(view) and _up(providers.get(hosted.get(view.name, "")))
    )
    down = tuple(view.name for view in snapshot.pools if view.name not in serving)
    routes = known.routes
    if routes is None:
        routes = [RouteSpec(name=view.name, tiers=(view.name,)) for view in snapshot.pools]
    models = tuple(_model(route, frozenset(serving)) for route in routes)
    reasons = tuple(_reasons(snapshot, models, down, known))
    if not any(model.served_by is not None for model in models):
        readiness = Readiness.NOT_READY
    else:
        readiness = Readiness.DEGRADED if reasons else Readiness.READY
    return ReadinessReport(
        readiness=readiness,
        reasons=reasons,
        serving=serving,
        down=down,
        models=models,
        providers=known.providers,
        cost=known.cost,
    )


def _serves(pool: PoolView) -> bool:
    return not pool.down and any(view.weight > 0 and not view.ejected for view in pool.endpoints)


def _up(provider: ProviderStatus | None) -> bool:
    return provider is None or provider.state is not ProviderState.DOWN


def _model(route: RouteSpec, serving: frozenset[PoolName]) -> ModelReadiness:
    served_by = next((tier for tier in route.tiers if tier in serving), None)
    status = "down" if served_by is None else "up" if served_by == route.tiers[0] else "degraded"
    return ModelReadiness(name=route.name, status=status, served_by=served_by)


def _reasons(
    snapshot: Snapshot, models: Sequence[ModelReadiness], down: Sequence[PoolName], known: Knowledge
) -> Iterable[str]:
    if not snapshot.pools or not models:
        yield "nothing is configured"
    hosted, states = dict(known.hosted), {view.name: view for view in snapshot.pools}
    for name in down:
        if name in hosted:
            continue
        if states[name].starting:
            yield f"pool {name} is starting: its first round of probes is not over"
        else:
            yield f"pool {name} serves nobody"
    used = {provider for _, provider in known.hosted}
    for status in known.providers:
        if status.name in used and status.state in (ProviderState.DOWN, ProviderState.DEGRADED):
            yield f"provider {status.name} is {status.state.value}: {status.reason}"
    if known.cost.status is CostState.CLOSED:
        yield f"paid calls are refused: {known.cost.detail}"
    if known.apart:
        yield f"other gateways cannot be reached: {known.apart}"
