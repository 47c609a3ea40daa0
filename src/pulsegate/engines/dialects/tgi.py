"""Text Generation Inference.

Probe request
    ``POST /generate_stream`` with ``inputs`` and ``parameters: {max_new_tokens, do_sample: false}``: greedy, because
    TGI refuses a temperature of 0 and a top_p of 1. A server that shows only ``/v1`` is asked there.
Counters
    ``/metrics``: forward passes that succeeded, tokens of requests that ended, batch and queue size.
Errors
    ``{"error": "text", "error_type": "generation"}``; 424 means that the shard failed, 429 that it is overloaded, 422
    that the request is wrong. On ``/v1`` all of them become ``{"error": {"message", "http_status_code": 422}}`` inside
    a 200 stream, so the words decide.
Cold start
    Refused connections until the shards are ready.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import ProbeAsk
from pulsegate.engines.counters import MetricNames, PrometheusReader
from pulsegate.engines.dialect import PROBE_HEADERS, CounterReader, Facts, Framing, Manner, Refusal, Route
from pulsegate.engines.dialects.openai import OpenAiDialect, adapt
from pulsegate.engines.error_body import declared_error
from pulsegate.engines.exchange import Request

METRICS: Final = MetricNames(
    progress=(
        b"tgi_batch_inference_success",
        b"tgi_batch_inference_success_total",
        b"tgi_request_generated_tokens_sum",
        b"tgi_request_generated_tokens_count",
    ),
    running=(b"tgi_batch_current_size",),
    waiting=(b"tgi_queue_size",),
)
_V1: Final = OpenAiDialect(name=EngineName.TGI, needs_model=False)


class _Token(msgspec.Struct):
    text: str = ""


class _Event(msgspec.Struct):
    token: _Token | None = None
    generated_text: str | None = None
    error: object = None


_decoder: Final = msgspec.json.Decoder(_Event)


def _counters() -> PrometheusReader:
    return PrometheusReader(names=METRICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TgiDialect:
    """Native streaming first, ``/v1`` where that is all there is."""

    name: EngineName = EngineName.TGI
    routes: tuple[Route, ...] = (Route.NATIVE, Route.COMPLETIONS, Route.CHAT)
    framing: Framing = Framing.SSE
    needs_model: bool = False
    ends_silently: bool = False
    counter_reader: Callable[[], CounterReader] | None = _counters
    sleep_page: str | None = None

    def request(self, ask: ProbeAsk, model: str | None, manner: Manner, rank: int | None) -> Request:
        """A greedy streamed generation."""
        if manner.route is not Route.NATIVE:
            return _V1.request(ask, model or "tgi", manner, rank)
        parameters: Mapping[str, object] = {"max_new_tokens": ask.max_tokens, "do_sample": False}
        body = msgspec.json.encode({"inputs": ask.prompt, "parameters": parameters})
        return Request(method="POST", path="/generate_stream", headers=PROBE_HEADERS, body=body)

    def read(self, facts: Facts, data: str) -> None:
        """Take in one event of either route: only the native one has a token in it."""
        try:
            event = _decoder.decode(data)
        except msgspec.DecodeError:
            event = None
        if event is None or not (event.token or event.error):
            _V1.read(facts, data)
            return
        if event.error:
            facts.error(declared_error(msgspec.json.decode(data)))
        if event.token is not None:
            facts.token(event.token.text)
        if event.generated_text is not None:  # only the last event has it
            facts.finish_reason = facts.finish_reason or "length"

    def adapt(self, manner: Manner, refusal: Refusal) -> Manner | None:
        """The next door."""
        return adapt(self.routes, ("temperature", "top_p"), manner, refusal)


TGI: Final = TgiDialect()
