"""Connections to one endpoint: opened, kept, reused, closed.

A connection parses the answer's head and framing (llhttp) and hands on what each read brought: the raw bytes, so that
they can go on as they came, and the payload pieces in them. It judges nothing.
"""

import asyncio
from typing import Protocol, cast

import httptools

from pulsegate.core.rescue import FailureKind


class Owner(Protocol):
    """Who uses a connection now. Calls come from the event loop, never from within a call to the connection."""

    def fed(self, conn: "UpstreamConnection", data: bytes) -> None:
        """A read brought ``data``: ``conn.pieces`` is the payload in it, ``conn.complete`` whether the answer ended."""
        ...

    def broke(self, conn: "UpstreamConnection", kind: FailureKind, detail: str) -> None:
        """The connection ended or sent what is not HTTP; it is closed. An answer may have been complete by its end."""
        ...

    def upstream_paused(self, *, paused: bool) -> None:
        """The endpoint does not read as fast as we write (or does again)."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """One connection to an endpoint. One exchange at a time.

    Attributes:
        status: of the answer under way, 0 before its head is complete.
        headers: of that answer, names in lower case.
        pieces: payload that the latest read brought, without chunk framing.
        complete: whether the answer has ended.
        silent: no byte of an answer has come since the request was sent.
        until_close: the answer has no length of its own and ends with the connection.
        chunked: the answer is chunked.
        uses: how many exchanges began here.
        excess: more bytes came than belong to the answer: the read that brought its end must not go on as it is.
    """

    __slots__ = (
        "_home",
        "_keep",
        "_parser",
        "chunked",
        "closed",
        "complete",
        "content_length",
        "excess",
        "headers",
        "idle_since",
        "owner",
        "pieces",
        "silent",
        "status",
        "transport",
        "until_close",
        "uses",
    )

    def __init__(self, home: "Home") -> None:
        self._home = home
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self.transport: asyncio.Transport | None = None
        self.owner: Owner | None = None
        self.pieces: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.closed = False
        self.uses = 0
        self.idle_since = 0.0
        self._clear()

    def _clear(self) -> None:
        self.status = 0
        self.headers = []
        self.pieces.clear()
        self.complete = False
        self.silent = True
        self.until_close = False
        self.chunked = False
        self.content_length: int | None = None
        self._keep = False
        self.excess = False

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
        fit = self.uses == 0 or (self.complete and self._keep and not self.excess)
        if fit and not self.closed and self.transport is not None:
            self._clear()
            self.transport.resume_reading()
            self._home.keep(self)
        else:
            self.abort()

    def abort(self) -> None:
        """Close at once; nothing more is told to the owner."""
        self.owner = None
        self._forget_parser()
        if self.transport is not None:
            self.transport.abort()

    def _forget_parser(self) -> None:
        self._parser = None  # breaks the cycle of parser and callbacks
        self.closed = True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)
        self._home.opened(self)

    def data_received(self, data: bytes) -> None:
        """Parse a read, then tell the owner."""
        parser, owner = self._parser, self.owner
        if parser is None:
            return
        if owner is None:  # nobody asked: an answer to nothing, such as a 408 before the server closes
            self.abort()
            return
        self.silent = False
        self.pieces.clear()
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            if not self.complete:
                self.abort()
                owner.broke(self, FailureKind.PROTOCOL, f"not HTTP: {exc}"[:200])
                return
            self.excess = True
        owner.fed(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner, if there is one; an answer that ends with its connection is complete now."""
        self._home.lost(self)
        owner, self.owner, self.transport = self.owner, None, None
        self._forget_parser()
        if owner is not None:
            if self.until_close and exc is None:
                self.complete = True
            owner.broke(self, FailureKind.CLOSED, "reset" if exc is not None else "closed")

    def eof_received(self) -> bool:
        """The other side ended its half: close ours too."""
        return False

    def pause_writing(self) -> None:
        """A large body is on its way."""
        if self.owner is not None:
            self.owner.upstream_paused(paused=True)

    def resume_writing(self) -> None:
        """It went out."""
        if self.owner is not None:
            self.owner.upstream_paused(paused=False)

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        """An answer begins; a second one within one exchange is one too many."""
        if self.complete:
            self.excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header."""
        name = name.lower()
        self.headers.append((name, value))
        if name == b"content-length":
            self.content_length = int(value)
        elif name == b"transfer-encoding":
            self.chunked = value.strip().lower() == b"chunked"

    def on_headers_complete(self) -> None:
        """The head is complete; those of informational answers are dropped."""
        parser = self._parser
        if parser is None or self.complete:
            return
        status = parser.get_status_code()
        if 100 <= status < 200:  # noqa: PLR2004 - informational
            self.headers = []
            return
        self.status = status
        self._keep = parser.should_keep_alive()
        self.until_close = not self.chunked and self.content_length is None and status not in (204, 304)

    def on_body(self, body: bytes) -> None:
        """Collect payload."""
        if not self.complete:
            self.pieces.append(body)

    def on_message_complete(self) -> None:
        """The answer ended, unless it was an informational one."""
        if self.status:
            self.complete = True

    def __repr__(self) -> str:
        return f"UpstreamConnection(status={self.status}, complete={self.complete}, uses={self.uses})"


class Home(Protocol):
    """Where connections live while nobody uses them."""

    def opened(self, conn: UpstreamConnection) -> None:
        """A connection was made."""
        ...

    def keep(self, conn: UpstreamConnection) -> None:
        """A connection is idle and may be used again."""
        ...

    def lost(self, conn: UpstreamConnection) -> None:
        """A connection is gone."""
        ...
