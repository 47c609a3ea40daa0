"""What workers counted as Prometheus text: exact, added up, never falling."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from pulsegate.core.figures import (
    GAP_BOUNDS_S,
    OWN_BOUNDS_S,
    TTFT_BOUNDS_S,
    EndpointFigures,
    Histogram,
    RouteFigures,
    WorkerFigures,
    nothing,
)
from pulsegate.core.ids import EndpointId
from pulsegate.export.traffic import TrafficSeries


def histogram(bounds: tuple[float, ...], *at: int, total_s: float = 0.0) -> Histogram:
    """One measurement in each of these buckets."""
    counts = [0] * (len(bounds) + 1)
    for index in at:
        counts[index] += 1
    return Histogram(counts=counts, total_s=total_s)


def worker(*, ok: int = 1, model: str = "m") -> WorkerFigures:
    endpoint = EndpointFigures(
        endpoint=EndpointId("e0"),
        attempts=ok,
        failures={"closed": 1},
        ttft=histogram(TTFT_BOUNDS_S, 0, -1, total_s=61.5),
        gaps=histogram(GAP_BOUNDS_S),
    )
    route = RouteFigures(
        route=model, requests={200: ok, 503: 1}, replays={"closed": 2}, prompt_tokens=7, completion_tokens=9, rescued=1
    )
    return WorkerFigures(
        connections=3,
        in_flight=2,
        retries_under_way=1,
        refused={"invalid_json": 4},
        endpoints=[endpoint],
        routes=[route],
        own=histogram(OWN_BOUNDS_S, 1, total_s=0.00008),
    )


class Page:
    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.series = TrafficSeries(registry)
        self._registry = registry

    @property
    def lines(self) -> list[str]:
        return [line for line in generate_latest(self._registry).decode().splitlines() if not line.startswith("#")]

    def value(self, name: str) -> float:
        return sum(float(line.rpartition(" ")[2]) for line in self.lines if line.startswith(name))


def test_one_worker_as_text() -> None:
    page = Page()
    page.series.counted(0, worker(ok=5))
    plain = [line for line in page.lines if "_bucket" not in line]
    assert plain == [
        "pulsegate_workers 1.0",
        "pulsegate_worker_deaths_total 0.0",
        "pulsegate_connections 3.0",
        "pulsegate_requests_in_flight 2.0",
        "pulsegate_retries_in_flight 1.0",
        'pulsegate_requests_total{model="m",status="200"} 5.0',
        'pulsegate_requests_total{model="m",status="503"} 1.0',
        'pulsegate_replays_total{cause="closed",model="m"} 2.0',
        'pulsegate_hedges_total{model="m"} 0.0',
        'pulsegate_rescued_requests_total{model="m"} 1.0',
        'pulsegate_prompt_tokens_total{model="m"} 7.0',
        'pulsegate_completion_tokens_total{model="m"} 9.0',
        'pulsegate_usage_missing_requests_total{model="m"} 0.0',
        'pulsegate_attempts_total{endpoint="e0"} 5.0',
        'pulsegate_attempt_failures_total{endpoint="e0",kind="closed"} 1.0',
        'pulsegate_ttft_seconds_count{endpoint="e0"} 2.0',
        'pulsegate_ttft_seconds_sum{endpoint="e0"} 61.5',
        'pulsegate_token_gap_seconds_count{endpoint="e0"} 0.0',
        'pulsegate_token_gap_seconds_sum{endpoint="e0"} 0.0',
        'pulsegate_refused_requests_total{code="invalid_json"} 4.0',
        "pulsegate_own_seconds_count 1.0",
        "pulsegate_own_seconds_sum 8e-05",
    ]


def test_buckets_are_cumulative() -> None:
    page = Page()
    page.series.counted(0, worker())
    buckets = [line for line in page.lines if line.startswith("pulsegate_ttft_seconds_bucket")]
    assert buckets[0] == 'pulsegate_ttft_seconds_bucket{endpoint="e0",le="0.025"} 1.0'
    assert buckets[-2:] == [
        'pulsegate_ttft_seconds_bucket{endpoint="e0",le="60.0"} 1.0',
        'pulsegate_ttft_seconds_bucket{endpoint="e0",le="+Inf"} 2.0',
    ]


def test_workers_are_added_up_and_each_series_is_there_once() -> None:
    page = Page()
    page.series.counted(0, worker(ok=5))
    page.series.counted(1, worker(ok=3))
    assert page.value('pulsegate_requests_total{model="m",status="200"}') == 8
    assert page.value("pulsegate_workers") == 2
    names = [line.rpartition(" ")[0] for line in page.lines]
    assert len(names) == len(set(names))


def test_what_a_dead_worker_held_is_free_and_what_it_counted_stays() -> None:
    page = Page()
    page.series.counted(0, worker(ok=5))
    page.series.died()
    page.series.gone(0)
    assert page.value("pulsegate_connections") == page.value("pulsegate_requests_in_flight") == 0
    assert page.value('pulsegate_requests_total{model="m",status="200"}') == 5
    assert (page.value("pulsegate_workers"), page.value("pulsegate_worker_deaths_total")) == (0, 1)
    page.series.counted(0, worker(ok=1))
    assert page.value('pulsegate_requests_total{model="m",status="200"}') == 6
    page.series.gone(7)  # it never reported


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("counts"), st.integers(0, 2), st.integers(0, 9)),
        st.tuples(st.just("ends"), st.integers(0, 2), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_no_total_ever_falls(steps: list[tuple[str, int, int]]) -> None:
    page, totals, seen, counted = Page(), dict.fromkeys(range(3), 0), 0.0, 0
    for what, number, more in steps:
        if what == "counts":
            totals[number] += more
            counted += more
            route = RouteFigures(route="m", requests={200: totals[number]}, replays={})
            page.series.counted(number, replace(nothing(), routes=[route]))
        else:
            totals[number] = 0
            page.series.gone(number)
        now = page.value("pulsegate_requests_total")
        assert now >= seen
        seen = now
    assert seen == counted
