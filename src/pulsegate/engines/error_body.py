"""Finds what an error body says, whatever its shape. Decides nothing about what it means.

Shapes met in the field: ``{"error": {...}}`` (OpenAI and most), ``{"error": "text"}`` (vLLM 401, TGI, Ollama, Triton),
flat ``{"object": "error", "message": ...}`` (older vLLM, SGLang, TensorRT-LLM, LMDeploy), both at once
``{"error": {"object": "error", ...}}``, ``{"detail": ...}`` (FastAPI), ``{"type": "error", "error": {...}}``,
``[{"error": {...}}]``, ``{"code": ..., "msg": ...}``, ``{"base_resp": {"status_code": ..., "status_msg": ...}}``, plain
text, HTML, nothing at all.
"""

import re
from dataclasses import dataclass
from typing import Final, cast

import msgspec

SCANNED_BYTES: Final = 64 * 1024
_HTTP_STATUSES: Final = range(100, 600)
_MESSAGE_KEYS: Final = ("message", "msg", "detail", "status_msg", "error_message", "reason", "title")
_CODE_KEYS: Final = ("code", "status_code", "type", "error_type", "status")
_STATUS_KEYS: Final = ("http_status_code", "code", "status_code", "status")
_QUOTED_MESSAGE = re.compile(r'"(?:message|error|detail|msg)"\s*:\s*"((?:[^"\\]|\\.)*)')
_TAG = re.compile(r"<[^<>]{0,400}>")


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """What the body says.

    ``message`` is meant for people, "" if there is none. ``codes`` are the machine's words for it (type, code, param),
    lower case. ``status`` is the HTTP status that the body itself names, None if it names none.
    """

    message: str
    codes: tuple[str, ...] = ()
    status: int | None = None


def read_error_body(body: bytes) -> ErrorBody:
    """What ``body`` says; never fails."""
    head = body[:SCANNED_BYTES]
    try:
        told = read_error_value(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ErrorBody(message=_plain(head.decode("utf-8", "replace")))
    return told or ErrorBody(message=head.decode("utf-8", "replace"))


def read_error_value(value: object) -> ErrorBody | None:
    """The error that a decoded JSON value holds, None if it holds none."""
    if isinstance(value, str) and value.strip():
        return read_error_body(value.encode()) if value.lstrip().startswith("{") else ErrorBody(message=value)
    if isinstance(value, list) and value:
        return read_error_value(cast("list[object]", value)[0])
    if isinstance(value, dict):
        return _from_object(cast("dict[str, object]", value))
    return None


def _from_object(fields: dict[str, object]) -> ErrorBody | None:
    for key in ("error", "errors", "base_resp"):
        inner = fields.get(key)
        if inner and inner is not True:
            told = read_error_value(inner)
            if told is not None:
                return _enriched(told, fields)
    message = next((text for key in _MESSAGE_KEYS if (text := _text(fields.get(key)))), "")
    codes = _codes(fields)
    if not message and not codes:
        return None
    return ErrorBody(message=message, codes=codes, status=_status(fields))


def _enriched(told: ErrorBody, outer: dict[str, object]) -> ErrorBody:
    """TGI puts ``error_type`` beside the text, some gateways the code around the error."""
    status = told.status if told.status is not None else _status(outer)
    return ErrorBody(message=told.message, codes=(*told.codes, *_codes(outer)), status=status)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value and isinstance(value, dict | list):  # FastAPI's list of validation errors, and errors wrapped twice
        return msgspec.json.encode(cast("object", value)).decode()
    return ""


def _codes(fields: dict[str, object]) -> tuple[str, ...]:
    found = (fields.get(key) for key in (*_CODE_KEYS, "param"))
    return tuple(str(code).lower() for code in found if isinstance(code, str | int) and code not in ("", True, False))


def _status(fields: dict[str, object]) -> int | None:
    for key in _STATUS_KEYS:
        value = fields.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:4])
        if isinstance(value, int) and value in _HTTP_STATUSES:
            return value
    return None


def _plain(text: str) -> str:
    """The message of JSON that was cut off, the title of a web page, or the text itself."""
    if quoted := _QUOTED_MESSAGE.search(text):
        return quoted[1].replace('\\"', '"').replace("\\n", " ")
    if title := _html_title(text):
        return title
    return _TAG.sub(" ", text).strip() if text.lstrip().startswith("<") else text


def _html_title(text: str) -> str:
    """Searched step by step: one pattern for it would look at a page of nothing but beginnings for seconds."""
    lower = text.lower()
    tag = lower.find("<title")
    begin = lower.find(">", tag) + 1 if tag >= 0 else 0
    end = lower.find("</title", begin) if begin > 0 else -1
    return text[begin:end].strip() if end >= 0 else ""


def declared_error(value: object) -> object | None:
    """The error that an event of a stream declares to be one; None for everything else, such as pings."""
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, object]", value)
    if fields.get("error") or fields.get("errors"):
        return fields
    if "error" in (fields.get("object"), fields.get("type")):
        return fields
    if fields.get("message") and fields.get("code") and not fields.get("choices"):
        return fields
    return None
