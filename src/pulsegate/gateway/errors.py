"""Errors that the gateway itself answers with, in OpenAI's JSON shape with a stable ``code``."""

from dataclasses import dataclass

import msgspec

REASONS = {
    200: b"OK",
    204: b"No Content",
    304: b"Not Modified",
    400: b"Bad Request",
    401: b"Unauthorized",
    402: b"Payment Required",
    403: b"Forbidden",
    404: b"Not Found",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Content Too Large",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    500: b"Internal Server Error",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
}
_FIRST_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiError:
    """One error answer. ``message`` is for people and holds no secret; ``allow`` goes with 405."""

    status: int
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None
    allow: str | None = None


def error_body(error: ApiError) -> bytes:
    """``{"error": {"message", "type", "param", "code"}}``."""
    return msgspec.json.encode({"error": _fields(error)})


def error_event(error: ApiError) -> bytes:
    """The same as one event of a stream, with the blank line that ends it."""
    return b"data: " + error_body(error) + b"\n\n"


def _fields(error: ApiError) -> dict[str, str | None]:
    fallback = "api_error" if error.status >= _FIRST_SERVER_ERROR else "invalid_request_error"
    kind = _TYPES.get(error.status, fallback)
    return {"message": error.message, "type": kind, "param": error.param, "code": error.code}


def bad_request(code: str, message: str, param: str | None = None) -> ApiError:
    """400: the request is at fault."""
    return ApiError(status=400, code=code, message=message, param=param)


STALLED = ApiError(
    status=504, code="upstream_stalled", message="The model stopped sending tokens before the answer was complete."
)
CUT = ApiError(
    status=502, code="upstream_cut", message="The model's server closed the stream before the answer was complete."
)
INTERNAL = ApiError(status=500, code="internal_error", message="The gateway failed to handle this request.")
