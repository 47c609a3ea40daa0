"""Puts payload into the framing that a client understands, and keeps to whole events while doing so."""

import re
from typing import Final

LAST_CHUNK: Final = b"0\r\n\r\n"
_REMEMBERED_LENGTHS: Final = 4096
MAX_EVENT_BYTES: Final = 1024 * 1024

EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n")
ALIGNED: Final = (b"\n\n\r\n", b"\r\n\r\n\r\n")
"""How a read ends that ends with an event and with its chunk. Payload that ends like ``EVENT_ENDS``, in a read that
ends like this, leaves nothing open: the last two bytes are not payload, so they close the chunk."""

_CHUNK_END: Final = b"\n\n\r\n"
_BLANKS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_PARTS: Final = re.compile(rb"(.*?(?:\r\n\r\n|\n\n|\r\r))", re.DOTALL)


class SizeLines(dict[int, tuple[bytes, ...]]):
    """How a read begins that is exactly one chunk, by the length of the read: its size line follows from that.

    ``lines[length]`` is the size line in lower and in upper case, or empty if no chunk is that long. A dict that fills
    itself: nearly all look-ups cost no Python frame.
    """

    def __missing__(self, length: int) -> tuple[bytes, ...]:
        lines = _size_lines(length)
        if length < _REMEMBERED_LENGTHS:
            self[length] = lines
        return lines


def _size_lines(length: int) -> tuple[bytes, ...]:
    for digits in range(1, 8):
        size = length - digits - 4  # the size line's CRLF and the one after the payload
        if size > 0 and len(b"%x" % size) == digits:
            return (b"%x\r\n" % size, b"%X\r\n" % size)
    return ()


def whole_chunks(data: bytes, size_lines: SizeLines) -> bool:
    """Whether ``data``, which begins where a chunk does, is chunks and nothing else, each ending with an event's end.

    Each must end at the first place that looks like it, and its size line must say so. False does not mean no: events
    that end with CRLF CRLF are left to whoever reads more closely.
    """
    begin, length = 0, len(data)
    while begin < length:
        end = data.find(_CHUNK_END, begin) + len(_CHUNK_END)
        if end <= begin + len(_CHUNK_END) or not data.startswith(size_lines[end - begin], begin):
            return False
        begin = end
    return True


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
