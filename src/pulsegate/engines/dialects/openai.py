"""OpenAI-compatible servers, and the base of every dialect that speaks to such a server.

Probe request
    ``POST /v1/completions`` (a raw prompt: no chat template, nothing for a parser to swallow) with ``model, prompt,
    max_tokens, temperature 0, top_p 1, stream``. A server without that door (404, 405) is asked at
    ``/v1/chat/completions`` from then on.
What it learns
    An optional field that a 400 names is left out from then on; ``max_tokens`` becomes ``max_completion_tokens`` where
    the server asks for that; a server that calls one token too few (GPT-5 and its kind) is asked for 16.
Counters
    None in the generic dialect.
Errors
    ``{"error": {"message", "type", "param", "code"}}``, a bare string in ``error``, the flat ``{"object": "error"}``;
    inside a stream as ``data: {"error": ...}``, often followed by ``[DONE]``; in a 200 with ``application/json``.
Cold start
    Refused connections, or 503.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import FaultClass, ProbeAsk
from pulsegate.engines.dialect import PROBE_HEADERS, CounterReader, Facts, Framing, Manner, Refusal, Route
from pulsegate.engines.exchange import Request
from pulsegate.engines.openai_stream import read_openai_event

LEAST_ACCEPTED_TOKENS: Final = 16
_DROPPABLE: Final = ("temperature", "top_p")
_TURNED_DOWN: Final = frozenset({FaultClass.NOT_FOUND, FaultClass.BAD_REQUEST})
_CHAT_ASKED_FOR = re.compile(r"chat/completions|not a completion model|does not support .{0,20}completions")
_MODEL_UNKNOWN = re.compile(r"\bmodels?\b.{0,200}(?:not exist|not found|not available|unknown|invalid)|model_not_found")


def _nothing(ask: ProbeAsk) -> Mapping[str, object]:  # noqa: ARG001 - the generic dialect adds nothing
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiDialect:
    """Values of one engine that speaks OpenAI's protocol.

    Attributes:
        extras: the fields that only this engine knows.
        optional: the names of those, which may be left out where a server does not know them.
        rank_header: pins a data-parallel rank, None if the engine has no such header.
        sleep_page: says whether the engine was put to sleep.
    """

    name: EngineName
    routes: tuple[Route, ...] = (Route.COMPLETIONS, Route.CHAT)
    framing: Framing = Framing.SSE
    needs_model: bool = True
    ends_silently: bool = False
    counter_reader: Callable[[], CounterReader] | None = None
    extras: Callable[[ProbeAsk], Mapping[str, object]] = _nothing
    optional: tuple[str, ...] = ()
    rank_header: str | None = None
    sleep_page: str | None = None

    def request(self, ask: ProbeAsk, model: str | None, manner: Manner, rank: int | None) -> Request:
        """A streamed completion, or a chat if the server has only that."""
        chat = manner.route is Route.CHAT
        body: dict[str, object] = {"model": model} if model is not None else {}
        body |= {"messages": [{"role": "user", "content": ask.prompt}]} if chat else {"prompt": ask.prompt}
        limit = "max_completion_tokens" if manner.long_limit_name else "max_tokens"
        body |= {limit: max(ask.max_tokens, manner.min_tokens), "temperature": 0, "top_p": 1, "stream": True}
        body |= self.extras(ask)
        for name in manner.without:
            body.pop(name, None)
        headers = PROBE_HEADERS
        if rank is not None and self.rank_header is not None:
            headers = (*headers, (self.rank_header, str(rank)))
        return Request(method="POST", path=manner.route, headers=headers, body=msgspec.json.encode(body))

    def read(self, facts: Facts, data: str) -> None:
        """Take in one event."""
        read_openai_event(facts, data)

    def adapt(self, manner: Manner, refusal: Refusal) -> Manner | None:
        """Another door, fewer fields, or more tokens."""
        return adapt(self.routes, (*self.optional, *_DROPPABLE), manner, refusal)


def adapt(routes: tuple[Route, ...], optional: tuple[str, ...], manner: Manner, refusal: Refusal) -> Manner | None:
    """What to try after a refusal; None if it stands."""
    said, kind = refusal.said, refusal.fault.kind
    if kind is FaultClass.OUTPUT_LIMIT and manner.min_tokens < LEAST_ACCEPTED_TOKENS:
        return replace(manner, min_tokens=LEAST_ACCEPTED_TOKENS)
    if kind not in _TURNED_DOWN:
        return None
    no_such_door = kind is FaultClass.NOT_FOUND or refusal.fault.status == 405  # noqa: PLR2004 - method not allowed
    if (no_such_door and not _MODEL_UNKNOWN.search(said)) or _CHAT_ASKED_FOR.search(said):
        later = routes[routes.index(manner.route) + 1 :]
        return replace(manner, route=later[0]) if later else None
    if "max_completion_tokens" in said and not manner.long_limit_name:
        return replace(manner, long_limit_name=True)
    named = frozenset(name for name in optional if name in said) - manner.without
    return manner.dropping(named) if named else None


OPENAI: Final = OpenAiDialect(name=EngineName.OPENAI)
