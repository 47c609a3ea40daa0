"""Writes one HTTP response: head, chunks, events. Knows nothing of engines.

Whatever must not leave in one piece (split at every byte, dripped) is kept in :attr:`Reply.drip`, from which the
exchange sends it bit by bit.
"""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus

from pulsegate.sim.wires import Framing

Header = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a stream is framed on purpose. ``piece_bytes`` 0 sends as it comes; ``piece_every_s`` between pieces."""

    eol: bytes = b"\n"
    bom: bool = False
    space: bool = True
    piece_bytes: int = 0
    piece_every_s: float = 0.0
    gzip: bool = False


PLAIN = Style()


def reason_phrase(status: int) -> str:
    """``OK`` for 200; empty for what has no name."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


class Reply:
    """One response on one connection; ``write`` takes bytes for the socket."""

    __slots__ = (
        "_chunked",
        "_gzip",
        "_server",
        "_write",
        "bodyless",
        "close",
        "drip",
        "ended",
        "head_sent",
        "style",
        "writes",
    )

    def __init__(self, write: Callable[[bytes], object], server: str, *, close: bool, bodyless: bool = False) -> None:
        self._write = write
        self._server = server
        self._chunked = False
        self._gzip = zlib.compressobj(wbits=31)
        self.close = close
        self.style = PLAIN
        self.drip = bytearray()
        self.bodyless = bodyless
        self.head_sent = False
        self.ended = False
        self.writes = 0

    def put(self, data: bytes) -> None:
        """Bytes for the socket, as they are."""
        self.writes += 1
        if self.style.piece_bytes or self.drip:
            self.drip += data
        else:
            self._write(data)

    def head(self, status: int, headers: Iterable[Header], *, length: int | None = None) -> None:
        """Status line and headers; without a ``length`` the body is chunked."""
        lines = [f"HTTP/1.1 {status} {reason_phrase(status)}"]
        if self._server:
            lines.append(f"server: {self._server}")
        lines.extend(f"{name}: {value}" for name, value in headers)
        self._chunked = length is None
        if self.style.gzip:
            self._chunked = True
            lines.append("content-encoding: gzip")
        lines.append("transfer-encoding: chunked" if self._chunked else f"content-length: {length}")
        if self.close:
            lines.append("connection: close")
        lines.append("\r\n")
        self.head_sent = True
        self.put("\r\n".join(lines).encode("latin-1", "replace"))
        if self.style.bom:
            self.body(b"\xef\xbb\xbf")

    def body(self, data: bytes) -> None:
        """A piece of the body."""
        if self.style.gzip:
            data = self._gzip.compress(data) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        if data:
            self.put(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def payloads(self, framing: Framing, payloads: Iterable[bytes]) -> None:
        """Payloads of a stream, each framed, all in one write."""
        chunks = [self._frame(framing, payload) for payload in payloads]
        if not chunks:
            return
        if self.style.gzip or not self._chunked:
            self.body(b"".join(chunks))
        else:
            self.put(b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks))

    def _frame(self, framing: Framing, payload: bytes) -> bytes:
        if framing is Framing.LINES:
            return payload + b"\n"
        eol = self.style.eol
        data = (b"data: " if self.style.space else b"data:") + payload + eol + eol
        if framing is Framing.NAMED_SSE and payload.startswith(b'{"type":"'):
            return b"event: " + payload.split(b'"', 4)[3] + eol + data
        return data

    def comment(self, text: str) -> None:
        """An SSE comment: proof of a live socket, not of a live engine."""
        eol = self.style.eol
        self.body((b": " + text.encode() if text else b":") + eol + eol)

    def end(self) -> None:
        """End the body properly."""
        if self.ended:
            return
        self.ended = True
        if self.style.gzip:
            rest = self._gzip.flush()
            self.put(b"%x\r\n%b\r\n" % (len(rest), rest) if rest else b"")
        if self._chunked:
            self.put(b"0\r\n\r\n")

    def whole(self, status: int, body: bytes, content_type: str = "", headers: Iterable[Header] = ()) -> None:
        """A complete response; only its head if that was asked for."""
        every = [*headers, ("content-type", content_type)] if content_type else list(headers)
        self.head(status, every, length=len(body))
        if not self.bodyless:
            self.body(body)
        self.end()
