"""The winning attempt's answer on its way to the client: its head, then its body through a relay, to a proper end."""

from collections.abc import Callable
from typing import Protocol

from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.answer_head import AnswerHead
from pulsegate.gateway.attempt import Attempt
from pulsegate.gateway.context import Context
from pulsegate.gateway.errors import CUT, REASONS, STALLED, ApiError, error_event
from pulsegate.gateway.intake import Incoming
from pulsegate.gateway.relay import Relay
from pulsegate.gateway.upstream import UpstreamConnection
from pulsegate.gateway.usage import Usage


class Receiver(Protocol):
    """The client's side."""

    paused: bool

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def writer(self) -> Callable[[bytes], object]:
        """What sends bytes without a detour."""
        ...

    def call_over(self, *, keep_alive: bool) -> None:
        """The answer is complete, or cannot be completed: then ``keep_alive`` is False."""
        ...


class Served(Protocol):
    """The request that is answered."""

    incoming: Incoming

    def closing(self, attempt: Attempt, usage: Usage | None, events: int, *, whole: bool) -> None:
        """Its answer is complete, and the client is about to know."""
        ...

    def end(
        self, status: int, *, code: str | None = None, ended: str | None = None, usage: Usage | None = None
    ) -> None:
        """It is over."""
        ...


class Delivery:
    """Carries one answer out, to whatever end it comes."""

    __slots__ = ("_attempt", "_call", "_client", "_conn", "_context", "_relay", "_status", "_stream")

    def __init__(self, call: Served, client: Receiver, attempt: Attempt, context: Context) -> None:
        self._call = call
        self._client = client
        self._attempt = attempt
        self._context = context
        self._conn: UpstreamConnection | None = None
        self._relay: Relay | None = None
        self._status = 0
        self._stream = False

    def begin(self, now: float, *, attempts: int, hide_usage: bool, stream: bool) -> None:
        """Send the head and what was held back."""
        attempt = self._attempt
        conn = attempt.conn
        if conn is None or conn.head is None:
            self._broken_off(CUT, "cut")
            return
        self._conn = conn
        self._status = conn.head.status
        self._stream = stream
        http10 = self._call.incoming.head.http10
        head = answer_head(self._context, self._call.incoming, attempt, conn.head, attempts)
        self._client.write(head + (b"\r\n" if http10 else b"Transfer-Encoding: chunked\r\n\r\n"))
        self._relay = relay = Relay(
            self._client.writer(),
            self,
            attempt.backend.counters,
            chunked_in=conn.head.chunked,
            chunked_out=not http10,
            stream=stream,
            hide_usage=hide_usage,
            careful=attempt.backend.watch is not None,
            size_lines=self._context.size_lines,
            now=self._context.now,
        )
        payload, attempt.payload = attempt.payload, []
        if self._client.paused:
            self.client_paused(paused=True)
        relay.begin(conn, payload, attempt.last_read, now)

    def broke(self, conn: UpstreamConnection, kind: FailureKind, detail: str) -> None:  # noqa: ARG002
        """Ending: the connection ended before, or with, the answer."""
        relay = self._relay
        if conn.complete and relay is not None and relay.finish_at_close():
            self.relayed()
            return
        self._attempt.backend.counters.failed("cut", evidence=True)
        self._attempt.spoilt()
        self._context.alarm()
        self._broken_off(CUT, "cut")

    def closing(self) -> None:
        """Ending: the last bytes are about to go out."""
        relay = self._relay
        whole = relay is None or not relay.told_error
        self._call.closing(self._attempt, self.usage(), self.events, whole=whole)

    def relayed(self) -> None:
        """Ending: the answer has gone out to its end."""
        relay = self._relay
        told_error = relay is not None and relay.told_error
        if told_error:
            self._attempt.backend.counters.failed("error_event", evidence=True)
            self._attempt.spoilt()
            self._context.alarm()
        self._attempt.leave()
        self._call.end(self._status, ended="error_event" if told_error else None, usage=self.usage())
        self._client.call_over(keep_alive=True)

    def _broken_off(self, error: ApiError, ended: str) -> None:
        """A stream ends with an error event; anything else cannot be ended and loses its connection."""
        relay = self._relay
        self._attempt.cancel()
        said = self._stream and relay is not None
        if said and relay is not None:
            relay.end_with(error_event(error))
        self._call.end(self._status or error.status, code=error.code, ended=ended, usage=self.usage())
        self._client.call_over(keep_alive=said)

    def watch(self, now: float) -> float:
        """Look for a stall; returns when to look again."""
        relay = self._relay
        deadline_s = self._attempt.backend.pool.itl_deadline_s
        if relay is None or self._client.paused:
            return now + deadline_s
        due_at = relay.token_at + deadline_s
        if now < due_at:
            return due_at
        counters = self._attempt.backend.counters
        counters.failed("stalled", evidence=False)
        counters.stalled()
        self._attempt.spoilt()
        self._context.alarm()
        self._broken_off(STALLED, "stalled")
        return now + deadline_s

    def client_paused(self, *, paused: bool) -> None:
        """Back-pressure: what the client does not read is not read from the endpoint."""
        conn = self._conn
        if conn is None:
            return
        conn.pause_reading(paused=paused)
        if not paused and self._relay is not None:
            self._relay.token_at = self._context.now()  # the silence was the client's

    def cancel(self) -> None:
        """The client is gone."""
        self._attempt.cancel()

    def forget(self) -> None:
        """The request is over: no cycle is left behind, so that requests cost the garbage collector nothing."""
        self._relay = None

    @property
    def attempt(self) -> Attempt:
        """The attempt that has won."""
        return self._attempt

    @property
    def events(self) -> int:
        """How many events with tokens the client was sent."""
        return 0 if self._relay is None else self._relay.events

    def usage(self) -> Usage | None:
        """What is known of it so far."""
        return None if self._relay is None else self._relay.usage()


def answer_head(context: Context, incoming: Incoming, attempt: Attempt, head: AnswerHead, attempts: int) -> bytes:
    """Status line and headers for the client, without those of the framing and without the closing blank line."""
    ours = b""
    if context.setup.response_headers:
        ours = b"%bX-Pulsegate-Attempts: %d\r\n" % (attempt.backend.header_line, attempts)
    if not incoming.keep_alive or context.draining:
        incoming.keep_alive = False
        ours += b"Connection: close\r\n"
    reason = REASONS.get(head.status, b"Unknown")
    return b"HTTP/1.1 %d %b\r\n%bX-Request-ID: %b\r\n%b" % (
        head.status,
        reason,
        head.forward,
        incoming.request_id,
        ours,
    )
