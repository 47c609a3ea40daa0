"""LMDeploy.

Probe request
    As :mod:`~pulsegate.engines.dialects.openai`, at ``/v1/completions``.
Counters
    ``/metrics`` (where metrics are enabled), label ``engine`` per rank.
Errors
    Flat: ``{"message", "type", "code", "param", "object": "error"}``; 503 "The inference engine is unavailable.";
    499 when the engine cancelled the request; in streams ``data: {"error": {flat}}`` then ``[DONE]``.
Cold start
    Refused, then ``/health`` 503 ``{"status": "initializing"}``. Put to sleep: ``/is_sleeping``.
"""

from typing import Final

from pulsegate.core.fleet import EngineName
from pulsegate.engines.counters import MetricNames, PrometheusReader
from pulsegate.engines.dialects.openai import OpenAiDialect

METRICS: Final = MetricNames(
    progress=(
        b"lmdeploy:generation_tokens_total",
        b"lmdeploy:prompt_tokens_total",
        b"lmdeploy:iteration_tokens_total_count",
    ),
    running=(b"lmdeploy:num_requests_running",),
    waiting=(b"lmdeploy:num_requests_waiting", b"lmdeploy:num_api_requests_waiting"),
    rank_label="engine",
)


def _counters() -> PrometheusReader:
    return PrometheusReader(names=METRICS)


LMDEPLOY: Final = OpenAiDialect(name=EngineName.LMDEPLOY, counter_reader=_counters, sleep_page="/is_sleeping")
