import asyncio

from prometheus_client.parser import text_string_to_metric_families

from pulsegate.control.reports import ProbeReport
from pulsegate.core.events import Alerted, AlertKind, SnapshotChanged
from pulsegate.core.health import State
from pulsegate.core.ids import Incarnation, PoolName
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import Counters, Ending, ProbeKind
from pulsegate.export.endpoint_series import EndpointSeries
from pulsegate.export.metrics import Metrics
from pulsegate.export.scrape import page
from support.fake_engine import result_of
from support.samples import ask, fleet, pool, spec, status, went

Samples = dict[tuple[str, ...], float]


def samples(page: bytes) -> Samples:
    """Every sample by name and sorted label values."""
    return {
        (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def report(
    *, ttft_s: float | None, outcome: OutcomeKind, late_s: float = 0.0, kind: ProbeKind = ProbeKind.MICRO
) -> ProbeReport:
    ending = Ending.DEADLINE if ttft_s is None else Ending.COMPLETE
    return ProbeReport(
        spec=spec(),
        incarnation=Incarnation(1),
        at=1.0,
        late_s=late_s,
        outcome=outcome,
        result=result_of(ask(kind), ending=ending, end_s=0.8, ttft_s=ttft_s),
    )


def test_probes_are_counted_by_what_they_amounted_to_and_timed_when_they_brought_a_token() -> None:
    metrics = Metrics("1.2.3")
    metrics.watching(fleet(pool(spec())))
    for ttft_s in (0.02, 0.25):
        metrics.probed(report(ttft_s=ttft_s, outcome=OutcomeKind.TOKEN))
    metrics.probed(report(ttft_s=None, outcome=OutcomeKind.TIMEOUT, late_s=0.03))
    metrics.probed(report(ttft_s=0.04, outcome=OutcomeKind.TOKEN, kind=ProbeKind.DEEP))
    seen = samples(metrics.render())
    assert seen["pulsegate_build_info", "version=1.2.3"] == 1
    assert seen["pulsegate_probes_total", "kind=micro", "outcome=token", "pool=m"] == 2
    assert seen["pulsegate_probes_total", "kind=deep", "outcome=token", "pool=m"] == 1
    assert seen["pulsegate_probes_total", "kind=micro", "outcome=timeout", "pool=m"] == 1
    assert seen["pulsegate_probe_ttft_seconds_count", "pool=m"] == 2
    assert seen["pulsegate_probe_ttft_seconds_bucket", "le=0.2", "pool=m"] == 1
    assert seen["pulsegate_probe_lateness_seconds_count",] == 4
    assert seen["pulsegate_probe_lateness_seconds_bucket", "le=0.025"] == 3


def test_ejections_detected_and_enforced_are_counted_apart() -> None:
    metrics = Metrics("0")
    metrics.watching(fleet(pool(spec())))
    for kind in (AlertKind.EJECTION_DETECTED, AlertKind.EJECTION_DETECTED, AlertKind.EJECTION_ENFORCED):
        metrics.saw(Alerted(at=0.0, kind=kind, pool=PoolName("m"), endpoint=None, detail=""))
    seen = samples(metrics.render())
    assert seen["pulsegate_ejections_detected_total", "pool=m"] == 2
    assert seen["pulsegate_ejections_enforced_total", "pool=m"] == 1
    assert seen["pulsegate_alerts_total", "kind=ejection_detected"] == 2


def test_transitions_readings_and_tables_are_counted() -> None:
    metrics = Metrics("0")
    metrics.watching(fleet(pool(spec())))
    metrics.saw(went())
    metrics.saw(SnapshotChanged())
    metrics.counted(spec(), Counters(progress=1.0, running=0.0, waiting=0.0))
    metrics.counted(spec(), None)
    metrics.note_prober(lag_s=0.25, snapshot_version=7)
    seen = samples(metrics.render())
    assert seen["pulsegate_transitions_total", "pool=m", "reason=hung", "state=unhealthy"] == 1
    assert seen["pulsegate_snapshots_total",] == 1
    assert seen["pulsegate_counters_reads_total", "pool=m", "result=ok"] == 1
    assert seen["pulsegate_counters_reads_total", "pool=m", "result=none"] == 1
    assert seen["pulsegate_loop_lag_seconds",] == 0.25
    assert seen["pulsegate_snapshot_version",] == 7


def test_the_series_of_a_pool_go_with_it() -> None:
    metrics = Metrics("0")
    metrics.watching(fleet(pool(spec()), pool(name="other")))
    metrics.saw(went())
    metrics.probed(report(ttft_s=0.1, outcome=OutcomeKind.TOKEN))
    metrics.counted(spec(), None)
    assert b'pool="m"' in metrics.render()
    metrics.watching(fleet(pool(name="other")))
    assert b'pool="m"' not in metrics.render()
    assert b'pool="other"' in metrics.render()


def test_each_endpoint_has_its_series_and_families_stay_together() -> None:
    series = EndpointSeries()
    series.add(status(spec("a"), state=State.HEALTHY, weight=100, ttft_s=0.0421, inflight=3))
    series.add(status(spec('q"\\', pool="n"), state=State.UNHEALTHY, weight=0, ttft_s=None))
    text = series.text()
    seen = samples(text)
    assert seen["pulsegate_endpoint_state", "endpoint=a", "pool=m", "state=healthy"] == 1
    assert seen["pulsegate_endpoint_state", "endpoint=a", "pool=m", "state=unhealthy"] == 0
    assert seen["pulsegate_endpoint_state", 'endpoint=q"\\', "pool=n", "state=unhealthy"] == 1
    assert seen["pulsegate_endpoint_weight", "endpoint=a", "pool=m"] == 100
    assert seen["pulsegate_endpoint_inflight", "endpoint=a", "pool=m"] == 3
    assert seen["pulsegate_endpoint_ttft_seconds", "endpoint=a", "pool=m"] == 0.0421
    assert not any(key[0] == "pulsegate_endpoint_ttft_seconds" and 'q"' in key[1] for key in seen)
    assert len(list(text_string_to_metric_families(text.decode()))) == 4


def test_a_scrape_lets_the_loop_breathe() -> None:
    async def main() -> int:
        turns = 0

        async def ticking() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            ticker = group.create_task(ticking())
            await EndpointSeries().add_all(status(spec(f"e{number}")) for number in range(1000))
            ticker.cancel()
        return turns

    assert asyncio.run(main()) >= 10


def test_the_page_holds_both_kinds_of_series() -> None:
    metrics = Metrics("0")
    metrics.watching(fleet(pool(spec("a"))))
    seen = samples(asyncio.run(page(metrics, [status(spec("a"))])))
    assert ("pulsegate_ejections_detected_total", "pool=m") in seen
    assert ("pulsegate_endpoint_weight", "endpoint=a", "pool=m") in seen
