"""HTTP/1.1 to one endpoint with exact phase stamps: one idle connection, bounded in time and size, nothing leaks.

Decides how an exchange ended below the dialect; what the bytes mean is the listener's business.
"""

import asyncio
from collections.abc import Callable

from pulsegate.control.clock import SystemClock
from pulsegate.core.probe import FaultClass, Phases
from pulsegate.engines.blame import CLOSED_BY_US, local_fault
from pulsegate.engines.connect import DialError, Dialler, Stamps
from pulsegate.engines.connection import Connection, Talk
from pulsegate.engines.exchange import DEFAULT_LIMITS, Exchange, Flow, Limits, Listener, Request
from pulsegate.engines.fields import render_fields, render_head, render_request
from pulsegate.engines.http_answer import HttpAnswer
from pulsegate.engines.reuse import Reuse
from pulsegate.engines.target import Target, parse_target

__all__ = ["Exchange", "Flow", "Limits", "Listener", "Request", "Target", "Wire", "parse_target"]

IDLE_LIMIT_S = 75.0
"""An idle connection older than that is not trusted: something between here and there may have forgotten it."""

_KEPT_HEADS = 8
"""Of one endpoint: its probe and a few pages."""

_USER_AGENT = ("User-Agent", "pulsegate")
_IDENTITY = ("Accept-Encoding", "identity")


class Wire:
    """The line to one endpoint. Exchanges may overlap; each then has its own connection, one is kept afterwards.

    Args:
        target: where to.
        now: monotonic seconds for the stamps. Not the loop's clock: uvloop reads its own once per iteration and counts
            whole milliseconds, so the work of starting other probes would look like the server's time to the token.
    """

    def __init__(self, target: Target, *, now: Callable[[], float] | None = None) -> None:
        own = {name.lower() for name, _ in target.headers}
        agent = () if "user-agent" in own else (_USER_AGENT,)
        self._target = target
        self._common = render_fields((("Host", target.host_header), *agent, _IDENTITY, *target.headers))
        self._common_names = frozenset({*own, "host", "accept-encoding", "content-length"})
        self._secrets = tuple({word for _, value in target.headers for word in (value, *value.split())})
        self._now = now or SystemClock().now
        self._dialler = Dialler(target)
        self._heads: dict[tuple[str, str, tuple[tuple[str, str], ...]], str] = {}
        self._open: set[Connection] = set()
        self._idle: Connection | None = None
        self._reuse = Reuse()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Wire {self._target.host_header} open={len(self._open)} closed={self._closed}>"

    async def exchange(
        self,
        request: Request,
        listener: Listener,
        *,
        deadline_s: float,
        end_deadline_s: float | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> Exchange:
        """Send the request and let the listener hear the answer. Never raises for the peer's faults.

        Returns when the body ended, a fault or deadline ended it, or the listener had enough; by then the connection
        is idle or closed. ``deadline_s`` holds until the listener says LINGER, or to the end if it never does. After
        LINGER the exchange may go on for 50 ms, or until ``end_deadline_s`` (from the start) if that is given.

        Raises:
            ValueError: the request cannot be written (a line break in a header): our own mistake.
        """
        loop = asyncio.get_running_loop()
        stamps = Stamps(loop=loop, now=self._now)
        payload = render_request(self._head(request), request)

        def new_talk() -> Talk:
            answer = HttpAnswer(listener, limits, self._secrets)
            return Talk(answer, loop.create_future(), start=stamps.start, end_deadline_s=end_deadline_s)

        connection = self._take_idle(stamps.start)
        if connection is not None:
            talk = await self._run(connection, payload, new_talk(), deadline_s)
            if not _died_idle(talk):
                self._reuse.kept(request.path, silent=_was_silent(talk))
                return _facts(talk, stamps, reused=True)
        try:
            connection = await self._dial(stamps, deadline_s)
        except DialError as exc:
            return Exchange(phases=stamps.phases(), fault=exc.fault, deadline_hit=exc.deadline_hit)
        talk = await self._run(connection, payload, new_talk(), deadline_s)
        self._reuse.fresh(request.path, silent=_was_silent(talk))
        return _facts(talk, stamps, reused=False)

    async def close(self) -> None:
        """Close every connection; exchanges in flight end with a LOCAL fault."""
        self._closed = True
        self._idle = None
        connections = tuple(self._open)
        for connection in connections:
            connection.abort()
        for connection in connections:
            await connection.wait_lost()

    def _head(self, request: Request) -> str:
        key = (request.method, request.path, request.headers)
        head = self._heads.get(key)
        if head is None:
            head = render_head(
                request, base_path=self._target.base_path, common=self._common, common_names=self._common_names
            )
            if len(self._heads) >= _KEPT_HEADS:
                self._heads.clear()
            self._heads[key] = head
        return head

    async def _dial(self, stamps: Stamps, deadline_s: float) -> Connection:
        if not self._closed:
            connection = await self._dialler.dial(
                lambda: Connection(stamps.loop, stamps.now, self._open), stamps, deadline_s
            )
            if not self._closed:
                return connection
            connection.abort()
        raise DialError(local_fault(CLOSED_BY_US))

    async def _run(self, connection: Connection, payload: bytes, talk: Talk, deadline_s: float) -> Talk:
        """One exchange on one connection, which is idle or closed afterwards, even if the caller is cancelled."""
        try:
            connection.begin(payload, talk, deadline_s)
            await talk.done
        except BaseException:
            connection.abort()
            raise
        if connection.open:
            if self._idle is None and self._reuse.pays and not self._closed:
                self._idle = connection
            else:
                connection.abort()
        return talk

    def _take_idle(self, now_s: float) -> Connection | None:
        connection, self._idle = self._idle, None
        if connection is None or not connection.open:
            return None
        if now_s - connection.idle_since > IDLE_LIMIT_S:
            connection.abort()
            return None
        return connection


def _died_idle(talk: Talk) -> bool:
    """The server closed a reused connection while the request was on its way, so it was not taken on."""
    fault = talk.fault or talk.answer.fault
    return fault is not None and fault.kind is FaultClass.CLOSED and talk.answer.bytes_read == 0


def _was_silent(talk: Talk) -> bool:
    return talk.deadline_hit and talk.answer.bytes_read == 0


def _facts(talk: Talk, stamps: Stamps, *, reused: bool) -> Exchange:
    answer = talk.answer
    fault = talk.fault or answer.fault
    return Exchange(
        status=answer.status,
        headers=answer.headers,
        phases=Phases(
            dns_s=stamps.dns_s,
            connect_s=stamps.connect_s,
            tls_s=stamps.tls_s,
            send_s=talk.send_s,
            first_byte_s=talk.first_byte_s,
            end_s=talk.end_s,
        ),
        fault=fault,
        whole=answer.whole and fault is None,
        deadline_hit=talk.deadline_hit,
        left=answer.stopped and fault is None,
        lingered=answer.lingered,
        reused=reused,
        bytes_read=answer.bytes_read,
    )
