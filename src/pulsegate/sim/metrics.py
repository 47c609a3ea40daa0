"""The counters of each engine under the names that it uses itself, one set of lines per data-parallel rank."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.json import encode

from pulsegate.sim.engine import EPOCH, Phase, SimEngine
from pulsegate.sim.load import Gauges, Rank

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One rank's counters with the script's word over the truth."""

    gauges: Gauges
    tokens: float
    prompt_tokens: float
    steps: float
    finished: int
    aborted: int
    rejected: int
    finished_tokens: float
    ttft_s: float


def _read(engine: SimEngine, rank: Rank) -> _Reading:
    told, true, tally, rise = engine.script.metered, rank.gauges(), rank.tally, engine.rise()
    gauges = Gauges(
        running=true.running if told.running is None else told.running,
        waiting=true.waiting if told.waiting is None else told.waiting,
        kv_usage=true.kv_usage if told.kv_usage is None else told.kv_usage,
    )
    return _Reading(
        gauges=gauges,
        tokens=tally.tokens + rise,
        prompt_tokens=tally.prompt_tokens + rise,
        steps=tally.steps + rise,
        finished=tally.finished,
        aborted=tally.aborted,
        rejected=tally.rejected,
        finished_tokens=tally.finished_tokens + rise,
        ttft_s=tally.ttft_s,
    )


def metrics_page(engine: SimEngine, path: str) -> tuple[bytes, str] | None:
    """Body and content type; None where this engine has no metrics."""
    if (engine.dialect.name, path) == ("trtllm", "/metrics"):
        return _trtllm_json(engine), "application/json"
    render = _PAGES.get((engine.dialect.name, path))
    if render is None:
        return None
    lines = _Lines()
    lines.add("process_start_time_seconds", "gauge", [("", EPOCH + engine.started_at)])
    render(engine, [_read(engine, rank) for rank in engine.ranks], lines)
    return lines.encode(), _TEXT


