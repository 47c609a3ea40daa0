"""vLLM (0.9 and later; seen on 0.32).

Probe request
    As :mod:`~pulsegate.engines.dialects.openai`, with ``cache_salt`` (the nonce: no prefix cache can answer) and
    ``priority`` (the lowest number goes first under ``--scheduling-policy priority``; otherwise it changes nothing).
    Both need no server flag; a server that refuses one by name is asked without it. ``X-data-parallel-rank`` pins a
    rank.
Counters
    ``/metrics``, labels ``engine="N"`` per rank. Published by the API process, so they outlive the engine: they freeze.
Errors
    ``{"error": {"message", "type", "param", "code": 500}}``; before 0.10 flat with ``"object": "error"``; 401 is
    ``{"error": "Unauthorized"}``. A dead engine core: 500, possibly without a body, or an error event followed by
    ``[DONE]`` in a stream whose 200 had left long before. Full (``--max-num-queued-reqs``): 503 "currently busy".
Asleep
    ``/is_sleeping`` (only in its development mode) tells a sleeping engine from a broken one: both answer 500 or hang.
Cold start
    Every connection is refused until the model is loaded (20 s to many minutes), then everything answers at once.
"""

from collections.abc import Mapping
from typing import Final

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import ProbeAsk
from pulsegate.engines.counters import MetricNames, PrometheusReader
from pulsegate.engines.dialects.openai import OpenAiDialect

FIRST_IN_LINE: Final = -1000

METRICS: Final = MetricNames(
    progress=(
        b"vllm:generation_tokens_total",
        b"vllm:prompt_tokens_total",
        b"vllm:iteration_tokens_total_count",
        b"vllm:generation_tokens",  # names without _total: engines that export through Ray
        b"vllm:prompt_tokens",
    ),
    running=(b"vllm:num_requests_running",),
    waiting=(b"vllm:num_requests_waiting", b"vllm:num_requests_swapped"),
    rank_label="engine",
)


def _extras(ask: ProbeAsk) -> Mapping[str, object]:
    return {"cache_salt": ask.nonce, "priority": FIRST_IN_LINE}


def _counters() -> PrometheusReader:
    return PrometheusReader(names=METRICS)


VLLM: Final = OpenAiDialect(
    name=EngineName.VLLM,
    extras=_extras,
    optional=("cache_salt", "priority"),
    rank_header="X-data-parallel-rank",
    counter_reader=_counters,
    sleep_page="/is_sleeping",
)
