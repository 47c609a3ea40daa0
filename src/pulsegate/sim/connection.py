"""HTTP/1.1 on one accepted connection: parses requests and hands each to an exchange, one after another."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import httptools

from pulsegate.sim.dialects import WhileLoading
from pulsegate.sim.engine import Phase, SimEngine
from pulsegate.sim.exchange import Exchange
from pulsegate.sim.matching import Sight
from pulsegate.sim.play import play
from pulsegate.sim.reply import Reply
from pulsegate.sim.request import Request
from pulsegate.sim.script import Group
from pulsegate.sim.steps import apply_to_engine, run

_RST_ON_CLOSE = struct.pack("ii", 1, 0)
_ABORT = frozenset({Group.ABORT})
_CONNECT = frozenset({Group.CONNECT})


class Site(Protocol):
    """Who serves what on a port."""

    def find(self, path: str) -> tuple[SimEngine, str] | None:
        """The engine behind a path and the path below its base; None if there is none."""
        ...

    def administer(self, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        """Answer a request to ``/_sim``: status and JSON body."""
        ...


class Connection(asyncio.Protocol):
    """One accepted connection. ``engine`` is fixed where an engine has its own port."""

    __slots__ = (
        "_body",
        "_exchange",
        "_headers",
        "_home",
        "_idle_since",
        "_idle_timer",
        "_loop",
        "_on_gone",
        "_parser",
        "_queue",
        "_requests",
        "_site",
        "_transport",
        "_url",
        "engine",
        "paused",
    )

    def __init__(self, site: Site, home: SimEngine | None, on_gone: Callable[["Connection"], None]) -> None:
        self._site = site
        self._home = home
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._queue: deque[Request] = deque()
        self._requests = 0
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body = b""
        self._idle_since = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None
        self.engine: SimEngine | None = None
        self.paused = False

    def __repr__(self) -> str:
        return f"Connection({self.engine}, requests={self._requests}, exchange={self._exchange})"

    # --- the transport's side ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        if not isinstance(transport, asyncio.Transport) and not hasattr(transport, "write"):
            raise TypeError(transport)
        self._transport = transport  # type: ignore[assignment]  # uvloop's transport is no subclass
        if self._home is None:
            return
        self._belong(self._home)
        engine = self._home
        request = Request("", "", "", {}, b"")
        sight = Sight(groups=_CONNECT, now=self._loop.time())
        choice = engine.book.choose(request, sight, engine.flags, engine.rng) if engine.book else None
        if choice is not None:
            chosen = choice
            self._exchange = Exchange(self, engine, request, lambda x: run(x, chosen, _no_generation), self._loop)
            self._exchange.start()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.leave(reset=False)
        except httptools.HttpParserError:
            if self._exchange is None and self._transport is not None:
                Reply(self.write, "", close=True).whole(400, b"")
            self.leave(reset=False)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop passes it
        """Closed, by whomever."""
        self._transport = None
        self._queue.clear()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.abandon()
            if not exchange.left:
                _after_abort(exchange)
        if self.engine is not None:
            self.engine.counters.connections_open -= 1
        self._on_gone(self)

    def pause_writing(self) -> None:
        """The peer reads slowly."""
        self.paused = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self.paused = False

    # --- the parser's side ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._headers = {}
        self._body = b""

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The body follows; say that it may."""
        if self._headers.get(b"expect", b"").lower() == b"100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A piece of the body."""
        self._body = self._body + body if self._body else body

    def on_message_complete(self) -> None:
        """A request is whole."""
        path, _, query = self._url.decode("latin-1").partition("?")
        self._requests += 1
        if not self._parser.should_keep_alive():
            self._headers[b"connection"] = b"close"
        request = Request(
            self._parser.get_method().decode(),
            path,
            query,
            self._headers,
            self._body,
            number_on_connection=self._requests,
            idle_before_s=self._loop.time() - self._idle_since,
        )
        if self._exchange is None:
            self._serve(request)
        else:
            self._queue.append(request)

    # --- serving ----------------------------------------------------------------------------------------------

    def _serve(self, request: Request) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if request.path.startswith("/_sim"):
            status, body = self._site.administer(request.method, request.path, request.query, request.body)
            reply = Reply(self.write, "", close=request.headers.get(b"connection") == b"close")
            reply.whole(status, body, "application/json")
            self._free(close=reply.close)
            return
        found = (self._home, request.path) if self._home is not None else self._site.find(request.path)
        if found is None:
            Reply(self.write, "", close=False).whole(404, b'{"error":"no such engine"}', "application/json")
            self._free(close=False)
            return
        engine, request.path = found
        self._belong(engine)
        if not _listens(engine):
            self.leave(reset=True)
            return
        self._exchange = Exchange(self, engine, request, play, self._loop)
        self._exchange.start()

    def _belong(self, engine: SimEngine) -> None:
        if self.engine is engine:
            return
        if self.engine is not None:
            self.engine.counters.connections_open -= 1
        self.engine = engine
        counters = engine.counters
        counters.connections += 1
        counters.connections_open += 1
        counters.connections_open_max = max(counters.connections_open_max, counters.connections_open)

    def answered(self, exchange: Exchange) -> None:
        """The exchange is over: serve the next request, or keep the connection, or close it."""
        self._exchange = None
        self._free(close=exchange.reply.close)

    def _free(self, *, close: bool) -> None:
        self._idle_since = self._loop.time()
        if close:
            self.leave(reset=False)
        elif self._queue:
            self._serve(self._queue.popleft())
        elif self.engine is not None and self.engine.load.keep_alive_s is not None:
            self._idle_timer = self._loop.call_later(self.engine.load.keep_alive_s, self._expire)

    def _expire(self) -> None:
        if self._exchange is None:
            self.leave(reset=False)

    def write(self, data: bytes) -> None:
        """Send bytes, if anybody is there."""
        if self._transport is not None:
            self._transport.write(data)

    def leave(self, *, reset: bool) -> None:
        """Close, with RST or in order."""
        transport = self._transport
        if transport is None:
            self._on_gone(self)  # a TLS handshake that failed: nobody tells us that it is over
            return
        if self._exchange is not None:
            self._exchange.left = True
        if reset:
            sock = transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            transport.abort()
        else:
            transport.close()


def _listens(engine: SimEngine) -> bool:
    """Whether a process that shares its port would have been reached at all."""
    if engine.phase is Phase.LOADING:
        return engine.dialect.while_loading is not WhileLoading.REFUSES
    return engine.phase is not Phase.DOWN


def _after_abort(exchange: Exchange) -> None:
    """Play the rules about clients that left."""
    engine = exchange.engine
    if not engine.book:
        return
    choice = engine.book.choose(exchange.request, exchange.sight(_ABORT), engine.flags, engine.rng)
    for step in choice.rule.steps if choice is not None else ():
        apply_to_engine(engine, step)


def _no_generation(_x: Exchange, _how: object) -> Iterator[float]:
    yield from ()
