"""The first-token gate: is this answer alive yet?

Reads an answer only until its first real token (streams) or as a whole (others). Decides nothing about what to do then.

A real token is text, reasoning, a tool call or a finish reason; it can have empty text (a finish reason or counted
completion tokens prove it). No tokens: comments, pings, role-only and empty deltas, chunks without choices. An error
inside a 200 is a failure, whichever shape it has.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, cast

import msgspec

from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.usage import Counts, Usage, usage_from

GATE_BYTES: Final = 4 * 1024 * 1024  # no engine says that much before its first token

Object = dict[str, object]


class Gate(Enum):
    """What is known so far."""

    WAIT = "wait"  # nothing real yet
    OPEN = "open"  # a token, or an error that is the user's own: the client may have it all


@dataclass(frozen=True, slots=True)
class Broken:
    """The answer is a failure. ``detail`` is for the log, ``said`` the JSON in which the server said so, if it did."""

    kind: FailureKind
    detail: str
    said: bytes = b""


Verdict = Gate | Broken

_SAID_NOTHING: Final = Broken(FailureKind.SERVER, "the stream ended without a token")
_CUT_SHORT_REASON: Final = "insufficient_system_resource"  # DeepSeek: the generation was interrupted
CUT_SHORT: Final = b'"insufficient_system_resource"'
_NO_RESOURCES: Final = Broken(FailureKind.SERVER, "the server ran out of resources for it")
_USER_STATUS: Final = range(400, 500)
_NOT_THE_USER: Final = frozenset({401, 402, 403, 407, 408, 424, 425, 429, 499})
_OVERLOAD: Final = frozenset({429, 503, 529})
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})
_ENDS_RESPONSE: Final = frozenset(
    {"response.completed", "response.incomplete", "response.output_item.done", "response.output_text.done"}
)

_DECODE = msgspec.json.Decoder().decode


class StreamGate:
    """Judges the payload of an event stream (chunk framing already taken off), however it was cut."""

    __slots__ = ("_rest", "_size")

    def __init__(self) -> None:
        self._rest = b""
        self._size = 0

    def feed(self, payload: bytes) -> Verdict:
        """Judge these bytes; after the first verdict other than WAIT the gate is of no more use."""
        self._size += len(payload)
        rest = self._rest + payload if self._rest else payload
        if b"\r" in rest:
            rest = _line_feeds(rest)
        *events, self._rest = rest.split(b"\n\n")
        for event in events:
            verdict = judge_event(event)
            if verdict is not Gate.WAIT:
                return verdict
        if self._size > GATE_BYTES:
            return Broken(FailureKind.PROTOCOL, f"no token within {GATE_BYTES} bytes")
        return Gate.WAIT

    def finish(self) -> Verdict:
        """The stream ended properly; its last event may lack the blank line."""
        verdict = judge_event(self._rest.strip()) if self._rest.strip() else Gate.WAIT
        return _SAID_NOTHING if verdict is Gate.WAIT else verdict


def _line_feeds(text: bytes) -> bytes:
    """All line ends as LF, but a CR at the very end waits for the LF that may follow."""
    last = b"\r" if text.endswith(b"\r") else b""
    return text[: len(text) - len(last)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + last


def judge_event(event: bytes) -> Verdict:
    """Judge one event: its lines without the blank line that ends it."""
    if event.startswith(b"data:") and b"\n" not in event:
        data, named_error = event[5:], False
    else:
        lines = event.split(b"\n")
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        named_error = any(line.startswith(b"event:") and line[6:].strip() == b"error" for line in lines)
    data = data.strip()
    if not data or data.startswith(b":"):  # nothing, or a comment that a gateway on the way took for data
        return Gate.WAIT
    if data == b"[DONE]":
        return _SAID_NOTHING
    value = _decoded(data)
    if value is None:
        return Broken(FailureKind.PROTOCOL, "an event that is not a JSON object")
    failure = _failure_in(value, named_error=named_error)
    if failure is not None:
        return replace(failure, said=data) if isinstance(failure, Broken) else failure
    if CUT_SHORT in data and _is_cut_short(value):
        return _NO_RESOURCES
    return Gate.OPEN if _has_token(value) else Gate.WAIT


def _is_cut_short(value: Object) -> bool:
    """Whether it ends for want of the server's resources, and not with its last token."""
    choices = value.get("choices")
    listed = cast("list[object]", choices) if isinstance(choices, list) else []
    fields = [cast("Object", choice) for choice in listed if isinstance(choice, dict)]
    return any(choice.get("finish_reason") == _CUT_SHORT_REASON for choice in fields)


