"""SGLang.

Probe request
    As :mod:`~pulsegate.engines.dialects.openai`, at ``/v1/completions``. The nonce at the front of the prompt keeps the
    radix cache from answering. ``X-Data-Parallel-Rank`` pins a rank. Its own ``/health_generate`` is not used: it
    answers 200 for any output of the detokenizer, has been 200 for an hour over a dead scheduler, and 503 in a long
    prefill.
Counters
    ``/metrics`` (only with ``--enable-metrics``), label ``dp_rank``. The token totals move when a request ends, the
    latency histograms with each piece of output, ``realtime_tokens_total`` every few dozen steps.
Errors
    Flat ``{"object": "error", "message", "type", "code": 400}``; in streams ``data: {"error": {...}}`` then
    ``[DONE]``, also for overload: ``The request queue is full.`` with code 503 inside a 200. 401 as vLLM.
Cold start
    Refused, then 503 with an empty body on ``/health``. ``finish_reason`` may be ``""``, which means none.
"""

from typing import Final

from pulsegate.core.fleet import EngineName
from pulsegate.engines.counters import MetricNames, PrometheusReader
from pulsegate.engines.dialects.openai import OpenAiDialect

METRICS: Final = MetricNames(
    progress=(
        b"sglang:generation_tokens_total",
        b"sglang:prompt_tokens_total",
        b"sglang:realtime_tokens_total",
        b"sglang:inter_token_latency_seconds_count",
        b"sglang:time_per_output_token_seconds_count",
        b"sglang:time_to_first_token_seconds_count",
    ),
    running=(b"sglang:num_running_reqs",),
    waiting=(b"sglang:num_queue_reqs", b"sglang:num_grammar_queue_reqs"),
    rank_label="dp_rank",
)


def _counters() -> PrometheusReader:
    return PrometheusReader(names=METRICS)


SGLANG: Final = OpenAiDialect(name=EngineName.SGLANG, rank_header="X-Data-Parallel-Rank", counter_reader=_counters)
