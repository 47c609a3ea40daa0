"""Ollama's native protocol.

Probe request
    ``POST /api/generate`` with ``raw: true`` (no template) and ``options: {num_predict, temperature: 0, top_p: 1}``,
    streamed as one JSON object a line. No option that would make Ollama reload the model. A probe loads a model that is
    not loaded and keeps it loaded, as any request does: watch a model here only if it should stay in memory.
Counters
    None that tell progress; ``/api/ps`` only says what is loaded.
Errors
    ``{"error": "text"}``: 404 model not pulled, 503 "server busy ... maximum pending requests exceeded", 500 "model
    runner has unexpectedly stopped". A stream that ends without ``"done": true`` was cut (it stops a model that repeats
    one token 30 times that way).
Cold start
    The port answers at once; the first request waits while the model is loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import ProbeAsk
from pulsegate.engines.dialect import PROBE_HEADERS, CounterReader, Facts, Framing, Manner, Refusal, Route
from pulsegate.engines.dialects.openai import OpenAiDialect, adapt
from pulsegate.engines.error_body import declared_error
from pulsegate.engines.exchange import Request

_V1: Final = OpenAiDialect(name=EngineName.OLLAMA)


class _Line(msgspec.Struct):
    response: object = None
    thinking: object = None
    done: object = None
    done_reason: object = None
    eval_count: object = None
    error: object = None


_decoder: Final = msgspec.json.Decoder(_Line)


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaDialect:
    """NDJSON at ``/api/generate``; ``/v1`` behind a gateway that shows only that."""

    name: EngineName = EngineName.OLLAMA
    routes: tuple[Route, ...] = (Route.NATIVE, Route.COMPLETIONS, Route.CHAT)
    framing: Framing = Framing.LINES
    needs_model: bool = True
    ends_silently: bool = False
    counter_reader: Callable[[], CounterReader] | None = None
    sleep_page: str | None = None

    def request(self, ask: ProbeAsk, model: str | None, manner: Manner, rank: int | None) -> Request:
        """A streamed raw generation."""
        if manner.route is not Route.NATIVE:
            return _V1.request(ask, model, manner, rank)
        body: dict[str, object] = {
            "model": model,
            "prompt": ask.prompt,
            "raw": True,
            "stream": True,
            "options": {"num_predict": ask.max_tokens, "temperature": 0, "top_p": 1},
        }
        return Request(method="POST", path="/api/generate", headers=PROBE_HEADERS, body=msgspec.json.encode(body))

    def read(self, facts: Facts, data: str) -> None:
        """Take in one line, or one event of ``/v1``."""
        try:
            line = _decoder.decode(data)
        except msgspec.DecodeError:
            line = None
        if line is None or (line.done is None and line.error is None):
            _V1.read(facts, data)
            return
        if line.error:
            facts.error(declared_error(msgspec.json.decode(data)))
            return
        said = "".join(part for part in (line.thinking, line.response) if isinstance(part, str))
        if said:
            facts.token(said)
        if line.done is True and line.done_reason != "load":  # "load": the model was loaded, nothing was asked
            facts.done = True
            facts.finish_reason = line.done_reason if isinstance(line.done_reason, str) else "stop"
            if isinstance(line.eval_count, int) and line.eval_count > 0:
                facts.tokens = line.eval_count

    def adapt(self, manner: Manner, refusal: Refusal) -> Manner | None:
        """The next door."""
        return adapt(self.routes, ("temperature", "top_p"), manner, refusal)


OLLAMA: Final = OllamaDialect()
