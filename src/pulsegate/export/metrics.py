"""Prometheus metrics of the prober and the state machine, by pool: docs/metrics.md describes each.

Labels are bounded: pools, kinds, outcomes, states and reasons. What is per endpoint is a gauge read from the board at
scrape time (see ``endpoint_series.py``) and vanishes with the endpoint.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics, generate_latest

from pulsegate.control.reports import ProbeReport
from pulsegate.core.events import Alerted, AlertKind, Effect, SnapshotChanged, Transitioned
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.ids import PoolName
from pulsegate.core.probe import Counters
from pulsegate.export.probe_series import ProbeSeries


class Metrics:
    """An ``Observer`` and a ``ProbeObserver`` that counts."""

    def __init__(self, version: str) -> None:
        disable_created_metrics()  # a second series for each counter that nobody asks for
        self.registry = registry = CollectorRegistry()
        Gauge("pulsegate_build_info", "Always 1.", ["version"], registry=registry).labels(version).set(1)
        self._transitions = Counter(
            "pulsegate_transitions",
            "Changes of an endpoint's state or reason, by what it became.",
            ["pool", "state", "reason"],
            registry=registry,
        )
        self._probes = ProbeSeries()
        registry.register(self._probes)
        self._reads = Counter(
            "pulsegate_counters_reads",
            "Readings of late engines' own counters, by whether they answered.",
            ["pool", "result"],
            registry=registry,
        )
        self._detected = Counter(
            "pulsegate_ejections_detected", "Endpoints found unfit for traffic.", ["pool"], registry=registry
        )
        self._enforced = Counter(
            "pulsegate_ejections_enforced", "Endpoints taken out of routing.", ["pool"], registry=registry
        )
        self._alerts = Counter("pulsegate_alerts", "Alerts raised.", ["kind"], registry=registry)
        self._snapshots = Counter("pulsegate_snapshots", "Routing tables handed to the data plane.", registry=registry)
        self._lag = Gauge(
            "pulsegate_loop_lag_seconds",
            "Longest time that the prober's event loop stood still in the last minute.",
            registry=registry,
        )
        self._version = Gauge(
            "pulsegate_snapshot_version",
            "Version of the routing table; grows with each change that others can see.",
            registry=registry,
        )
        self._pools: set[PoolName] = set()

    def note_prober(self, *, lag_s: float, snapshot_version: int) -> None:
        """How well the prober itself is, just before a scrape."""
        self._lag.set(lag_s)
        self._version.set(snapshot_version)

    def render(self) -> bytes:
        """All series in the Prometheus text format, version 0.0.4. May be called in another thread."""
        return generate_latest(self.registry)

    def saw(self, effect: Effect) -> None:
        """Count one effect of the board."""
        match effect:
            case Transitioned():
                self._transitions.labels(effect.pool, effect.new.value, effect.reason.value).inc()
            case Alerted():
                self._alerted(effect)
            case SnapshotChanged():
                self._snapshots.inc()
            case _:
                pass

    def watching(self, fleet: Fleet) -> None:
        """Open the series of new pools, at zero, and remove those of pools that are gone."""
        pools = {pool.name for pool in fleet.pools}
        for gone in self._pools - pools:
            self._forget(gone)
        for new in pools - self._pools:
            self._detected.labels(new)
            self._enforced.labels(new)
        self._pools = pools
        self._probes.watch(pools)

    def probed(self, report: ProbeReport) -> None:
        """Count one probe."""
        self._probes.add(report)

    def counted(self, spec: EndpointSpec, counters: Counters | None) -> None:
        """Count one reading of counters."""
        self._reads.labels(spec.pool, "none" if counters is None else "ok").inc()

    def _alerted(self, effect: Alerted) -> None:
        self._alerts.labels(effect.kind.value).inc()
        if effect.pool is None:
            return
        if effect.kind is AlertKind.EJECTION_DETECTED:
            self._detected.labels(effect.pool).inc()
        elif effect.kind is AlertKind.EJECTION_ENFORCED:
            self._enforced.labels(effect.pool).inc()

    def _forget(self, pool: PoolName) -> None:
        for metric in (self._transitions, self._reads, self._detected, self._enforced):
            metric.remove_by_labels({"pool": pool})
