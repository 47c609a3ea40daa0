"""How each engine says no: status, body shape and wording.

Shapes as recorded from vLLM 0.32 and llama.cpp, as read in the sources of the others, and as hosted providers
document theirs.
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
    NO_MONEY = "no_money"
    RATE_LIMIT = "rate_limit"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class Saying:
    """One refusal as one engine words it; ``{detail}`` and ``{model}`` are filled in. ``code`` None: the status."""

    status: int
    kind: str
    message: str
    code: str | None = None


class Shape(StrEnum):
    """How an error body is built."""

    ENVELOPE = "envelope"  # {"error": {"message", "type", "param", "code"}}
    FLAT = "flat"  # {"object": "error", "message", "type", "param", "code"}
    TGI = "tgi"  # {"error": text, "error_type"}
    TEXT = "text"  # {"error": text}
    CODED = "coded"  # {"error": {"code": "1302", "message"}}


_COMMON = {
    Refusal.BUSY: Saying(503, "service_unavailable", "The server is busy. Please try again later."),
    Refusal.LOADING: Saying(503, "service_unavailable", "The model is loading."),
    Refusal.ASLEEP: Saying(503, "service_unavailable", "The engine is sleeping."),
    Refusal.DEAD: Saying(500, "server_error", "The engine is dead."),
    Refusal.NO_MODEL: Saying(404, "NotFoundError", "The model `{model}` does not exist."),
    Refusal.NO_ROUTE: Saying(404, "NotFoundError", "Not Found"),
    Refusal.BAD_REQUEST: Saying(400, "BadRequestError", "{detail}"),
    Refusal.UNAUTHORIZED: Saying(401, "authentication_error", "Unauthorized"),
    Refusal.NO_MONEY: Saying(402, "insufficient_quota", "Insufficient balance", "insufficient_quota"),
    Refusal.RATE_LIMIT: Saying(429, "rate_limit_error", "Rate limit reached. Please try again later."),
    Refusal.TOO_LARGE: Saying(400, "BadRequestError", "This model's maximum context length is 4096 tokens."),
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
    "deepseek": {
        Refusal.BUSY: Saying(503, "service_unavailable_error", "Service is too busy.", "service_unavailable_error"),
        Refusal.DEAD: Saying(500, "server_error", "Internal server error", "internal_error"),
        Refusal.NO_MODEL: Saying(400, "invalid_request_error", "Model Not Exist", "invalid_request_error"),
        Refusal.UNAUTHORIZED: Saying(
            401, "authentication_error", "Authentication Fails, Your api key is invalid", "invalid_request_error"
        ),
        Refusal.NO_MONEY: Saying(402, "unknown_error", "Insufficient Balance", "invalid_request_error"),
        Refusal.RATE_LIMIT: Saying(429, "rate_limit_error", "Rate limit reached", "rate_limit_error"),
        Refusal.TOO_LARGE: Saying(
            400,
            "invalid_request_error",
            "This model's maximum context length is 65536 tokens.",
            "invalid_request_error",
        ),
    },
    "zhipu": {
        Refusal.BUSY: Saying(429, "", "该模型当前访问量过大", "1305"),
        Refusal.DEAD: Saying(500, "", "网络错误", "1234"),
        Refusal.NO_MODEL: Saying(400, "", "模型不存在", "1211"),
        Refusal.UNAUTHORIZED: Saying(401, "", "令牌已过期或验证不正确", "1000"),
        Refusal.NO_MONEY: Saying(429, "", "余额不足或无可用资源包,请充值。", "1113"),
        Refusal.RATE_LIMIT: Saying(429, "", "您的账户已达到速率限制", "1302"),
        Refusal.TOO_LARGE: Saying(400, "", "Prompt 超长", "1261"),
    },
    "dashscope": {
        Refusal.BUSY: Saying(
            503, "ModelUnavailable", "Model is unavailable, please try again later.", "ModelUnavailable"
        ),
        Refusal.DEAD: Saying(
            500, "internal_error", "An internal error has occured, please try again later.", "internal_error"
        ),
        Refusal.NO_MODEL: Saying(
            404,
            "invalid_request_error",
            "The model `{model}` does not exist or you do not have access to it.",
            "model_not_found",
        ),
        Refusal.UNAUTHORIZED: Saying(401, "invalid_request_error", "Incorrect API key provided.", "invalid_api_key"),
        Refusal.NO_MONEY: Saying(
            400, "Arrearage", "Access denied, please make sure your account is in good standing.", "Arrearage"
        ),
        Refusal.RATE_LIMIT: Saying(
            429, "limit_requests", "You exceeded your current requests list.", "Throttling.RateQuota"
        ),
        Refusal.TOO_LARGE: Saying(
            400, "invalid_request_error", "Range of input length should be [1, 30720]", "invalid_parameter_error"
        ),
    },
}
_SHAPES = {
    "zhipu": Shape.CODED,
    "tgi": Shape.TGI,
    "triton": Shape.TEXT,
    "lmdeploy": Shape.FLAT,
    "sglang": Shape.FLAT,
    "trtllm": Shape.FLAT,
}
_NATIVE_OLLAMA = frozenset({Route.OLLAMA, Route.OLLAMA_CHAT})


def saying(dialect: str, why: Refusal, *, detail: str = "", model: str = "") -> Saying:
    """How this engine words this refusal."""
    found = _OWN.get(dialect, {}).get(why) or _COMMON[why]
    return Saying(found.status, found.kind, found.message.format(detail=detail, model=model), found.code)


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
            code = said.code or said.status
            return {"error": {"message": said.message, "type": said.kind, "param": None, "code": code}}
        case Shape.CODED:
            return {"error": {"code": said.code or str(said.status), "message": said.message}}
        case Shape.FLAT:
            fields = {"message": said.message, "type": said.kind, "param": None, "code": said.status}
            return {"object": "error", **fields}
        case Shape.TGI:
            return {"error": said.message, "error_type": said.kind}
        case Shape.TEXT:
            return {"error": said.message}
