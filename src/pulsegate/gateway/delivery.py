"""The winning attempt's answer on its way to the client: its head, then its body through a relay, to a proper end."""

from typing import Protocol

from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.attempt import Attempt
from pulsegate.gateway.context import Context
from pulsegate.gateway.errors import CUT, REASONS, STALLED, ApiError, error_event
from pulsegate.gateway.heads import NOT_FROM_ENDPOINTS, OUR_PREFIX
from pulsegate.gateway.relay import Relay
from pulsegate.gateway.request_head import RequestHead
from pulsegate.gateway.upstream import UpstreamConnection
from pulsegate.gateway.usage import Usage, usage_of


class Receiver(Protocol):
    """The client's side."""

    paused: bool

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def call_over(self, *, keep_alive: bool) -> None:
        """The answer is complete, or cannot be completed: then ``keep_alive`` is False."""
        ...


class Served(Protocol):
    """The request that is answered."""

    head: RequestHead

    def end(
        self, status: int, *, code: str | None = None, ended: str | None = None, usage: Usage | None = None
    ) -> None:
        """It is over."""
        ...


class Delivery:
    """Owns the upstream connection from the first token on."""

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
        if conn is None:  # the answer came with the end of its connection
            self._broken_off(CUT, "cut")
            return
        self._conn = conn
        self._status = conn.status
        self._stream = stream
        head = self._head(conn, attempts)
        if attempt.whole:
            self._send_whole(head, attempt)
            return
        http10 = self._call.head.http10
        self._client.write(head + (b"\r\n" if http10 else b"Transfer-Encoding: chunked\r\n\r\n"))
        self._relay = relay = Relay(
            self._client,
            attempt.backend.counters,
            chunked_in=conn.chunked,
            chunked_out=not http10,
            stream=stream,
            hide_usage=hide_usage,
            now=now,
        )
        conn.owner = self
        relay.begin(attempt.payload, attempt.last_read, now, complete=conn.complete)
        attempt.payload = []
        if conn.complete:
            self._finish()
        elif self._client.paused:
            self.client_paused(paused=True)

    def _send_whole(self, head: bytes, attempt: Attempt) -> None:
        payload = attempt.payload
        body = payload[0] if len(payload) == 1 else b"".join(payload)
        counters = attempt.backend.counters
        counters.tokens += 1
        attempt.leave()
        self._client.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
        self._call.end(self._status, usage=usage_of(body) if b'"usage"' in body else None)
        self._client.call_over(keep_alive=True)

    def _head(self, conn: UpstreamConnection, attempts: int) -> bytes:
        """Status line and headers, without what depends on the framing and without the closing blank line."""
        request = self._call.head
        parts = [b"HTTP/1.1 %d %b\r\n" % (conn.status, REASONS.get(conn.status, b"Unknown"))]
        for name, value in conn.headers:
            if name not in NOT_FROM_ENDPOINTS and not name.startswith(OUR_PREFIX):
                parts += (name, b": ", value, b"\r\n")
        parts.append(b"x-request-id: %b\r\n" % request.request_id)
        if self._context.setup.response_headers:
            endpoint = self._attempt.backend.seat.id.encode("latin-1", "replace")
            parts.append(b"x-pulsegate-endpoint: %b\r\nx-pulsegate-attempts: %d\r\n" % (endpoint, attempts))
        if not request.keep_alive or self._context.draining:
            request.keep_alive = False
            parts.append(b"connection: close\r\n")
        return b"".join(parts)

    # the upstream connection's owner

    def fed(self, conn: UpstreamConnection, data: bytes) -> None:
        """Owner: a read came."""
        relay = self._relay
        if relay is not None:
            complete = conn.complete
            relay.pass_on(b"" if conn.excess else data, conn.pieces, self._context.now(), complete=complete)
            if complete:
                self._finish()

    def broke(self, conn: UpstreamConnection, kind: FailureKind, detail: str) -> None:  # noqa: ARG002
        """Owner: the connection ended."""
        relay = self._relay
        if conn.complete and relay is not None and relay.finish_at_close():
            self._finish()
            return
        self._attempt.backend.counters.failed("cut", evidence=True)
        self._context.alarm()
        self._broken_off(CUT, "cut")

    def upstream_paused(self, *, paused: bool) -> None:
        """Owner: the request has been sent long ago."""

    # its end

    def _finish(self) -> None:
        relay = self._relay
        self._attempt.leave()
        self._call.end(self._status, usage=None if relay is None else relay.usage())
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
        self._context.alarm()
        self._broken_off(STALLED, "stalled")
        return now + deadline_s

    def client_paused(self, *, paused: bool) -> None:
        """Back-pressure: what the client does not read is not read from the endpoint."""
        conn = self._conn
        if conn is None or conn.transport is None or conn.closed:
            return
        if paused:
            conn.transport.pause_reading()
        else:
            conn.transport.resume_reading()
            if self._relay is not None:
                self._relay.token_at = self._context.now()  # the silence was the client's

    def cancel(self) -> None:
        """The client is gone."""
        self._attempt.cancel()

    def usage(self) -> Usage | None:
        """What is known of it so far."""
        return None if self._relay is None else self._relay.usage()
