"""Prometheus series of the data plane: the running totals of all workers, added up. docs/metrics.md describes each.

A worker's totals begin anew when it is started again; what it had counted until then is kept, so that no series falls.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from pulsegate.core.figures import (
    GAP_BOUNDS_S,
    OWN_BOUNDS_S,
    TTFT_BOUNDS_S,
    EndpointFigures,
    Histogram,
    ProviderFigures,
    RouteFigures,
    WorkerFigures,
    nothing,
    total,
)

Labels = tuple[str, ...]


class TrafficSeries:
    """A collector for a Prometheus registry, fed with the figures of each worker. Rendered in any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._now: dict[int, WorkerFigures] = {}
        self._past = nothing()
        self._deaths = 0
        registry.register(self)

    def counted(self, worker: int, figures: WorkerFigures) -> None:
        """The latest totals of this worker."""
        self._now[worker] = figures

    def gone(self, worker: int) -> None:
        """This worker's process is over: what it counted stays counted, what it held is free."""
        last = self._now.pop(worker, None)
        if last is not None:
            self._past = total((self._past, replace(last, connections=0, in_flight=0, retries_under_way=0)))

    def died(self) -> None:
        """A worker ended without being asked to."""
        self._deaths += 1

    def collect(self) -> Iterable[Metric]:
        """prometheus_client: all series."""
        live = tuple(self._now.values())
        every = total((self._past, *live))
        yield GaugeMetricFamily("pulsegate_workers", "Workers that have reported.", value=len(live))
        yield CounterMetricFamily(
            "pulsegate_worker_deaths", "Workers that ended without being asked to.", value=self._deaths
        )
        yield GaugeMetricFamily("pulsegate_connections", "Client connections that are open.", value=every.connections)
        yield GaugeMetricFamily("pulsegate_requests_in_flight", "Requests under way.", value=every.in_flight)
        yield GaugeMetricFamily(
            "pulsegate_retries_in_flight", "Replays and hedges under way.", value=every.retries_under_way
        )
        yield from _of_routes(every.routes)
        yield from _of_endpoints(every.endpoints)
        yield _of_providers(every.providers)
        refused = [((code,), count) for code, count in every.refused.items()]
        yield _counter("pulsegate_refused_requests", "Requests that ended before routing, by why.", ["code"], refused)
        yield _histogram(
            "pulsegate_own_seconds",
            "Time that a request spent inside the gateway itself.",
            OWN_BOUNDS_S,
            [],
            [((), every.own)],
        )


def _of_routes(routes: Sequence[RouteFigures]) -> Iterable[Metric]:
    yield _counter(
        "pulsegate_requests",
        "Requests that ended, by the status that the client got.",
        ["model", "status"],
        [((one.route, str(status)), count) for one in routes for status, count in one.requests.items()],
    )
    yield _counter(
        "pulsegate_replays",
        "Attempts beyond the first, by why.",
        ["model", "cause"],
        [((one.route, cause), count) for one in routes for cause, count in one.replays.items()],
    )
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
        yield _counter(name, text, ["model"], [((one.route,), value(one)) for one in routes])


def _of_endpoints(endpoints: Sequence[EndpointFigures]) -> Iterable[Metric]:
    yield _counter(
        "pulsegate_attempts",
        "Attempts sent to an endpoint.",
        ["endpoint"],
        [((one.endpoint,), one.attempts) for one in endpoints],
    )
    yield _counter(
        "pulsegate_attempt_failures",
        "Attempts that failed there, by how.",
        ["endpoint", "kind"],
        [((one.endpoint, kind), count) for one in endpoints for kind, count in one.failures.items()],
    )
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


def _of_providers(providers: Sequence[ProviderFigures]) -> Metric:
    return _counter(
        "pulsegate_provider_attempts",
        "Attempts sent to a hosted provider, by what they came to.",
        ["provider", "outcome"],
        [((one.provider, outcome), count) for one in providers for outcome, count in one.outcomes.items()],
    )


def _counter(name: str, text: str, labels: Sequence[str], values: Iterable[tuple[Labels, int]]) -> Metric:
    family = CounterMetricFamily(name, text, labels=labels)
    for key, value in values:
        family.add_metric(key, value)
    return family


def _histogram(
    name: str, text: str, bounds: tuple[float, ...], labels: Sequence[str], parts: Iterable[tuple[Labels, Histogram]]
) -> Metric:
    family = HistogramMetricFamily(name, text, labels=labels)
    marks = (*map(str, bounds), "+Inf")
    for key, part in parts:
        family.add_metric(key, list(zip(marks, accumulate(part.counts), strict=True)), part.total_s)
    return family
