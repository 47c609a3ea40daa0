"""One client's connection: HTTP/1.1 with keep-alive; pipelined requests are answered one at a time, in order.

Parses (llhttp, strict), keeps limits and deadlines, and hands whole requests to ``reception``. A client that goes away
cancels what was under way for it.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast

import httptools

from pulsegate.gateway.call import Call
from pulsegate.gateway.context import Context
from pulsegate.gateway.errors import ApiError, bad_request, error_body
from pulsegate.gateway.heads import answer
from pulsegate.gateway.identity import presentable
from pulsegate.gateway.keys import Key, KeyRing
from pulsegate.gateway.reception import Reply, is_open, receive, screen, too_large, unknown_key
from pulsegate.gateway.request_head import RequestHead

_LINGER_S: Final = 1.0  # how long the rest of a refused request is read and dropped, so that its client sees the answer
_NEVER: Final = float("inf")


class Door(Protocol):
    """Who keeps the list of open connections."""

    def came(self, client: "ClientConnection") -> bool:
        """A client has connected; False when there are too many."""
        ...

    def left(self, client: "ClientConnection") -> None:
        """A client is gone."""
        ...


class Incoming:
    """A request that has come, or as much of it as counts: with ``error`` set, its body is not wanted any more."""

    __slots__ = ("began_at", "body", "error", "head", "key", "waits")

    def __init__(self, head: RequestHead, key: Key | None, began_at: float) -> None:
        self.head = head
        self.key = key
        self.began_at = began_at
        self.body = b""
        self.error: ApiError | None = None
        self.waits = False


class ClientConnection(asyncio.Protocol):
    """See the module. ``due_at`` is when ``overdue`` should be called: the deadline of what is being waited for."""

    __slots__ = (
        "_body",
        "_body_size",
        "_call",
        "_context",
        "_door",
        "_head",
        "_head_seen",
        "_key",
        "_key_header",
        "_key_ring",
        "_lingering",
        "_now",
        "_parser",
        "_reading_paused",
        "_ready",
        "_receiving",
        "_transport",
        "due_at",
        "paused",
    )

    def __init__(self, context: Context, door: Door) -> None:
        self._context = context
        self._door = door
        self._now: Callable[[], float] = context.now
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._head: RequestHead | None = None
        self._head_seen = 0
        self._receiving: Incoming | None = None
        self._body: list[bytes] = []
        self._body_size = 0
        self._ready: deque[Incoming] = deque()
        self._call: Call | None = None
        self._key: Key | None = None
        self._key_header: bytes | None = None
        self._key_ring: KeyRing | None = None
        self._lingering = False
        self._reading_paused = False
        self.paused = False
        self.due_at = _NEVER

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._door.came(self):
            self._transport.abort()
            return
        self.due_at = self._now() + self._context.setup.limits.header_timeout_s

    def data_received(self, data: bytes) -> None:
        """Parse a read; begin the first whole request in it, if none is under way."""
        parser = self._parser
        if parser is None or self._lingering:
            return
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            self._decline_upgrade(data[exc.args[0] :])
        except httptools.HttpParserError as exc:
            self._garbled(exc)
        if self._head is not None and self._receiving is None:
            self._head_unfinished(len(data))
        if self._ready and self._call is None:
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        """The client is gone."""
        self._door.left(self)
        self._parser = None
        self._transport = None
        self._ready.clear()
        self._leave()

    def eof_received(self) -> bool:
        """The client has closed its half: it does not wait for an answer any more."""
        self._leave()
        return False

    def _leave(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.client_gone()

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self.paused = True
        self.due_at = self._now() + self._context.setup.limits.send_timeout_s
        if self._call is not None:
            self._call.client_paused(paused=True)

    def resume_writing(self) -> None:
        """It keeps up again."""
        self.paused = False
        self.due_at = _NEVER if self._call is not None else self._now() + self._context.setup.limits.idle_timeout_s
        if self._call is not None:
            self._call.client_paused(paused=False)

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head = RequestHead()

    def on_url(self, url: bytes) -> None:
        """The target, perhaps in parts."""
        if self._head is not None:
            self._head.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        if self._head is not None:
            self._head.add(name, value, self._context.dropped, self._context.affinity_header)

    def on_headers_complete(self) -> None:
        """The head is there: refuse the request now, or wait for its body."""
        head, parser = self._head, self._parser
        if head is None or parser is None or self._lingering:
            return
        head.finish(parser.get_method(), parser.get_http_version())
        head.keep_alive = parser.should_keep_alive() and not head.http10
        context = self._context
        if not presentable(head.request_id):
            head.request_id = context.new_id()
        self._receiving = incoming = Incoming(head, None, self._now())
        self._head_seen = 0
        if head.size > context.setup.limits.header_bytes:
            incoming.error = _head_too_large(context.setup.limits.header_bytes)
        else:
            incoming.error = screen(context, head) or self._admit(incoming)
        if incoming.error is not None:
            self._refuse_early(incoming)
            return
        self.due_at = incoming.began_at + context.setup.limits.body_timeout_s
        if head.expects_continue and not head.http10:
            incoming.waits = True
            self._let_go_on()

    def _let_go_on(self) -> None:
        """Ask for the body that a client holds back (100-continue), once all earlier requests are answered."""
        incoming = self._receiving
        if incoming is not None and incoming.waits and self._call is None and not self._ready:
            incoming.waits = False
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        incoming = self._receiving
        if incoming is None:
            return
        limits = self._context.setup.limits
        self._body.append(body)
        self._body_size += len(body)
        if self._body_size > limits.body_bytes:
            incoming.error = too_large(limits.body_bytes)
            self._refuse_early(incoming)
            return
        self.due_at = _NEVER if self._call is not None else self._now() + limits.body_timeout_s

    def on_message_complete(self) -> None:
        """A request is whole."""
        incoming = self._receiving
        if incoming is None:
            return
        body = self._body
        incoming.body = body[0] if len(body) == 1 else b"".join(body)
        self._ready.append(incoming)
        self._forget_received()
        if self._call is not None and not self._reading_paused:
            self.pause_reading(paused=True)

    # receiving

    def _head_unfinished(self, size: int) -> None:
        """A read ended within a head: it must not go on for ever, neither in bytes nor in time."""
        limits = self._context.setup.limits
        if not self._head_seen and self._call is None:
            self.due_at = self._now() + limits.header_timeout_s
        self._head_seen += size
        if self._head_seen > limits.header_bytes and not self._lingering:
            head = self._head or RequestHead()
            head.request_id = self._context.new_id()
            incoming = Incoming(head, None, self._now())
            incoming.error = _head_too_large(limits.header_bytes)
            self._refuse_early(incoming)

    def _decline_upgrade(self, rest: bytes) -> None:
        """An upgrade is an offer that a server may ignore (RFC 9110, section 7.8): go on as before."""
        self._parser = httptools.HttpRequestParser(self)
        if rest:
            self.data_received(rest)

    def _admit(self, incoming: Incoming) -> ApiError | None:
        """Find the client's key, remembering it for the connection."""
        ring = self._context.keys
        head = incoming.head
        if ring is None or is_open(head):
            return None
        if self._key is None or head.authorization != self._key_header or ring is not self._key_ring:
            self._key = ring.find(head.authorization)
            self._key_header = head.authorization
            self._key_ring = ring
        incoming.key = self._key
        return unknown_key(head) if self._key is None else None

    def _refuse_early(self, incoming: Incoming) -> None:
        """Nothing more of this connection is wanted; the answer goes out when its turn comes."""
        incoming.head.keep_alive = False
        self._ready.append(incoming)
        self._forget_received()
        self._lingering = True

    def _forget_received(self) -> None:
        self._receiving = self._head = None
        self._body = []
        self._body_size = 0

    def _garbled(self, exc: httptools.HttpParserError) -> None:
        """What came is not HTTP, or a shape that could be read in two ways."""
        if self._lingering:
            return
        if isinstance(exc, httptools.HttpParserCallbackError):
            raise exc
        head = self._head or RequestHead()
        head.request_id = self._context.new_id()
        incoming = Incoming(head, None, self._now())
        incoming.error = bad_request("bad_request", f"Malformed request: {exc}.")
        self._refuse_early(incoming)

    # answering

    def _next(self) -> None:
        """Begin the next request; those that are answered at once are done in a loop, not by recursion."""
        while self._ready and self._call is None and self._transport is not None:
            incoming = self._ready.popleft()
            head = incoming.head
            request_id = head.request_id or b""
            outcome = incoming.error or receive(
                self._context,
                self,
                head=head,
                body=incoming.body,
                key=incoming.key,
                began_at=incoming.began_at,
            )
            if isinstance(outcome, Call):
                self._call = outcome
                self.due_at = _NEVER
                outcome.begin()
            elif isinstance(outcome, Reply):
                self._reply(head, outcome, request_id)
            else:
                self.refuse(outcome, request_id, head=head)
        if self._call is None and not self._ready:
            self._all_answered()

    def _all_answered(self) -> None:
        if self._reading_paused:
            self.pause_reading(paused=False)
        if self._receiving is not None:
            self._let_go_on()

    def _reply(self, head: RequestHead, reply: Reply, request_id: bytes) -> None:
        keep_alive = head.keep_alive and not self._context.draining
        self.write(
            answer(
                reply.status,
                reply.body,
                request_id,
                keep_alive=keep_alive,
                extra=reply.extra,
                head_only=head.method == b"HEAD" or reply.status in (204, 304),
            )
        )
        self._answered(keep_alive=keep_alive)

    def refuse(self, error: ApiError, request_id: bytes, *, head: RequestHead | None = None) -> None:
        """Client: answer with an error of our own."""
        call, self._call = self._call, None
        head = head or (call.head if call is not None else None)
        keep_alive = head is not None and head.keep_alive and not self._context.draining
        if call is None:
            self._context.counters.refuse(error.code)
        extra = b"" if error.retry_after_s is None else b"Retry-After: %d\r\n" % error.retry_after_s
        if error.allow is not None:
            extra += b"Allow: %b\r\n" % error.allow.encode()
        if call is not None and self._context.setup.response_headers:
            extra += b"X-Pulsegate-Attempts: %d\r\n" % call.attempts
        head_only = head is not None and head.method == b"HEAD"
        self.write(
            answer(error.status, error_body(error), request_id, keep_alive=keep_alive, extra=extra, head_only=head_only)
        )
        self._answered(keep_alive=keep_alive)
        if call is not None:
            self._next()

    def call_over(self, *, keep_alive: bool) -> None:
        """Client: the answer of the call under way is complete, or cannot be completed."""
        call, self._call = self._call, None
        if not keep_alive and self._transport is not None:
            self._transport.abort()
            return
        self._answered(keep_alive=call is not None and call.head.keep_alive)
        if self._ready:
            self._next()
        else:
            self._all_answered()

    def _answered(self, *, keep_alive: bool) -> None:
        transport = self._transport
        if transport is None:
            return
        if keep_alive:
            if not self.paused:
                self.due_at = self._now() + self._context.setup.limits.idle_timeout_s
            return
        self._ready.clear()
        if self._lingering and transport.can_write_eof():
            transport.write_eof()
            self.due_at = self._now() + _LINGER_S
        else:
            self._lingering = True
            transport.close()

    def write(self, data: bytes) -> None:
        """Client: send bytes."""
        if self._transport is not None:
            self._transport.write(data)

    def pause_reading(self, *, paused: bool) -> None:
        """Client: stop taking from this client, or go on."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._reading_paused = paused
        if paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # time

    @property
    def idle(self) -> bool:
        """Whether nothing is under way here."""
        return self._call is None and not self._ready and self._receiving is None and self._head is None

    def overdue(self, now: float) -> None:
        """``due_at`` has come."""
        self.due_at = _NEVER
        transport = self._transport
        if transport is None:
            return
        if self._call is not None or self.paused or self._lingering or (self._head is None and self._receiving is None):
            transport.abort() if self._call is not None or self.paused else transport.close()
            return
        head = self._head or RequestHead()
        head.keep_alive = False
        head.request_id = head.request_id or self._context.new_id()
        self._lingering = True
        what = "headers" if self._receiving is None else "body"
        self._forget_received()
        error = ApiError(status=408, code="request_timeout", message=f"The request's {what} did not arrive in time.")
        self.refuse(error, head.request_id, head=head)
        self.due_at = min(self.due_at, now + _LINGER_S)

    def close_if_idle(self) -> None:
        """Drain: there is nothing to wait for here."""
        if self.idle and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


def _head_too_large(limit: int) -> ApiError:
    return ApiError(status=431, code="headers_too_large", message=f"The request's headers exceed {limit} bytes.")
