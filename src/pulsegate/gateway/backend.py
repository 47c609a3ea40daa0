"""One endpoint with its connections: hands out idle ones, has new ones opened, closes those that nobody wants."""

import ssl
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Protocol

from pulsegate.core.rescue import FailureKind
from pulsegate.core.routing import Seat
from pulsegate.gateway.access import json_text
from pulsegate.gateway.answer_head import AnswerHead
from pulsegate.gateway.counters import EndpointCounters
from pulsegate.gateway.dial import DialError, dial
from pulsegate.gateway.heads import request_prefix
from pulsegate.gateway.provider_watch import ProviderWatch
from pulsegate.gateway.setup import EndpointSetup, Limits, PoolSetup
from pulsegate.gateway.upstream import UpstreamConnection
from pulsegate.trust import client_context


class Taker(Protocol):
    """Who asked for a new connection; exactly one of the calls comes, later."""

    def connected(self, conn: UpstreamConnection) -> None:
        """Here it is; whoever wants it no more releases it."""
        ...

    def unreachable(self, kind: FailureKind, detail: str) -> None:
        """There is none."""
        ...


Spawn = Callable[[Coroutine[object, object, None]], object]


class Backend:
    """Connections to one endpoint as one setup describes it.

    A changed description is a new Backend with the same seat. ``model`` is what the engine calls its model: as the
    setup says, else as the latest snapshot does; None sends the client's name unchanged.
    """

    __slots__ = (
        "_context",
        "_idle",
        "_known",
        "_limits",
        "_now",
        "_prefixes",
        "_retired",
        "_spawn",
        "connections",
        "counters",
        "dialing",
        "header_line",
        "json_id",
        "model",
        "pool",
        "seat",
        "setup",
        "watch",
    )

    def __init__(
        self,
        setup: EndpointSetup,
        pool: PoolSetup,
        limits: Limits,
        *,
        counters: EndpointCounters,
        now: Callable[[], float],
        spawn: Spawn,
    ) -> None:
        """No connection is opened yet.

        Raises:
            OSError: a TLS file cannot be read.
        """
        self.setup = setup
        self.watch: ProviderWatch | None = None
        self.model = setup.model
        self.pool = pool
        self.counters = counters
        self.seat: Seat = counters.seat
        self.json_id = json_text(setup.id)
        self.header_line = b"X-Pulsegate-Endpoint: %b\r\n" % setup.id.encode("latin-1", "replace")
        if pool.provider is not None:
            self.header_line += b"X-Pulsegate-Provider: %b\r\n" % pool.provider.encode("latin-1", "replace")
        self.connections: set[UpstreamConnection] = set()
        self.dialing = 0
        self._context: ssl.SSLContext | None = None if setup.tls is None else client_context(setup.tls)
        self._idle: deque[UpstreamConnection] = deque()
        self._limits = limits
        self._now = now
        self._spawn = spawn
        self._prefixes: dict[bytes, bytes] = {}
        self._known: tuple[bytes, AnswerHead] | None = None
        self._retired = False

    def adjust(self, pool: PoolSetup, limits: Limits, watch: ProviderWatch | None = None) -> None:
        """Take over what has changed around the endpoint; ``watch`` of its provider, if it has one."""
        self.watch = watch
        self.seat.shared = watch is not None
        self.pool = pool
        self._limits = limits
        self.seat.pool = pool.name
        self.seat.limit = self.setup.max_inflight

    def prefix(self, target: bytes) -> bytes:
        """The head of a request to ``target`` up to and including the operator's headers."""
        known = self._prefixes.get(target)
        if known is None:
            known = request_prefix(self.setup, target)
            if b"?" not in target:  # queries are the client's: remembering them would let it fill our memory
                self._prefixes[target] = known
        return known

    def take_idle(self) -> UpstreamConnection | None:
        """The idle connection that was used last, None if there is none."""
        idle = self._idle
        while idle:
            conn = idle.pop()
            if not conn.closed:
                return conn
        return None

    def open_for(self, taker: Taker) -> None:
        """Open a new connection for ``taker``."""
        self.dialing += 1
        self._spawn(self._open(taker))

    async def _open(self, taker: Taker) -> None:
        timeout_s = self.setup.connect_timeout_s or self._limits.connect_timeout_s
        try:
            conn = await dial(self.setup, self._context, self._make, timeout_s)
        except DialError as exc:
            self.dialing -= 1
            taker.unreachable(exc.kind, str(exc))
        except BaseException:
            self.dialing -= 1
            raise
        else:
            self.dialing -= 1
            taker.connected(conn)

    def _make(self) -> UpstreamConnection:
        return UpstreamConnection(self)

    def opened(self, conn: UpstreamConnection) -> None:
        """Home: a connection was made."""
        self.connections.add(conn)

    def read_head(self, status: int, raw: bytes) -> AnswerHead:
        """Home: what this head says; that of the latest answer is remembered, because streams begin alike."""
        known = self._known
        if known is None or known[0] != raw:
            self._known = known = (raw, AnswerHead(status, raw))
        return known[1]

    def keep(self, conn: UpstreamConnection) -> None:
        """Home: a connection is idle. ``expire`` puts the time on it, so that keeping costs no look at the clock."""
        if self._retired or len(self._idle) >= self._limits.upstream_idle_max:
            conn.abort()
            return
        self._idle.append(conn)

    def lost(self, conn: UpstreamConnection) -> None:
        """Home: a connection is gone. It may still be among the idle ones, from where it is not handed out."""
        self.connections.discard(conn)

    def expire(self, now: float) -> None:
        """Close connections that have been idle for too long, the oldest first."""
        idle = self._idle
        for conn in reversed(idle):
            if conn.idle_since:
                break
            conn.idle_since = now
        oldest = now - (self.setup.idle_s or self._limits.upstream_idle_s)
        while idle and (idle[0].closed or idle[0].idle_since < oldest):
            idle.popleft().abort()

    def retire(self) -> None:
        """Close idle connections now and others when they are released."""
        self._retired = True
        while self._idle:
            self._idle.pop().abort()

    def close(self) -> None:
        """Close every connection at once."""
        self.retire()
        for conn in list(self.connections):
            conn.abort()

    def __repr__(self) -> str:
        return f"Backend({self.seat.id}, connections={len(self.connections)}, idle={len(self._idle)})"
