"""What one worker counted: running totals since it started, so that a lost batch loses nothing.

Histograms are counts per bucket (not cumulative), one more than there are bounds: the last one is for everything above.
msgspec carries these over a socket; ``export/`` makes Prometheus series of them and adds up the workers.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeVar

from pulsegate.core.ids import EndpointId

_Key = TypeVar("_Key")

TTFT_BOUNDS_S = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
GAP_BOUNDS_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
OWN_BOUNDS_S = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1)


@dataclass(slots=True, kw_only=True)
class Histogram:
    """Counts per bucket of one measure in seconds, and their sum."""

    counts: list[int]
    total_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class EndpointFigures:
    """One endpoint: attempts by how they ended, tokens, time to the first token, gap between tokens."""

    endpoint: EndpointId
    inflight: int = 0
    attempts: int = 0
    failures: dict[str, int]  # by FailureKind, and "stalled", "cut" after the first token
    tokens: int = 0  # relayed events that carried data; usage tells the true number per request
    ttft: Histogram
    gaps: Histogram


@dataclass(slots=True, kw_only=True)
class RouteFigures:
    """One public model name: requests by status, usage, how many were saved."""

    route: str
    requests: dict[int, int]  # by the status that the client got; 499 for a client that left before
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usage_missing: int = 0
    replays: dict[str, int]  # by cause
    hedges: int = 0
    rescued: int = 0  # requests that ended well although an attempt of theirs did not


@dataclass(slots=True, kw_only=True)
class ProviderFigures:
    """One hosted provider: attempts by what they came to."""

    provider: str
    outcomes: dict[str, int]  # by ProviderFault, and "ok", "cancelled"


@dataclass(slots=True, kw_only=True)
class WorkerFigures:
    """Everything that one worker counted. ``own`` is the time that a request spent inside the gateway itself."""

    connections: int
    in_flight: int
    retries_under_way: int
    refused: dict[str, int]  # requests that ended before routing, by error code
    endpoints: list[EndpointFigures]
    routes: list[RouteFigures]
    own: Histogram
    providers: list[ProviderFigures] = field(default_factory=list[ProviderFigures])


def total(parts: Iterable[WorkerFigures]) -> WorkerFigures:
    """The figures of several workers as if one had counted them all."""
    return reduce(_added, parts, nothing())


def nothing() -> WorkerFigures:
    """What a worker that has done nothing counts."""
    own = Histogram(counts=[0] * (len(OWN_BOUNDS_S) + 1))
    return WorkerFigures(connections=0, in_flight=0, retries_under_way=0, refused={}, endpoints=[], routes=[], own=own)


def _added(one: WorkerFigures, other: WorkerFigures) -> WorkerFigures:
    endpoints = {figures.endpoint: figures for figures in one.endpoints}
    for figures in other.endpoints:
        known = endpoints.get(figures.endpoint)
        endpoints[figures.endpoint] = figures if known is None else _added_endpoint(known, figures)
    routes = {figures.route: figures for figures in one.routes}
    for figures in other.routes:
        known = routes.get(figures.route)
        routes[figures.route] = figures if known is None else _added_route(known, figures)
    providers = {figures.provider: figures.outcomes for figures in one.providers}
    for told in other.providers:
        providers[told.provider] = _added_counts(providers.get(told.provider, {}), told.outcomes)
    return WorkerFigures(
        connections=one.connections + other.connections,
        in_flight=one.in_flight + other.in_flight,
        retries_under_way=one.retries_under_way + other.retries_under_way,
        refused=_added_counts(one.refused, other.refused),
        endpoints=list(endpoints.values()),
        routes=list(routes.values()),
        own=_added_histogram(one.own, other.own),
        providers=[ProviderFigures(provider=name, outcomes=outcomes) for name, outcomes in providers.items()],
    )


def _added_endpoint(one: EndpointFigures, other: EndpointFigures) -> EndpointFigures:
    return EndpointFigures(
        endpoint=one.endpoint,
        inflight=one.inflight + other.inflight,
        attempts=one.attempts + other.attempts,
        failures=_added_counts(one.failures, other.failures),
        tokens=one.tokens + other.tokens,
        ttft=_added_histogram(one.ttft, other.ttft),
        gaps=_added_histogram(one.gaps, other.gaps),
    )


def _added_route(one: RouteFigures, other: RouteFigures) -> RouteFigures:
    return RouteFigures(
        route=one.route,
        requests=_added_counts(one.requests, other.requests),
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        usage_missing=one.usage_missing + other.usage_missing,
        replays=_added_counts(one.replays, other.replays),
        hedges=one.hedges + other.hedges,
        rescued=one.rescued + other.rescued,
    )


def _added_counts(one: dict[_Key, int], other: dict[_Key, int]) -> dict[_Key, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {**one, **other}}


def _added_histogram(one: Histogram, other: Histogram) -> Histogram:
    counts = [a + b for a, b in zip(one.counts, other.counts, strict=True)]
    return Histogram(counts=counts, total_s=one.total_s + other.total_s)
