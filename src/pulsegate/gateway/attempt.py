"""One attempt: a request on its way to one endpoint, until its answer may be relayed, has failed, or is cancelled."""

from typing import Protocol

from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.answer_head import AnswerHead
from pulsegate.gateway.backend import Backend
from pulsegate.gateway.gate import Broken, Gate, StreamGate, Verdict, judge_body, judge_status
from pulsegate.gateway.upstream import UpstreamConnection
from pulsegate.gateway.usage import Usage

ERROR_BODY_BYTES = 1024 * 1024


class Errand(Protocol):
    """What an attempt is made for."""

    @property
    def streams(self) -> bool:
        """Whether a stream was asked for."""
        ...

    def request_for(self, backend: Backend) -> tuple[bytes, bytes]:
        """Head and body to send to this endpoint."""
        ...

    def attempt_answered(self, attempt: "Attempt") -> None:
        """The gate is open."""
        ...

    def attempt_failed(self, attempt: "Attempt", kind: FailureKind, detail: str) -> None:
        """It is over without an answer; its connection is closed or given back."""
        ...


class Attempt:
    """Sends the request, holds the answer back and judges it. An upstream connection's owner while it waits.

    Attributes:
        payload: what has come of the answer's body, without framing; ``last_read`` the latest read as it came.
        stream: the answer is an event stream.
        whole: the answer is complete in ``payload``; ``usage`` is what it says that it used.
        retry_after_s: what a refusal asked for.
        status: as the endpoint answered, None before it did.
        sent: the request has left for the endpoint; ``beside`` how many it held then, this one included.
        ttft_s: how long the first token took, for streams.
        ask: the number under which it may spend money, 0 for none.
    """

    __slots__ = (
        "_begun",
        "_errand",
        "_fresh",
        "_gate",
        "_held_limit",
        "_over",
        "_seated",
        "_size",
        "_user_error",
        "ask",
        "backend",
        "beside",
        "conn",
        "last_read",
        "number",
        "payload",
        "retry_after_s",
        "sent",
        "started_at",
        "status",
        "stream",
        "ttft_s",
        "usage",
        "whole",
    )

    def __init__(self, errand: Errand, number: int, backend: Backend, *, now: float, held_limit: int) -> None:
        self._errand = errand
        self._gate: StreamGate | None = None
        self._held_limit = held_limit
        self._over = False
        self._fresh = False
        self._size = 0
        self._user_error = False
        self.number = number
        self.backend = backend
        self.conn: UpstreamConnection | None = None
        self._begun = False
        self._seated = False
        self.ask = 0
        self.beside = 0
        self.sent = False
        self.status: int | None = None
        self.ttft_s: float | None = None
        self.last_read = b""
        self.payload: list[bytes] = []
        self.stream = False
        self.whole = False
        self.usage: Usage | None = None
        self.retry_after_s: float | None = None
        self.started_at = now

    def start(self) -> None:
        """Send the request, unless it was cancelled meanwhile, on a connection that is there or on a new one."""
        if self._over:
            return
        backend = self.backend
        counters = backend.counters
        counters.attempts += 1
        seat = backend.seat
        if seat.inflight == 0:
            counters.busy_since = self.started_at
        seat.inflight += 1
        self._seated = True
        self.beside = seat.inflight
        conn = backend.take_idle()
        if conn is None:
            self._fresh = True
            backend.open_for(self)
        else:
            self._send(conn)

    @property
    def held_at_end(self) -> int:
        """How many requests the endpoint holds now, this one included, whether it has left already or not."""
        return self.backend.seat.inflight + (1 if self._over else 0)

    @property
    def unheard(self) -> bool:
        """Whether it waits for a new connection, or on one by which no byte of an answer has come yet."""
        return self._fresh and not self._over and (self.conn is None or self.conn.silent)

    def connected(self, conn: UpstreamConnection) -> None:
        """Taker: a new connection is there."""
        if self._over:
            conn.release()  # never used: fit for the next
            return
        self._send(conn)

    def unreachable(self, kind: FailureKind, detail: str) -> None:
        """Taker: there is none."""
        if not self._over:
            self._fail(kind, detail)

    def _send(self, conn: UpstreamConnection) -> None:
        self.conn = conn
        self.sent = True
        head, body = self._errand.request_for(self.backend)
        if len(body) < 16384:  # noqa: PLR2004 - one write, one copy
            conn.begin(self, head + body)
        else:
            conn.begin(self, head, body)

    def fed(self, conn: UpstreamConnection, data: bytes) -> None:
        """Owner: a read brought ``data``."""
        head = conn.head
        if head is None:
            return
        if not self._begun:
            self._begun = True
            verdict = self._open(head)
            if verdict is not None:
                self._settle(verdict)
                return
        self.last_read = data
        self.payload += conn.pieces
        verdict = self._judge_stream(conn) if self.stream else self._judge_whole(conn)
        if verdict is not Gate.WAIT:
            self._settle(verdict)

    def _open(self, head: AnswerHead) -> Verdict | None:
        """The head is there: a verdict if the status says it all, else None."""
        self.status = head.status
        verdict = judge_status(head.status, users_key=self.backend.pool.forward_authorization)
        if verdict is None:
            self.stream = head.event_stream
            if self.stream:
                self._gate = StreamGate()
            return None
        if isinstance(verdict, Broken):
            self.retry_after_s = head.retry_after_s
            return verdict
        self._user_error = True
        self._held_limit = ERROR_BODY_BYTES
        return None  # the user's own error: its body is waited for, and relayed

    def _judge_stream(self, conn: UpstreamConnection) -> Verdict:
        gate = self._gate
        if gate is None:
            return Gate.OPEN
        for piece in conn.pieces:
            verdict = gate.feed(piece)
            if verdict is not Gate.WAIT:
                return verdict
        return gate.finish() if conn.complete else Gate.WAIT

    def _judge_whole(self, conn: UpstreamConnection) -> Verdict:
        if not conn.complete:
            self._size += sum(map(len, conn.pieces))
            return Gate.OPEN if self._size > self._held_limit else Gate.WAIT
        self.whole = True
        if self._user_error:
            return Gate.OPEN
        verdict, self.usage = judge_body(self.payload[0] if len(self.payload) == 1 else b"".join(self.payload))
        return verdict

    def _settle(self, verdict: Verdict) -> None:
        if isinstance(verdict, Broken):
            self._fail(verdict.kind, verdict.detail)
        else:
            self._errand.attempt_answered(self)

    def broke(self, conn: UpstreamConnection, kind: FailureKind, detail: str) -> None:
        """Owner: the connection ended, perhaps with the answer."""
        if self._over:
            return
        if conn.silent and kind is FailureKind.CLOSED and not self._fresh:
            self.conn = None
            self._fresh = True
            self.backend.open_for(self)  # it was idle for too long: once more, silently, on a new one
            return
        if conn.complete and self._begun:
            verdict = self._gate.finish() if self._gate is not None else self._judge_whole(conn)
            if verdict is Gate.OPEN:
                self._settle(verdict)
                return
        self._fail(kind, detail)

    def _fail(self, kind: FailureKind, detail: str) -> None:
        self.leave()
        self._errand.attempt_failed(self, kind, detail)

    def cancel(self) -> None:
        """Close the connection at once."""
        conn = self.conn
        if conn is not None and not self._over:
            conn.abort()
            self.conn = None
        self.leave()

    def spoilt(self) -> None:
        """After its first token it was cut, fell silent, or ended with an error."""

    def leave(self) -> None:
        """The endpoint is free of this attempt: the connection is given back if it may be used again, else closed."""
        if self._over:
            return
        self._over = True
        if self._seated:
            self.backend.seat.inflight -= 1
        conn, self.conn = self.conn, None
        if conn is not None:
            conn.release()

    def __repr__(self) -> str:
        return f"Attempt({self.number}, {self.backend.seat.id}, over={self._over})"
