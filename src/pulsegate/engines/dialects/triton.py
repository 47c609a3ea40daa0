"""Triton with the generate extension (vLLM backend, TensorRT-LLM ensembles).

Probe request
    ``POST /v2/models/MODEL/generate_stream`` with ``text_input, max_tokens, stream`` and, for the vLLM backend,
    ``parameters: {temperature: 0}``; TensorRT-LLM decodes greedily by default. Ensembles from before their inputs
    became optional get ``bad_words`` and ``stop_words`` too, once they ask.
Counters
    ``/v2/models/MODEL/stats``: responses of streamed requests. The counters of finished requests are not used, because
    they stand still during long ones. The Prometheus page is on another port, which is not ours to guess.
Errors
    ``{"error": "text"}``; 400 even for its own failures, such as "Stub process is not healthy."; inside a stream as
    ``data: {"error": ...}``. No ``[DONE]`` and no finish reason: a stream that ends properly is complete.
Cold start
    Refused, then 400 "Request for unknown model" while the model loads.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

import msgspec

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import Counters, FaultClass, ProbeAsk
from pulsegate.engines.dialect import PROBE_HEADERS, CounterReader, Facts, Framing, Manner, Refusal, Route
from pulsegate.engines.error_body import declared_error
from pulsegate.engines.exchange import Request

_WORDS_MISSING = re.compile(r"bad_words|stop_words|expected \d+ inputs?|missing.{0,20}input")


class _Event(msgspec.Struct):
    text_output: object = None
    error: object = None


class _Count(msgspec.Struct):
    count: int = 0


class _Response(msgspec.Struct):
    success: _Count | None = None
    empty_response: _Count | None = None


class _Model(msgspec.Struct):
    response_stats: dict[str, _Response] | None = None


class _Stats(msgspec.Struct):
    model_stats: list[_Model]


_decoder: Final = msgspec.json.Decoder(_Event)
_stats_decoder: Final = msgspec.json.Decoder(_Stats)


@dataclass(frozen=True, slots=True)
class _ModelStats:
    def path(self, model: str | None) -> str:
        return f"/v2/models/{quote(model or '', safe='')}/stats"

    def read(self, body: bytes, headers: Mapping[str, str], rank: int | None) -> Counters | None:  # noqa: ARG002
        try:
            stats = _stats_decoder.decode(body)
        except msgspec.DecodeError:
            return None
        responses = [entry for model in stats.model_stats for entry in (model.response_stats or {}).values()]
        if not responses:
            return None
        counts = (count.count for entry in responses for count in (entry.success, entry.empty_response) if count)
        return Counters(progress=float(sum(counts)), running=None, waiting=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonDialect:
    """The generate extension."""

    name: EngineName = EngineName.TRITON
    routes: tuple[Route, ...] = (Route.NATIVE,)
    framing: Framing = Framing.SSE
    needs_model: bool = True
    ends_silently: bool = True
    counter_reader: Callable[[], CounterReader] | None = _ModelStats
    sleep_page: str | None = None

    def request(self, ask: ProbeAsk, model: str | None, manner: Manner, rank: int | None) -> Request:  # noqa: ARG002
        """A streamed generation."""
        body: dict[str, object] = {"text_input": ask.prompt, "max_tokens": ask.max_tokens, "stream": True}
        if manner.route is Route.NATIVE_WORDS:
            body |= {"bad_words": "", "stop_words": ""}
        if "parameters" not in manner.without:
            body["parameters"] = {"temperature": 0}
        path = f"/v2/models/{quote(model or '', safe='')}/generate_stream"
        return Request(method="POST", path=path, headers=PROBE_HEADERS, body=msgspec.json.encode(body))

    def read(self, facts: Facts, data: str) -> None:
        """Take in one event. An empty text is a token's too: half a character, or the end."""
        try:
            event = _decoder.decode(data)
        except msgspec.DecodeError:
            facts.unreadable += 1
            return
        if event.error:
            facts.error(declared_error(msgspec.json.decode(data)))
        elif isinstance(event.text_output, str):
            facts.token(event.text_output)

    def adapt(self, manner: Manner, refusal: Refusal) -> Manner | None:
        """With word lists, or without parameters."""
        if refusal.fault.kind is not FaultClass.BAD_REQUEST:
            return None
        if manner.route is Route.NATIVE and _WORDS_MISSING.search(refusal.said):
            return replace(manner, route=Route.NATIVE_WORDS)
        if re.search(r"parameter|temperature", refusal.said) and not manner.without:
            return manner.dropping(frozenset({"parameters"}))
        return None


TRITON: Final = TritonDialect()
