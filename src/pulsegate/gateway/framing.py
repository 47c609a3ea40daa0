"""Puts payload into the framing that a client understands, and keeps to whole events while doing so."""

import re
from typing import Final

LAST_CHUNK: Final = b"0\r\n\r\n"
MAX_EVENT_BYTES: Final = 1024 * 1024

EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n")
ALIGNED: Final = (b"\n\n\r\n", b"\r\n\r\n\r\n")
"""How a read ends that ends with an event and with its chunk. Payload that ends like ``EVENT_ENDS``, in a read that
ends like this, leaves nothing open: the last two bytes are not payload, so they close the chunk."""

_BLANKS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_PARTS: Final = re.compile(rb"(.*?(?:\r\n\r\n|\n\n|\r\r))", re.DOTALL)


def chunk(payload: bytes) -> bytes:
    """One chunk; ``payload`` must not be empty, which would end the body."""
    return b"%x\r\n%b\r\n" % (len(payload), payload)


def whole_events(payload: bytes) -> int:
    """How many bytes of ``payload`` are whole events; all of it when an event is too large to be waited for."""
    if len(payload) > MAX_EVENT_BYTES:
        return len(payload)
    ends = [payload.rfind(end) + len(end) for end in _BLANKS if end in payload]
    return max(ends, default=0)


def events_of(payload: bytes) -> list[bytes]:
    """The events of whole-event payload, each with its blank line."""
    if b"\r" not in payload:
        *events, rest = payload.split(b"\n\n")
        return [event + b"\n\n" for event in events] + ([rest] if rest else [])
    return [part for part in _PARTS.split(payload) if part]
