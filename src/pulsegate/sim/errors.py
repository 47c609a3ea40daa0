"""How each engine says no: status, body shape and wording.

Shapes as recorded from vLLM 0.32 and llama.cpp, and as read in the sources of the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from msgspec.json import encode

from pulsegate.sim.request import Json, Route


class Refusal(StrEnum):
    """Why a generation is refused."""

    BUSY = "busy"
    LOADING = "loading"
    ASLEEP = "asleep"
    DEAD = "dead"  # the engine behind the web server is gone
    NO_MODEL = "no_model"
    NO_ROUTE = "no_route"
    BAD_REQUEST = "bad_request"
    UNAUTHORIZED = "unauthorized"


@dataclass(frozen=True, slots=True)
class Saying:
    """One refusal as one engine words it; ``{detail}`` and ``{model}`` are filled in."""

    status: int
    kind: str
    message: str


class Shape(StrEnum):
    """How an error body is built."""

    ENVELOPE = "envelope"  # {"error": {"message", "type", "param", "code"}}
    FLAT = "flat"  # {"object": "error", "message", "type", "param", "code"}
    TGI = "tgi"  # {"error": text, "error_type"}
    TEXT = "text"  # {"error": text}


_COMMON = {
    Refusal.BUSY: Saying(503, "service_unavailable", "The server is busy. Please try again later."),
    Refusal.LOADING: Saying(503, "service_unavailable", "The model is loading."),
    Refusal.ASLEEP: Saying(503, "service_unavailable", "The engine is sleeping."),
    Refusal.DEAD: Saying(500, "server_error", "The engine is dead."),
    Refusal.NO_MODEL: Saying(404, "NotFoundError", "The model `{model}` does not exist."),
    Refusal.NO_ROUTE: Saying(404, "NotFoundError", "Not Found"),
    Refusal.BAD_REQUEST: Saying(400, "BadRequestError", "{detail}"),
    Refusal.UNAUTHORIZED: Saying(401, "authentication_error", "Unauthorized"),
}
_VLLM_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
_VLLM_BUSY = (
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."
)
_OWN: Mapping[str, Mapping[Refusal, Saying]] = {
    "vllm": {
        Refusal.BUSY: Saying(503, "Service Unavailable", _VLLM_BUSY),
        Refusal.DEAD: Saying(500, "InternalServerError", _VLLM_DEAD),
        Refusal.ASLEEP: Saying(500, "InternalServerError", "CUDA error: an illegal memory access was encountered"),
    },
    "sglang": {
        Refusal.BUSY: Saying(503, "ServiceUnavailable", "The request queue is full."),
        Refusal.DEAD: Saying(500, "InternalServerError", "Internal server error"),
    },
    "tgi": {
        Refusal.BUSY: Saying(429, "overloaded", "Model is overloaded"),
        Refusal.DEAD: Saying(424, "generation", "Request failed during generation: Server error: transport error"),
        Refusal.BAD_REQUEST: Saying(422, "validation", "Input validation error: {detail}"),
    },
    "trtllm": {
        Refusal.DEAD: Saying(500, "InternalServerError", "LLM is shutting down or its executor has failed."),
    },
    "triton": {
        Refusal.BUSY: Saying(503, "", "Exceeds maximum queue size"),
        Refusal.LOADING: Saying(400, "", "Request for unknown model: '{model}' has no available versions"),
        Refusal.DEAD: Saying(
            400,
            "",
            "Failed to process the request(s) for model instance '{model}_0', message: Stub process is not healthy.",
        ),
        Refusal.NO_MODEL: Saying(400, "", "Request for unknown model: '{model}' is not found"),
    },
    "llamacpp": {
        Refusal.BUSY: Saying(503, "unavailable_error", "no slot available"),
        Refusal.LOADING: Saying(503, "unavailable_error", "Loading model"),
        Refusal.DEAD: Saying(500, "server_error", "CUDA error: an illegal memory access was encountered"),
        Refusal.BAD_REQUEST: Saying(400, "invalid_request_error", "{detail}"),
        Refusal.UNAUTHORIZED: Saying(401, "authentication_error", "Invalid API Key"),
        Refusal.NO_ROUTE: Saying(404, "not_found_error", "File Not Found"),
    },
    "ollama": {
        Refusal.BUSY: Saying(503, "api_error", "server busy, please try again.  maximum pending requests exceeded"),
        Refusal.DEAD: Saying(
            500,
            "api_error",
            "model runner has unexpectedly stopped, this may be due to resource limitations or an internal error",
        ),
        Refusal.NO_MODEL: Saying(404, "not_found_error", "model '{model}' not found"),
    },
    "lmdeploy": {
        Refusal.BUSY: Saying(503, "server_error", "The engine is overloaded."),
        Refusal.LOADING: Saying(503, "server_error", "The engine is not ready."),
        Refusal.ASLEEP: Saying(503, "server_error", "The engine is sleeping."),
        Refusal.DEAD: Saying(503, "server_error", "engine_unavailable"),
        Refusal.NO_MODEL: Saying(404, "not_found_error", "The model '{model}' does not exist."),
        Refusal.BAD_REQUEST: Saying(400, "invalid_request_error", "{detail}"),
    },
    "openai": {
        Refusal.BUSY: Saying(429, "rate_limit_exceeded", "Rate limit reached. Please try again later."),
        Refusal.NO_MODEL: Saying(404, "invalid_request_error", "The model `{model}` does not exist."),
        Refusal.BAD_REQUEST: Saying(400, "invalid_request_error", "{detail}"),
        Refusal.UNAUTHORIZED: Saying(401, "invalid_request_error", "Incorrect API key provided."),
    },
}
_SHAPES = {"tgi": Shape.TGI, "triton": Shape.TEXT, "lmdeploy": Shape.FLAT, "sglang": Shape.FLAT, "trtllm": Shape.FLAT}
_NATIVE_OLLAMA = frozenset({Route.OLLAMA, Route.OLLAMA_CHAT})


def saying(dialect: str, why: Refusal, *, detail: str = "", model: str = "") -> Saying:
    """How this engine words this refusal."""
    found = _OWN.get(dialect, {}).get(why) or _COMMON[why]
    return Saying(found.status, found.kind, found.message.format(detail=detail, model=model))


def body(dialect: str, said: Saying, route: Route | None = None) -> bytes:
    """The JSON body of an error response."""
    if said.status == 401 and dialect in {"vllm", "sglang", "lmdeploy"}:  # noqa: PLR2004 - the status itself
        return b'{"error":"Unauthorized"}'
    return encode(_content(_shape(dialect, route), said))


def event(dialect: str, said: Saying, route: Route | None = None) -> bytes:
    """The payload of an error event inside a stream that began with 200."""
    shape = _shape(dialect, route)
    if shape is Shape.TGI and route in {Route.CHAT, Route.COMPLETIONS}:
        return encode({"error": {"message": said.message, "http_status_code": 422}})
    content = _content(shape, said)
    return encode({"error": content} if shape is Shape.FLAT else content)


def _shape(dialect: str, route: Route | None) -> Shape:
    if dialect == "ollama" and route in _NATIVE_OLLAMA:
        return Shape.TEXT
    return _SHAPES.get(dialect, Shape.ENVELOPE)


def _content(shape: Shape, said: Saying) -> Json:
    match shape:
        case Shape.ENVELOPE:
            fields = {"message": said.message, "type": said.kind, "param": None, "code": said.status}
            return {"error": fields}
        case Shape.FLAT:
            fields = {"message": said.message, "type": said.kind, "param": None, "code": said.status}
            return {"object": "error", **fields}
        case Shape.TGI:
            return {"error": said.message, "error_type": said.kind}
        case Shape.TEXT:
            return {"error": said.message}
