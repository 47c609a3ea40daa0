"""Takes a chunked request body out of its framing (RFC 9112, section 7.1), strictly, and finds where it ends.

Every line ends with CRLF, sizes are bare hexadecimal digits; extensions and trailers are read over.
"""

import re
from typing import Final

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")
_TRAILER: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")
_LINE_BYTES: Final = 4096
_TRAILER_BYTES: Final = 16 * 1024


class ChunkError(Exception):
    """The framing is not what it must be. The message says what is wrong with it."""


class ChunkedBody:
    """Reads one body.

    Attributes:
        payload: what was in the chunks so far.
        rest: when ``done``, what came after the body.
    """

    __slots__ = ("_buffer", "_left", "_trailer_size", "done", "payload", "rest")

    def __init__(self) -> None:
        self._buffer = b""
        self._left = -1  # of the chunk under way, its CRLF included; -1 before a size line, -2 in the trailers
        self._trailer_size = 0
        self.payload = bytearray()
        self.done = False
        self.rest = b""

    def feed(self, data: bytes) -> None:
        """Take bytes.

        Raises:
            ChunkError: they are not chunks.
        """
        buffer = self._buffer + data if self._buffer else data
        at = 0
        while not self.done:
            taken = self._payload(buffer, at) if self._left > 0 else self._line(buffer, at)
            if taken == at:
                break
            at = taken
        self._buffer = b""
        if self.done:
            self.rest = buffer[at:]
        else:
            self._buffer = buffer[at:]

    def _payload(self, buffer: bytes, at: int) -> int:
        """Take what there is of a chunk's data and of the CRLF after it."""
        left = self._left
        if left > 2:  # noqa: PLR2004 - the CRLF
            piece = buffer[at : at + left - 2]
            if not piece:
                return at
            self.payload += piece
            self._left = left - len(piece)
            return at + len(piece)
        if len(buffer) - at < 2:  # noqa: PLR2004 - the CRLF
            return at
        if buffer[at : at + 2] != b"\r\n":
            raise ChunkError("a chunk is longer than its size says")
        self._left = -1
        return at + 2

    def _line(self, buffer: bytes, at: int) -> int:
        end = buffer.find(b"\n", at, at + _LINE_BYTES)
        if end < 0:
            if len(buffer) - at >= _LINE_BYTES:
                raise ChunkError("a line of the chunked body is too long")
            return at
        if buffer[max(at, end - 1) : end] != b"\r":
            raise ChunkError("a line of the chunked body does not end with CRLF")
        line = buffer[at : end - 1]
        if self._left == -1:
            self._size_line(line)
        else:
            self._trailer_line(line)
        return end + 1

    def _size_line(self, line: bytes) -> None:
        found = _SIZE.fullmatch(line)
        if found is None:
            raise ChunkError("the size of a chunk is not a hexadecimal number")
        size = int(found[1], 16)
        self._left = size + 2 if size else -2

    def _trailer_line(self, line: bytes) -> None:
        if not line:
            self.done = True
            return
        self._trailer_size += len(line)
        if self._trailer_size > _TRAILER_BYTES or _TRAILER.fullmatch(line) is None:
            raise ChunkError("the trailers of the chunked body are malformed or too long")
