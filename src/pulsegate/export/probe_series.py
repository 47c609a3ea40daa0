"""The series that every probe touches: outcomes, time to the first token, lateness.

Counted in plain integers and made into metrics only when they are scraped: with hundreds of probes per second the
client library's locks and look-ups would cost as much as the judging.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from pulsegate.control.reports import ProbeReport
from pulsegate.core.ids import PoolName
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import ProbeKind

TTFT_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8, 1.5, 3.0, 5.0)
LATENESS_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)


class Distribution:
    """How many values fell into which bucket."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def cumulative(self) -> tuple[list[tuple[str, float]], float]:
        """Upper bounds with how many values are at or below each, as Prometheus wants them, and the sum."""
        bounds = [*(str(bound) for bound in self._bounds), "+Inf"]
        return list(zip(bounds, accumulate(self._counts), strict=True)), self._sum


class _Pool:
    __slots__ = ("outcomes", "ttft")

    def __init__(self) -> None:
        self.ttft = Distribution(TTFT_BUCKETS_S)
        self.outcomes: dict[tuple[ProbeKind, OutcomeKind], int] = {}


class ProbeSeries(Collector):
    """Counts probes by pool. A pool's series begin and end with it."""

    def __init__(self) -> None:
        self._pools: dict[PoolName, _Pool] = {}
        self._lateness = Distribution(LATENESS_BUCKETS_S)

    def watch(self, pools: set[PoolName]) -> None:
        """From now on these pools and no others."""
        self._pools = {pool: self._pools.get(pool) or _Pool() for pool in pools}

    def add(self, report: ProbeReport) -> None:
        """One more probe."""
        result, pool = report.result, self._pools[report.spec.pool]
        if report.outcome is not None:
            key = (result.kind, report.outcome)
            pool.outcomes[key] = pool.outcomes.get(key, 0) + 1
        ttft_s = result.phases.first_token_s
        if ttft_s is not None and result.kind is ProbeKind.MICRO:
            pool.ttft.add(ttft_s)
        self._lateness.add(report.late_s)

    def collect(self) -> Iterator[Metric]:
        """The three families. May run in another thread."""
        probes = CounterMetricFamily(
            "pulsegate_probes", "Probes that ended, by what they amounted to.", labels=["pool", "kind", "outcome"]
        )
        ttft = HistogramMetricFamily(
            "pulsegate_probe_ttft_seconds", "Time to the first token of micro-probes that got one.", labels=["pool"]
        )
        lateness = HistogramMetricFamily(
            "pulsegate_probe_lateness_seconds", "How much later than scheduled probes began."
        )
        for name, pool in list(self._pools.items()):
            for (kind, outcome), count in list(pool.outcomes.items()):
                probes.add_metric([name, kind.value, outcome.value], count)
            ttft.add_metric([name], *pool.ttft.cumulative())
        lateness.add_metric([], *self._lateness.cumulative())
        yield from (probes, ttft, lateness)
