"""Connections to one endpoint: opened, kept, reused, closed.

A connection parses the answer's head and framing (llhttp) and hands on what each read brought: the raw bytes, so that
they can go on as they came, and the payload pieces in them. It judges nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

import httptools

from pulsegate.core.rescue import FailureKind
from pulsegate.core.tls_hint import TLS_RECORD, USE_HTTPS
from pulsegate.gateway.answer_head import AnswerHead

HEAD_END: Final = b"\r\n\r\n"
MAX_HEAD_BYTES: Final = 64 * 1024


class Owner(Protocol):
    """Who uses a connection now. Calls come from the event loop, never from within a call to the connection."""

    def fed(self, conn: "UpstreamConnection", data: bytes) -> None:
        """A read brought ``data``: ``conn.pieces`` is the payload in it, ``conn.complete`` whether the answer ended."""
        ...

    def broke(self, conn: "UpstreamConnection", kind: FailureKind, detail: str) -> None:
        """The connection ended or sent what is not HTTP; it is closed. An answer may have been complete by its end."""
        ...


class UpstreamConnection(asyncio.BaseProtocol):
    """One connection to an endpoint. One exchange at a time.

    An ``asyncio.Protocol`` whose ``data_received`` can be exchanged: that saves a Python frame for each read of a
    stream.

    Attributes:
        head: of the answer under way, None before it is complete.
        pieces: payload that the latest read brought, without chunk framing.
        complete: whether the answer has ended.
        silent: no byte of an answer has come since the request was sent.
        uses: how many exchanges began here.
        excess: more bytes came than belong to the answer: the read that brought its end must not go on as it is.
        data_received: where reads go: ``parse``, or whoever they are diverted to.
        closed: this connection is of no more use.
        idle_since: when its home first saw it idle, 0 before.
    """

    __slots__ = (
        "_diverted",
        "_home",
        "_interim",
        "_keep",
        "_parser",
        "_paused",
        "_payload_pieces",
        "_raw",
        "_status",
        "closed",
        "complete",
        "data_received",
        "excess",
        "head",
        "idle_since",
        "on_body",
        "owner",
        "pieces",
        "silent",
        "transport",
        "uses",
    )

    def __init__(self, home: "Home") -> None:
        self._home = home
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append  # llhttp's callback, without a Python frame for each chunk
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self.transport: asyncio.Transport | None = None
        self.owner: Owner | None = None
        self.closed = False
        self.uses = 0
        self._paused = False
        self._diverted = False
        self.data_received: Callable[[bytes], None] = self.parse
        self._clear()

    def _clear(self) -> None:
        self._raw = b""
        self._status = 0
        self._interim = 0
        self._keep = False
        self.head: AnswerHead | None = None
        self.pieces.clear()
        self.complete = False
        self.silent = True
        self.excess = False
        self._payload_pieces = 0
        self.idle_since = 0.0

    def begin(self, owner: Owner, *data: bytes) -> None:
        """Send a request; the answer's reads go to ``owner``."""
        transport = self.transport
        if transport is None:  # closed between being taken and being used: connection_lost has been or will be told
            owner.broke(self, FailureKind.CLOSED, "closed before the request was sent")
            return
        self.owner = owner
        self.uses += 1
        for part in data:
            transport.write(part)

    def release(self) -> None:
        """The owner is done: keep the connection if it was not used or its answer is complete, else close it."""
        self.owner = None
        transport = self.transport
        fit = self.uses == 0 or (self.complete and self._keep and not self.excess)
        if fit and not self.closed and transport is not None and not transport.get_write_buffer_size():
            self._clear()
            if self._diverted:
                self._diverted = False
                self._listen(transport, self.parse)
            self.pause_reading(paused=False)
            self._home.keep(self)
        else:
            self.abort()

    def divert(self, reads: Callable[[bytes], None]) -> None:
        """Until the exchange is over, reads go to ``reads``, which hands to ``parse`` what it does not understand."""
        self._diverted = True
        self._listen(self.transport, reads)

    def _listen(self, transport: asyncio.Transport | None, reads: Callable[[bytes], None]) -> None:
        self.data_received = reads
        if transport is not None:
            transport.set_protocol(self)  # uvloop looks ``data_received`` up here, and not again with each read

    def pause_reading(self, *, paused: bool) -> None:
        """Back-pressure: read no more for now, or go on."""
        if paused is self._paused or self.closed or self.transport is None:
            return
        self._paused = paused
        if paused:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def abort(self) -> None:
        """Close at once; nothing more is told to the owner."""
        self.owner = None
        self._forget_parser()
        if self.transport is not None:
            self.transport.abort()

    def _forget_parser(self) -> None:
        self.data_received = _dropped  # this, and
        self._parser = None  # this, breaks a cycle
        self.closed = True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self._home.opened(self)

    def parse(self, data: bytes) -> None:
        """Parse a read, then tell the owner."""
        parser, owner = self._parser, self.owner
        if parser is None:
            return
        if owner is None:  # nobody asked: an answer to nothing, such as a 408 before the server closes
            self.abort()
            return
        self.pieces.clear()
        if self.head is None:
            self.silent = False
            self._raw += data
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if not self.complete:
                self._garbled(USE_HTTPS if TLS_RECORD.match(self._raw) else f"not HTTP: {exc}"[:200])
                return
            self.excess = True
        if self.head is None and not self._read_head():
            return
        if self.excess:
            del self.pieces[self._payload_pieces :]
        owner.fed(self, data)

    def _read_head(self) -> bool:
        """Read the head if it is complete, leaving out informational ones before it."""
        raw = self._raw
        if not self._status:
            if len(raw) > MAX_HEAD_BYTES:
                self._garbled(f"a head of more than {MAX_HEAD_BYTES} bytes")
            return False
        begin = 0
        for _ in range(self._interim):
            begin = raw.find(HEAD_END, begin) + len(HEAD_END)
        self.head = self._home.read_head(self._status, raw[begin : raw.find(HEAD_END, begin)])
        self._raw = b""
        return True

    def _garbled(self, detail: str) -> None:
        owner = self.owner
        self.abort()
        if owner is not None:
            owner.broke(self, FailureKind.PROTOCOL, detail)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner, if there is one; an answer that ends with its connection is complete now."""
        self._home.lost(self)
        owner, self.owner, self.transport = self.owner, None, None
        self._forget_parser()
        if owner is not None:
            head = self.head
            if head is not None and exc is None and not head.chunked and not head.sized:
                self.complete = True  # an answer without a length ends with its connection
            owner.broke(self, FailureKind.CLOSED, "reset" if exc is not None else "closed")

    def eof_received(self) -> bool:
        """The other side ended its half: close ours too."""
        return False

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        """An answer begins; a second one within one exchange is one too many."""
        if self.complete:
            self.excess = True

    def on_headers_complete(self) -> None:
        """The head is complete, or an informational one before it."""
        parser = self._parser
        if parser is None or self.complete:
            return
        status = parser.get_status_code()
        if 100 <= status < 200:  # noqa: PLR2004 - informational
            self._interim += 1
            return
        self._status = status
        self._keep = parser.should_keep_alive()

    def on_message_complete(self) -> None:
        """The answer ended, unless it was an informational one."""
        if self._status and not self.complete:
            self.complete = True
            self._payload_pieces = len(self.pieces)

    def __repr__(self) -> str:
        return f"UpstreamConnection(status={self._status}, complete={self.complete}, uses={self.uses})"


def _dropped(data: bytes) -> None:
    """Nobody reads this connection any more."""


class Home(Protocol):
    """Where connections live while nobody uses them."""

    def opened(self, conn: UpstreamConnection) -> None:
        """A connection was made."""
        ...

    def read_head(self, status: int, raw: bytes) -> AnswerHead:
        """What this head says: many are the same."""
        ...

    def keep(self, conn: UpstreamConnection) -> None:
        """A connection is idle and may be used again."""
        ...

    def lost(self, conn: UpstreamConnection) -> None:
        """A connection is gone."""
        ...