def _decoded(data: bytes) -> Object | None:
    try:
        value: object = _DECODE(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return cast("Object", value) if isinstance(value, dict) else None


def _has_token(value: Object) -> bool:
    choices = value.get("choices")
    if isinstance(choices, list) and any(_choice_has_token(choice) for choice in cast("list[object]", choices)):
        return True
    usage = value.get("usage")
    if isinstance(usage, dict):
        completed = cast("Object", usage).get("completion_tokens")
        if isinstance(completed, int) and completed > 0:
            return True
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    return kind in _ENDS_RESPONSE or (kind.endswith(".delta") and value.get("delta") not in _EMPTY)


def _choice_has_token(choice: object) -> bool:
    if not isinstance(choice, dict):
        return False
    fields = cast("Object", choice)
    if fields.get("finish_reason") is not None or fields.get("text") not in _EMPTY:
        return True
    delta = fields.get("delta")
    if not isinstance(delta, dict):
        return False
    return any(value not in _EMPTY for key, value in cast("Object", delta).items() if key != "role")


def _failure_in(value: Object, *, named_error: bool) -> Verdict | None:
    """The failure that an event or a body tells of; OPEN if it is the user's own; None if all is well."""
    error = value.get("error")
    kind = value.get("type")
    if not error and not named_error and value.get("object") != "error" and kind not in ("error", "response.failed"):
        return None
    inner = cast("Object", error) if isinstance(error, dict) else value
    status = _status_in(inner) or _status_in(value)
    if status in _USER_STATUS and status not in _NOT_THE_USER:
        return Gate.OPEN
    told = inner.get("message") or (error if isinstance(error, str) else "an error inside a 200")
    return Broken(FailureKind.OVERLOAD if status in _OVERLOAD else FailureKind.SERVER, str(told)[:200])


def _status_in(fields: Object) -> int | None:
    for key in ("code", "http_status_code", "status_code", "status"):
        told = fields.get(key)
        if isinstance(told, int):
            return told
        if isinstance(told, str) and told.isascii() and told.isdigit():
            return int(told[:4])
    return None


class _Whole(msgspec.Struct, frozen=True):
    """What a whole answer says about errors and usage; the rest is skipped, but must be JSON."""

    error: object = None
    what: object = msgspec.field(default=None, name="object")
    kind: object = msgspec.field(default=None, name="type")
    usage: Counts | None = None


_WHOLE = msgspec.json.Decoder(_Whole)
_NOT_JSON: Final = Broken(FailureKind.PROTOCOL, "a 200 whose body is not a JSON object")


def judge_body(body: bytes) -> tuple[Verdict, Usage | None]:
    """Judge a whole 200 answer that is not a stream: JSON without an error in it is OPEN; and what it used."""
    try:
        whole = _WHOLE.decode(body)
    except msgspec.ValidationError:  # usage in a shape of its own, or no object at all
        value = _decoded(body)
        return (_NOT_JSON if value is None else _failure_in(value, named_error=False) or Gate.OPEN), None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _NOT_JSON, None
    if not whole.error and whole.what != "error" and whole.kind != "error":
        if CUT_SHORT in body and _is_cut_short(_decoded(body) or {}):
            return _NO_RESOURCES, None
        return Gate.OPEN, None if whole.usage is None else usage_from(whole.usage)
    value = _decoded(body)
    failure = (None if value is None else _failure_in(value, named_error=False)) or Gate.OPEN
    return (replace(failure, said=body) if isinstance(failure, Broken) else failure), None


def judge_status(status: int, *, users_key: bool) -> Verdict | None:
    """Judge an answer by its status alone: None for a 2xx, whose body has to be judged.

    Args:
        status: of the answer.
        users_key: the client's own key was sent on, so that 401 and its like are the user's.
    """
    if 200 <= status < 300:  # noqa: PLR2004 - success
        return None
    detail = f"HTTP {status}"
    if status in _OVERLOAD:
        return Broken(FailureKind.OVERLOAD, detail)
    if status in (401, 402, 403, 407):
        return Gate.OPEN if users_key else Broken(FailureKind.REJECTED, detail)
    if status in _USER_STATUS and status not in _NOT_THE_USER:
        return Gate.OPEN
    if status < 400:  # noqa: PLR2004 - redirects are never followed
        return Broken(FailureKind.PROTOCOL, f"a redirect ({detail})")
    return Broken(FailureKind.SERVER, detail)