class _Lines:
    """Prometheus text in the making."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, name: str, kind: str, samples: list[tuple[str, float]]) -> None:
        """One family: ``samples`` are label texts (braces included, or empty) and values."""
        self._lines.append(f"# HELP {name} {name}.")
        self._lines.append(f"# TYPE {name} {kind}")
        suffix = "_total" if kind == "counter" and not name.endswith("_total") else ""
        self._lines.extend(f"{name}{suffix}{labels} {value}" for labels, value in samples)

    def raw(self, name: str, labels: str, value: float) -> None:
        """One sample without a header, e.g. the count of a histogram."""
        self._lines.append(f"{name}{labels} {value}")

    def encode(self) -> bytes:
        """The page."""
        return ("\n".join(self._lines) + "\n").encode()


def _vllm(engine: SimEngine, readings: list[_Reading], lines: _Lines) -> None:
    model = engine.config.model
    tags = [f'{{engine="{n}",model_name="{model}"}}' for n in range(len(readings))]
    each = list(zip(tags, readings, strict=True))
    lines.add("vllm:num_requests_running", "gauge", [(t, float(r.gauges.running)) for t, r in each])
    lines.add("vllm:num_requests_waiting", "gauge", [(t, float(r.gauges.waiting)) for t, r in each])
    lines.add("vllm:kv_cache_usage_perc", "gauge", [(t, r.gauges.kv_usage) for t, r in each])
    states = ("awake", "weights_offloaded", "discard_all")
    now = "weights_offloaded" if engine.phase is Phase.ASLEEP else "awake"
    sleep = [(f'{t[:-1]},sleep_state="{s}"}}', float(s == now)) for t in tags for s in states]
    lines.add("vllm:engine_sleep_state", "gauge", sleep)
    lines.add("vllm:prefix_cache_queries_total", "counter", [(t, r.prompt_tokens) for t, r in each])
    lines.add("vllm:prefix_cache_hits_total", "counter", [(t, 0.0) for t in tags])
    lines.add("vllm:prompt_tokens_total", "counter", [(t, r.prompt_tokens) for t, r in each])
    lines.add("vllm:generation_tokens_total", "counter", [(t, r.tokens) for t, r in each])
    ends = [("length", "finished"), ("abort", "aborted")]
    success = [(f'{t[:-1]},finished_reason="{why}"}}', float(getattr(r, name))) for t, r in each for why, name in ends]
    lines.add("vllm:request_success_total", "counter", success)
    full = [(f'{{model_name="{model}",reason="max_num_queued_reqs"}}', float(sum(r.rejected for r in readings)))]
    lines.add("vllm:admission_rejections_total", "counter", full)
    lines.add("vllm:iteration_tokens_total", "histogram", [])
    for tag, reading in each:
        lines.raw("vllm:iteration_tokens_total_count", tag, reading.steps)
        lines.raw("vllm:iteration_tokens_total_sum", tag, reading.tokens + reading.prompt_tokens)


def _sglang(engine: SimEngine, readings: list[_Reading], lines: _Lines) -> None:
    model = engine.config.model
    tags = [f'{{dp_rank="{n}",engine_type="unified",model_name="{model}",tp_rank="0"}}' for n in range(len(readings))]
    each = list(zip(tags, readings, strict=True))
    lines.add("sglang:num_running_reqs", "gauge", [(t, float(r.gauges.running)) for t, r in each])
    lines.add("sglang:num_queue_reqs", "gauge", [(t, float(r.gauges.waiting)) for t, r in each])
    lines.add("sglang:token_usage", "gauge", [(t, r.gauges.kv_usage) for t, r in each])
    lines.add("sglang:prompt_tokens_total", "counter", [(t, r.prompt_tokens) for t, r in each])
    # The totals move when a request ends, the histograms with each piece of output.
    lines.add("sglang:generation_tokens_total", "counter", [(t, r.finished_tokens) for t, r in each])
    lines.add("sglang:inter_token_latency_seconds", "histogram", [])
    for tag, reading in each:
        lines.raw("sglang:inter_token_latency_seconds_count", tag, reading.tokens)
    lines.add("sglang:num_requests_total", "counter", [(t, float(r.finished)) for t, r in each])


def _tgi(_engine: SimEngine, readings: list[_Reading], lines: _Lines) -> None:
    reading = readings[0]
    lines.add("tgi_queue_size", "gauge", [("", float(reading.gauges.waiting))])
    lines.add("tgi_batch_current_size", "gauge", [("", float(reading.gauges.running))])
    lines.add("tgi_request_count", "counter", [])
    lines.raw("tgi_request_count", "", float(reading.finished + reading.gauges.running + reading.gauges.waiting))
    lines.raw("tgi_request_success", "", float(reading.finished))
    lines.raw("tgi_batch_inference_count", '{method="prefill"}', float(reading.finished))
    lines.raw("tgi_batch_inference_count", '{method="decode"}', reading.steps)
    lines.raw("tgi_batch_inference_success", '{method="decode"}', reading.steps)
    lines.raw("tgi_request_generated_tokens_sum", "", reading.finished_tokens)
    lines.raw("tgi_request_generated_tokens_count", "", float(reading.finished))


def held_page_s(engine: SimEngine, path: str) -> float:
    """How long a page is kept back: ``trtllm-serve`` waits two seconds for an iteration to tell of."""
    quiet = (engine.dialect.name, path) == ("trtllm", "/metrics") and _steps(engine) <= engine.steps_told
    return 2.0 if quiet else 0.0


def _steps(engine: SimEngine) -> int:
    return engine.ranks[0].tally.steps + int(engine.rise())


def _trtllm_json(engine: SimEngine) -> bytes:
    """What ``trtllm-serve`` answers: a list of the iterations since the last reader; reading takes them away."""
    steps, reading = _steps(engine), _read(engine, engine.ranks[0])
    if steps <= engine.steps_told:
        return b"[]"
    engine.steps_told = steps
    gauges = reading.gauges
    batch = {"numContextRequests": 0, "numGenRequests": gauges.running, "numScheduledRequests": gauges.running}
    entry = {
        "iter": steps,
        "iterLatencyMS": 5.0,
        "numActiveRequests": gauges.running,
        "numQueuedRequests": gauges.waiting,
        "numCompletedRequests": reading.finished,
        "inflightBatchingStats": batch,
    }
    return encode([entry])


def _trtllm(engine: SimEngine, readings: list[_Reading], lines: _Lines) -> None:
    reading = readings[0]
    tag = f'{{model_name="{engine.config.model}",engine_type="trtllm"}}'
    lines.add("trtllm_request_success_total", "counter", [(tag, float(reading.finished))])
    lines.add("trtllm_num_requests_running", "gauge", [(tag, float(reading.gauges.running))])
    lines.add("trtllm_num_requests_waiting", "gauge", [(tag, float(reading.gauges.waiting))])
    lines.add("trtllm_generation_tokens_total", "counter", [(tag, reading.tokens)])


def _triton(engine: SimEngine, readings: list[_Reading], lines: _Lines) -> None:
    reading = readings[0]
    tag = f'{{model="{engine.config.model}",version="1"}}'
    for name, value in (
        ("nv_inference_request_success", float(reading.finished)),
        ("nv_inference_count", float(reading.finished)),
        ("nv_inference_exec_count", reading.steps),
    ):
        lines.add(name, "gauge", [(tag, value)])
    lines.add("nv_inference_pending_request_count", "gauge", [(tag, float(reading.gauges.waiting))])
    requests = [("active", reading.gauges.running + reading.gauges.waiting), ("scheduled", reading.gauges.running)]
    samples = [
        (f'{{model="{engine.config.model}",request_type="{kind}",version="1"}}', float(n)) for kind, n in requests
    ]
    lines.add("nv_trt_llm_request_metrics", "gauge", samples)


def _llamacpp(_engine: SimEngine, readings: list[_Reading], lines: _Lines) -> None:
    reading = readings[0]
    for name, kind, value in (
        ("prompt_tokens_total", "counter", reading.prompt_tokens),
        ("tokens_predicted_total", "counter", reading.finished_tokens),
        ("n_decode_total", "counter", reading.steps),
        ("requests_processing", "gauge", float(reading.gauges.running)),
        ("requests_deferred", "gauge", float(reading.gauges.waiting)),
    ):
        lines.add(f"llamacpp:{name}", kind, [("", value)])


def _lmdeploy(engine: SimEngine, readings: list[_Reading], lines: _Lines) -> None:
    model = engine.config.model
    tags = [f'{{engine="{n}",model_name="{model}"}}' for n in range(len(readings))]
    each = list(zip(tags, readings, strict=True))
    lines.add("lmdeploy:num_requests_running", "gauge", [(t, float(r.gauges.running)) for t, r in each])
    lines.add("lmdeploy:num_requests_waiting", "gauge", [(t, float(r.gauges.waiting)) for t, r in each])
    lines.add("lmdeploy:generation_tokens_total", "counter", [(t, r.tokens) for t, r in each])
    lines.add("lmdeploy:prompt_tokens_total", "counter", [(t, r.prompt_tokens) for t, r in each])
    lines.add("lmdeploy:iteration_tokens_total", "histogram", [])
    for tag, reading in each:
        lines.raw("lmdeploy:iteration_tokens_total_count", tag, reading.steps)


_PAGES: Mapping[tuple[str, str], Callable[[SimEngine, list[_Reading], _Lines], None]] = {
    ("vllm", "/metrics"): _vllm,
    ("sglang", "/metrics"): _sglang,
    ("tgi", "/metrics"): _tgi,
    ("trtllm", "/prometheus/metrics"): _trtllm,
    ("triton", "/metrics"): _triton,
    ("llamacpp", "/metrics"): _llamacpp,
    ("lmdeploy", "/metrics"): _lmdeploy,
}
