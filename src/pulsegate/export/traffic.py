"""Prometheus series of the data plane: the running totals of all workers, added up. docs/metrics.md describes each.

A worker's totals begin anew when it is started again; what it had counted until then is kept, so that no series falls.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pulsegate.core.figures import (
    GAP_BOUNDS_S,
    OWN_BOUNDS_S,
    TTFT_BOUNDS_S,
    EndpointFigures,
    Histogram,
    RouteFigures,
    WorkerFigures,
)

Labels = tuple[str, ...]


class TrafficSeries:
    """A collector for a Prometheus registry, fed with the figures of each worker."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._now: dict[int, WorkerFigures] = {}
        self._gone: list[WorkerFigures] = []
        registry.register(self)

    def counted(self, worker: int, figures: WorkerFigures) -> None:
        """The latest totals of this worker."""
        self._now[worker] = figures

    def gone(self, worker: int) -> None:
        """This worker's process is over; what it counted stays counted."""
        last = self._now.pop(worker, None)
        if last is not None:
            self._gone.append(last)

    def collect(self) -> Iterable[Metric]:
        """prometheus_client: all series."""
        live, every = list(self._now.values()), [*self._gone, *self._now.values()]
        routes = [route for figures in every for route in figures.routes]
        endpoints = [endpoint for figures in every for endpoint in figures.endpoints]
        yield _gauge("pulsegate_connections", "Client connections that are open.", (one.connections for one in live))
        yield _gauge("pulsegate_requests_in_flight", "Requests under way.", (one.in_flight for one in live))
        yield _gauge(
            "pulsegate_retries_in_flight", "Replays and hedges under way.", (one.retries_under_way for one in live)
        )
        yield from _of_routes(routes)
        yield from _of_endpoints(endpoints)
        refused: dict[Labels, float] = defaultdict(float)
        for figures in every:
            for code, count in figures.refused.items():
                refused[code,] += count
        yield _counter("pulsegate_refused_requests", "Requests that ended before routing.", ["code"], refused)
        yield _histogram(
            "pulsegate_own_seconds",
            "Time that a request spent inside the gateway itself.",
            OWN_BOUNDS_S,
            [],
            [((), figures.own) for figures in every],
        )


def _of_routes(routes: Sequence[RouteFigures]) -> Iterable[Metric]:
    requests: dict[Labels, float] = defaultdict(float)
    replays: dict[Labels, float] = defaultdict(float)
    for route in routes:
        for status, count in route.requests.items():
            requests[route.route, str(status)] += count
        for cause, count in route.replays.items():
            replays[route.route, cause] += count
    yield _counter(
        "pulsegate_requests", "Requests that ended, by the status the client got.", ["model", "status"], requests
    )
    yield _counter("pulsegate_replays", "Attempts beyond the first, by why.", ["model", "cause"], replays)
    sums: tuple[tuple[str, str, Callable[[RouteFigures], int]], ...] = (
        (
            "pulsegate_hedges",
            "Second attempts beside a first that waited on a suspect endpoint.",
            lambda one: one.hedges,
        ),
        (
            "pulsegate_rescued_requests",
            "Requests that ended well although an attempt did not.",
            lambda one: one.rescued,
        ),
        ("pulsegate_prompt_tokens", "Tokens in, as engines reported.", lambda one: one.prompt_tokens),
        ("pulsegate_completion_tokens", "Tokens out, as engines reported.", lambda one: one.completion_tokens),
        ("pulsegate_usage_missing_requests", "Good answers without usage.", lambda one: one.usage_missing),
    )
    for name, text, value in sums:
        by_route: dict[Labels, float] = defaultdict(float)
        for route in routes:
            by_route[route.route,] += value(route)
        yield _counter(name, text, ["model"], by_route)


def _of_endpoints(endpoints: Sequence[EndpointFigures]) -> Iterable[Metric]:
    attempts: dict[Labels, float] = defaultdict(float)
    failures: dict[Labels, float] = defaultdict(float)
    for one in endpoints:
        attempts[one.endpoint,] += one.attempts
        for kind, count in one.failures.items():
            failures[one.endpoint, kind] += count
    yield _counter("pulsegate_attempts", "Attempts sent to an endpoint.", ["endpoint"], attempts)
    yield _counter("pulsegate_attempt_failures", "Attempts that failed there, by how.", ["endpoint", "kind"], failures)
    yield _histogram(
        "pulsegate_ttft_seconds",
        "Users' time to the first token.",
        TTFT_BOUNDS_S,
        ["endpoint"],
        [((one.endpoint,), one.ttft) for one in endpoints],
    )
    yield _histogram(
        "pulsegate_token_gap_seconds",
        "Time between two tokens of a stream.",
        GAP_BOUNDS_S,
        ["endpoint"],
        [((one.endpoint,), one.gaps) for one in endpoints],
    )


def _gauge(name: str, text: str, values: Iterable[int]) -> Metric:
    return GaugeMetricFamily(name, text, value=sum(values))


def _counter(name: str, text: str, labels: Sequence[str], values: dict[Labels, float]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _histogram(
    name: str, text: str, bounds: tuple[float, ...], labels: Sequence[str], parts: Sequence[tuple[Labels, Histogram]]
) -> Metric:
    counts: dict[Labels, list[int]] = {}
    totals: dict[Labels, float] = defaultdict(float)
    for key, part in parts:
        sums = counts.setdefault(key, [0] * (len(bounds) + 1))
        for index, count in enumerate(part.counts):
            sums[index] += count
        totals[key] += part.total_s
    family = HistogramMetricFamily(name, text, labels=labels)
    for key, sums in counts.items():
        running, buckets = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, bounds), "+Inf"), sums, strict=True):
            running += count
            buckets.append((bound, running))
        family.add_metric(key, buckets, totals[key])
    return family
