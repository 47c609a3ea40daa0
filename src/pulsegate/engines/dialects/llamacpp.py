"""llama.cpp's ``llama-server``.

Probe request
    As :mod:`~pulsegate.engines.dialects.openai`, at ``/v1/completions``; the model's name does not matter. The nonce at
    the front leaves the slot's cache nothing to reuse, so ``cache_prompt`` is not touched.
Counters
    ``/metrics`` (only with ``--metrics``, else 501). ``tokens_predicted_total`` moves when a request ends,
    ``n_decode_total`` with each decode. The page is made by the thread that computes: frozen, it does not come at all.
    ``Process-Start-Time-Unix`` (microseconds since boot, in truth) tells one process from the next.
Errors
    ``{"error": {"code": 503, "message", "type"}}``; 501 ``not_supported_error``; 400 ``exceed_context_size_error``.
Cold start
    The port is open at once; everything is 503 "Loading model".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import Counters
from pulsegate.engines.counters import MetricNames, PrometheusReader
from pulsegate.engines.dialects.openai import OpenAiDialect

METRICS: Final = MetricNames(
    progress=(
        b"llamacpp:n_decode_total",
        b"llamacpp:tokens_predicted_total",
        b"llamacpp:prompt_tokens_total",
    ),
    running=(b"llamacpp:requests_processing",),
    waiting=(b"llamacpp:requests_deferred",),
)

_PAGE: Final = PrometheusReader(names=METRICS)


@dataclass(frozen=True, slots=True)
class _LlamaCounters:
    """The page, and the start of the process from its header."""

    def path(self, model: str | None) -> str:
        return _PAGE.path(model)

    def read(self, body: bytes, headers: Mapping[str, str], rank: int | None) -> Counters | None:
        counters = _PAGE.read(body, headers, rank)
        started = headers.get("process-start-time-unix", "")
        if counters is None or not started.isdigit():
            return counters
        return replace(counters, started_at=float(started))


LLAMACPP: Final = OpenAiDialect(name=EngineName.LLAMACPP, needs_model=False, counter_reader=_LlamaCounters)
