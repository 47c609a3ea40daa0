"""Reads what a hosted provider says when it refuses, whatever its shape, and says what becomes of the attempt."""

from typing import Final, cast

import msgspec

from pulsegate.core.provider_fault import USERS, ProviderFault, provider_fault
from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.gate import Broken, Gate, Verdict

_MESSAGES: Final = ("message", "msg", "detail")
_CODES: Final = ("code", "type", "status")
_STATUSES: Final = range(400, 600)
_OK_BELOW: Final = 300
_SHOWN_CHARS: Final = 200
_DECODE = msgspec.json.Decoder().decode

_KINDS: Final = {
    ProviderFault.BILLING: FailureKind.REJECTED,
    ProviderFault.AUTH: FailureKind.REJECTED,
    ProviderFault.NOT_FOUND: FailureKind.REJECTED,
    ProviderFault.RATE_LIMIT: FailureKind.OVERLOAD,
    ProviderFault.BUSY: FailureKind.OVERLOAD,
    ProviderFault.OUTAGE: FailureKind.SERVER,
}
_FAULTS: Final = {
    FailureKind.REJECTED: ProviderFault.AUTH,
    FailureKind.OVERLOAD: ProviderFault.BUSY,
}
_TELL_NOTHING: Final = frozenset({FailureKind.LOCAL, FailureKind.EJECTED})


def read_refusal(status: int, body: bytes) -> tuple[ProviderFault, str]:
    """The class of a refusal, and its words for the log.

    Args:
        status: of the answer; below 300 the error inside counts.
        body: the answer's, or of one event.
    """
    try:
        value: object = _DECODE(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = body[:_SHOWN_CHARS].decode("utf-8", "replace")
    codes: list[str] = []
    message = _collect(value, codes)
    told = status if status >= _OK_BELOW else _status_in(codes)
    fault = provider_fault(told, [code.lower() for code in codes], message)
    return fault, f"{fault.value}: {message}"[:_SHOWN_CHARS]


def _collect(value: object, codes: list[str]) -> str:
    """The message; the machine's words go into ``codes``, those of the innermost error first."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        return _collect(cast("list[object]", value)[0], codes)
    if not isinstance(value, dict):
        return ""
    fields = cast("dict[str, object]", value)
    inner = _collect(fields.get("error"), codes)
    codes += [str(word) for name in _CODES if isinstance(word := fields.get(name), str | int)]
    return inner or next((text for name in _MESSAGES if isinstance(text := fields.get(name), str) and text), "")


def _status_in(codes: list[str]) -> int | None:
    return next((int(code) for code in codes if code.isascii() and code.isdigit() and int(code) in _STATUSES), None)


def verdict_of(fault: ProviderFault, detail: str) -> Verdict:
    """What a refusal means for the attempt: the user's own fault is an answer."""
    return Gate.OPEN if fault in USERS else Broken(_KINDS[fault], detail)


def fault_of(kind: FailureKind) -> ProviderFault | None:
    """What a failure without words amounts to; None: it says nothing of the provider."""
    return None if kind in _TELL_NOTHING else _FAULTS.get(kind, ProviderFault.OUTAGE)
