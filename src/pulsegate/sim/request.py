"""One request as the simulator sees it, and what it asks the model for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import msgspec

Json = dict[str, object]


class Route(StrEnum):
    """The generation routes of all dialects together; each dialect serves some of them."""

    COMPLETIONS = "completions"
    CHAT = "chat"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    SGLANG = "sglang"  # POST /generate
    TGI = "tgi"  # POST /generate
    TGI_STREAM = "tgi_stream"  # POST /generate_stream
    TRITON = "triton"  # POST /v2/models/M/generate
    TRITON_STREAM = "triton_stream"  # POST /v2/models/M/generate_stream
    LLAMACPP = "llamacpp"  # POST /completion
    OLLAMA = "ollama"  # POST /api/generate
    OLLAMA_CHAT = "ollama_chat"  # POST /api/chat


@dataclass(slots=True)
class Request:
    """One HTTP request; header names are lower case, ``path`` is below the engine's base path."""

    method: str
    path: str
    query: str
    headers: dict[bytes, bytes]
    body: bytes
    number_on_connection: int = 1
    idle_before_s: float = 0.0
    json: Json = field(default_factory=dict[str, object])

    @property
    def is_probe(self) -> bool:
        """Whether it is marked as a probe."""
        return self.headers.get(b"x-llm-probe", b"").lower() == b"true"


@dataclass(slots=True, kw_only=True)
class Ask:
    """What a generation request asks for."""

    route: Route
    prompt: str
    model: str | None
    max_tokens: int | None
    stream: bool
    include_usage: bool
    priority: int
    rank: int | None


class BadRequestError(Exception):
    """The body does not ask for a generation; the text goes into a 400."""


def decode(body: bytes) -> Json:
    """The body as a JSON object.

    Raises:
        BadRequestError: it is something else.
    """
    try:
        return msgspec.json.decode(body, type=Json)
    except msgspec.MsgspecError as exc:
        raise BadRequestError(f"JSON decode error: {exc}") from exc


def read_ask(route: Route, request: Request) -> Ask:
    """What ``request`` (its ``json`` decoded) asks for.

    Raises:
        BadRequestError: the prompt is missing or ``max_tokens`` is not a positive number.
    """
    body = request.json
    options = _options(body)
    stream = body.get("stream", _STREAMS_BY_DEFAULT.get(route, False)) is True or route is Route.TGI_STREAM
    rank = request.headers.get(b"x-data-parallel-rank")
    model = body.get("model")
    usage = body.get("stream_options")
    priority = body.get("priority")
    return Ask(
        route=route,
        prompt=_prompt(body),
        model=model if isinstance(model, str) else None,
        max_tokens=_max_tokens(options),
        stream=stream,
        include_usage=isinstance(usage, dict) and cast("Json", usage).get("include_usage") is True,
        priority=priority if isinstance(priority, int) else 0,
        rank=int(rank) if rank is not None and rank.isdigit() else None,
    )


_STREAMS_BY_DEFAULT: Mapping[Route, bool] = {
    Route.OLLAMA: True,
    Route.OLLAMA_CHAT: True,
    Route.TGI_STREAM: True,
    Route.TRITON_STREAM: True,
}
_LENGTHS = ("max_completion_tokens", "max_tokens", "max_new_tokens", "max_output_tokens", "n_predict", "num_predict")


def _options(body: Json) -> Json:
    """The body with the nested options of the native routes spread over it."""
    spread = dict(body)
    for name in ("parameters", "sampling_params", "options"):
        nested = body.get(name)
        if isinstance(nested, dict):
            spread.update(cast("Json", nested))
    return spread


def _max_tokens(options: Json) -> int | None:
    for name in _LENGTHS:
        value = options.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or value < 1:
            raise BadRequestError(f"{name} must be at least 1, got {value}.")
        return value
    return None


def _prompt(body: Json) -> str:
    for name in ("prompt", "messages", "inputs", "text_input", "text", "input_ids", "input"):
        if name in body:
            return _text(body[name])
    raise BadRequestError("Field required: prompt")


def _text(value: object) -> str:
    """Text of whatever stands for a prompt: text, token ids, parts, messages, or a batch of those."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        items = cast("list[object]", value)
        if items and all(isinstance(item, int) for item in items):
            return " ".join(f"<{item}>" for item in items)
        return "\n".join(_text(item) for item in items)
    if isinstance(value, dict):
        part = cast("Json", value)
        return _text(part.get("content", part.get("text", "")))
    return ""
