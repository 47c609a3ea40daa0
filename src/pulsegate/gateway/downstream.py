"""One client's connection: requests are answered one at a time, in order.

A client that goes away cancels what is under way for it.
Owns the transport, the deadlines and the keeping alive. Bytes become requests in ``intake``, requests become answers in
``reception``.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

from pulsegate.gateway.access import Unrouted
from pulsegate.gateway.call import Call
from pulsegate.gateway.context import Context
from pulsegate.gateway.errors import ApiError, error_body
from pulsegate.gateway.heads import answer
from pulsegate.gateway.intake import Incoming, Intake, Phase
from pulsegate.gateway.keys import Key
from pulsegate.gateway.ping_wait import PingWait
from pulsegate.gateway.reception import Reply, is_open, receive, screen, unknown_key
from pulsegate.gateway.request_head import RequestHead

_LINGER_S: Final = 1.0  # how long the rest of a refused request is read and dropped, so that its client sees the answer
LAST_CALL_S: Final = 0.5  # how long a connection may stay idle when we are about to end
_BACKLOG_BYTES: Final = 64 * 1024  # pipelined bytes that wait for their turn before the client is made to wait
_SHOWN_PATH_BYTES: Final = 200
_NEVER: Final = float("inf")


class Door(Protocol):
    """Who keeps the list of open connections."""

    def came(self, client: "ClientConnection") -> bool:
        """A client has connected; False when there are too many."""
        ...

    def left(self, client: "ClientConnection") -> None:
        """A client is gone."""
        ...


class ClientConnection(asyncio.Protocol):
    """See the module.

    Attributes:
        due_at: when ``overdue`` should be called: the deadline of what is being waited for.
        paused: the client reads slower than we write.
    """

    __slots__ = (
        "__weakref__",
        "_beginning",
        "_call",
        "_closing",
        "_context",
        "_door",
        "_intake",
        "_key",
        "_key_header",
        "_reading_paused",
        "_transport",
        "due_at",
        "paused",
    )

    def __init__(self, context: Context, door: Door) -> None:
        limits = context.setup.limits
        self._context = context
        self._door = door
        self._intake = Intake(
            self._screen,
            head_limit=limits.header_bytes,
            body_limit=limits.body_bytes,
            rules=context.rules,
        )
        self._transport: asyncio.Transport | None = None
        self._call: Call | PingWait | None = None
        self._beginning = False
        self._closing = False
        self._reading_paused = False
        self._key: Key | None = None
        self._key_header: bytes | None = None
        self.paused = False
        self.due_at = _NEVER

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)
        if not self._door.came(self):
            self._transport.abort()
            return
        self.due_at = self._context.now() + self._context.setup.limits.header_timeout_s

    def data_received(self, data: bytes) -> None:
        """A read came."""
        intake = self._intake
        phase = intake.phase
        incoming = intake.feed(data)
        if incoming is not None:
            self._serve(incoming)
        else:
            self._wait(phase)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        """The client is gone."""
        self._door.left(self)
        self._transport = None
        self._intake.shut()
        self._leave()

    def eof_received(self) -> bool:
        """The client has closed its half: it does not wait for an answer any more."""
        self._leave()
        return False

    def _leave(self) -> None:
        self._closing = True
        call, self._call = self._call, None
        if call is not None:
            call.client_gone()

    def pause_writing(self) -> None:
        """The client reads slower than we write."""
        self.paused = True
        self.due_at = self._context.now() + self._context.setup.limits.send_timeout_s
        if self._call is not None:
            self._call.client_paused(paused=True)

    def resume_writing(self) -> None:
        """It keeps up again."""
        self.paused = False
        if self._call is not None:
            self.due_at = _NEVER
            self._call.client_paused(paused=False)
        else:
            self.due_at = self._context.now() + self._context.setup.limits.idle_timeout_s

    # receiving

    def _screen(self, head: RequestHead) -> tuple[ApiError | None, Key | None]:
        """Whether a request is refused for its head; whose key it carries, remembered for the connection."""
        error = screen(head)
        ring = self._context.keys
        if error is not None or ring is None or is_open(head):
            return error, None
        if self._key is None or head.authorization != self._key_header:
            self._key = ring.find(head.authorization)
            self._key_header = head.authorization
        return (unknown_key(head) if self._key is None else None), self._key

    def _wait(self, before: Phase) -> None:
        """No request came of what was read: keep the deadlines, hold back who sends too much, let go on who waits."""
        intake, limits = self._intake, self._context.setup.limits
        match intake.phase:
            case Phase.HEAD if before is not Phase.HEAD:
                self.due_at = self._context.turn_at + limits.header_timeout_s
            case Phase.BODY:
                self.due_at = self._context.turn_at + limits.body_timeout_s
                if intake.body_wanted:
                    intake.body_wanted = False
                    self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            case Phase.ANSWER if intake.backlog > _BACKLOG_BYTES:
                self._pause_reading(paused=True)
            case _:
                pass

    # answering

    def _serve(self, incoming: Incoming | None) -> None:
        """Begin requests until one is under way or none is left; those that are answered at once are done in turn."""
        while incoming is not None:
            self._begin(incoming)
            if self._call is not None or self._closing:
                return
            incoming = self._next()

    def _next(self) -> Incoming | None:
        """All is answered: the next request, if it is here already."""
        if self._reading_paused:
            self._pause_reading(paused=False)
        incoming = self._intake.proceed()
        if incoming is None:
            context = self._context
            self.due_at = context.turn_at + (LAST_CALL_S if context.draining else context.setup.limits.idle_timeout_s)
            if self._intake.phase is not Phase.NOTHING:
                self._wait(Phase.NOTHING)
        return incoming

    def _begin(self, incoming: Incoming) -> None:
        context = self._context
        incoming.request_id = incoming.head.given_id or context.new_id()
        if incoming.error is not None:
            self.refuse(incoming.error, incoming)
            return
        outcome = receive(context, self, incoming, context.now())
        if isinstance(outcome, Call | PingWait):
            self._call = outcome
            self.due_at = _NEVER
            self._beginning = True
            outcome.begin()
            self._beginning = False
        elif isinstance(outcome, Reply):
            self._reply(incoming, outcome)
            self._log(incoming, outcome.status)
        else:
            self.refuse(outcome, incoming)

    def _reply(self, incoming: Incoming, reply: Reply) -> None:
        incoming.keep_alive = incoming.keep_alive and not self._context.draining
        self.write(
            answer(
                reply.status,
                reply.body,
                incoming.request_id,
                keep_alive=incoming.keep_alive,
                extra=reply.extra,
                head_only=incoming.head.method == b"HEAD" or reply.status in (204, 304),
            )
        )
        if not incoming.keep_alive:
            self._finish()

    def _log(self, incoming: Incoming, status: int, code: str | None = None) -> None:
        """Note a request that no endpoint has heard of; probes of load balancers that went well are noise."""
        context, head, key = self._context, incoming.head, incoming.key
        if context.access.wanted and (code is not None or not is_open(head)):
            context.access.add_unrouted(
                Unrouted(
                    ts=round(context.now() + context.wall_offset_s, 3),
                    id=incoming.request_id.decode("ascii"),
                    method=head.method.decode("ascii"),
                    path=head.path[:_SHOWN_PATH_BYTES].decode("latin-1"),
                    status=status,
                    key=None if key is None else key.name,
                    code=code,
                )
            )

    def refuse(self, error: ApiError, incoming: Incoming) -> None:
        """Client: answer with an error of our own."""
        call, self._call = self._call, None
        if call is None:
            self._context.counters.refuse(error.code)
            self._log(incoming, error.status, error.code)
        extra = b"" if error.retry_after_s is None else b"Retry-After: %d\r\n" % error.retry_after_s
        if error.allow is not None:
            extra += b"Allow: %b\r\n" % error.allow.encode()
        if call is not None and self._context.setup.response_headers:
            extra += b"X-Pulsegate-Attempts: %d\r\n" % call.attempts
        self._reply(incoming, Reply(status=error.status, body=error_body(error), extra=extra))
        if call is not None and not self._beginning and not self._closing:
            self._serve(self._next())

    def answered(self, incoming: Incoming, status: int, body: bytes) -> None:
        """Asker: what was waited for is here."""
        self._call = None
        self._reply(incoming, Reply(status=status, body=body))
        if not self._beginning and not self._closing:
            self._serve(self._next())

    def call_over(self, *, keep_alive: bool) -> None:
        """Client: the answer of the call under way is complete, or cannot be completed."""
        call, self._call = self._call, None
        if not keep_alive:
            self.abort()
        elif call is not None and not call.incoming.keep_alive:
            self._finish()
        elif not self._beginning and not self._closing:
            self._serve(self._next())

    def _finish(self) -> None:
        """Nothing follows: close, but let a client that still sends see its answer first."""
        transport = self._transport
        self._closing = True
        if transport is None:
            return
        if self._intake.phase is Phase.SHUT and transport.can_write_eof():
            transport.write_eof()
            self.due_at = self._context.now() + _LINGER_S
        else:
            transport.close()

    def write(self, data: bytes) -> None:
        """Client: send bytes."""
        if self._transport is not None:
            self._transport.write(data)

    def writer(self) -> Callable[[bytes], object]:
        """Client: what sends bytes without a detour."""
        return self.write if self._transport is None else self._transport.write

    def _pause_reading(self, *, paused: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or paused is self._reading_paused:
            return
        self._reading_paused = paused
        if paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

    # time

    def overdue(self, now: float) -> None:
        """``due_at`` has come."""
        self.due_at = _NEVER
        phase = self._intake.phase
        if self.paused or self._closing:
            self.abort()
        elif phase is Phase.NOTHING and self._transport is not None:
            self._transport.close()
        elif phase in (Phase.HEAD, Phase.BODY):
            what = "headers" if phase is Phase.HEAD else "body"
            message = f"The request's {what} did not arrive in time."
            self._intake.shut()
            incoming = Incoming(RequestHead(), None, None)
            incoming.request_id = self._context.new_id()
            self.refuse(ApiError(status=408, code="request_timeout", message=message), incoming)
            self.due_at = now + _LINGER_S

    def reconfigured(self) -> None:
        """Keys, limits or headers have changed: nothing that was remembered counts any more."""
        context = self._context
        self._key = self._key_header = None
        self._intake.reconfigure(context.rules, context.setup.limits.body_bytes)

    def last_call(self, until: float) -> None:
        """Drain: close at ``until``, unless a request comes."""
        if self._call is None and self._intake.phase is Phase.NOTHING:
            self.due_at = min(self.due_at, until)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def __repr__(self) -> str:
        return f"ClientConnection({self._intake.phase.value}, call={self._call!r})"
