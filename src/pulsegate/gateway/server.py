"""One worker's data plane: runs on the event loop that it was opened on."""

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from operator import attrgetter
from pathlib import Path
from weakref import WeakSet

from pulsegate.control.clock import SystemClock
from pulsegate.control.link import NewOutlook
from pulsegate.control.ports import Clock
from pulsegate.core.figures import WorkerFigures
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.snapshot import Snapshot
from pulsegate.gateway.access import AccessLog, open_log
from pulsegate.gateway.books import Books
from pulsegate.gateway.context import Context, PingCall
from pulsegate.gateway.counters import Counters
from pulsegate.gateway.downstream import LAST_CALL_S, ClientConnection
from pulsegate.gateway.heads import NOT_FOR_PROVIDERS
from pulsegate.gateway.identity import request_ids
from pulsegate.gateway.keys import KeyRing, load_keys
from pulsegate.gateway.request_head import HeadRules
from pulsegate.gateway.roster import Roster
from pulsegate.gateway.setup import LedgerSetup, ServerTls, Setup
from pulsegate.gateway.sink import NullSink, Sink
from pulsegate.gateway.sweeper import Sweeper
from pulsegate.trust import no_password

OpenBooks = Callable[[LedgerSetup, Callable[[float], float]], Books]

_BACKLOG = 4096
_DRAIN_TURN_S = 0.02


class Gateway:
    """Serves users' requests. Owns its sockets; knows nothing of the control process but ``Sink`` and the snapshots.

    Usage::

        gateway = Gateway(setup, snapshot, sink)
        async with gateway.open(listener):    # an already bound and listening socket; everything is closed at the end
            gateway.follow(snapshot)          # latest wins, synchronous, takes effect at once
            gateway.reconfigure(setup)
            await gateway.drain(timeout_s)    # no new connections; returns when the last request is over or time is up
    """

    def __init__(
        self,
        setup: Setup,
        snapshot: Snapshot | None,
        sink: Sink | None = None,
        *,
        clock: Clock | None = None,
        open_books: OpenBooks | None = None,
    ) -> None:
        """``snapshot`` None: every configured endpoint may serve until the first snapshot comes.

        ``open_books`` opens the ledger; without it nothing is written down.

        Raises:
            ValueError: the setup contradicts itself (a route without its pool) or a file that it names cannot be read.
        """
        clock = clock or SystemClock()
        dice = random.Random()  # noqa: S311 - for load balancing and ids that must differ, not for secrets
        counters = Counters()
        roster = Roster(counters, now=clock.now, spawn=self._spawn)
        roster.configure(setup)
        limits = setup.limits
        self._context = Context(
            now=clock.now,
            wall=clock.wall,
            random=dice.random,
            new_id=request_ids(dice.getrandbits),
            setup=setup,
            roster=roster,
            counters=counters,
            budget=RetryBudget(limits.retry_percent, limits.retry_floor),
            keys=_keys(setup, None),
            access=AccessLog(open_log(setup.access_log)),
            alarm=self._alarm,
            pump=self._pump_soon,
            started_at=clock.now(),
        )
        self._tls = None if setup.tls is None else server_context(setup.tls)
        self._clients: set[ClientConnection] = set()
        self._coming: WeakSet[ClientConnection] = WeakSet()
        self._sink = sink or NullSink()
        self._asked: dict[int, PingCall] = {}
        self._last_ask = 0
        self._context.ask_ping = self._ask_ping
        self._sweeper = Sweeper(self._context, self._clients, self._sink)
        self._tasks: asyncio.TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None
        self._pumping = False
        self._open_books = open_books
        self._take_over(setup)
        self._keep_books(setup)
        if snapshot is not None:
            roster.follow(snapshot)

    def open(self, listener: socket.socket) -> AbstractAsyncContextManager[None]:
        """Accept while the context is entered, once, on the running loop; at its end everything is closed at once."""
        return self._opened(listener)

    @asynccontextmanager
    async def _opened(self, listener: socket.socket) -> AsyncGenerator[None, None]:
        self._loop = loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._server = await loop.create_server(self._accepted, sock=listener, ssl=self._tls, backlog=_BACKLOG)
            self._sweeper.start(loop)
            try:
                yield
            finally:
                self._close()

    def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            client.abort()
        for call in list(self._context.live):
            call.client_gone()
        self._context.roster.close()
        self._sweeper.stop()
        self._context.access.close()
        if self._context.books is not None:
            self._context.books.close()

    def follow(self, snapshot: Snapshot) -> None:
        """Route by this snapshot from now on; requests that wait on newly ejected endpoints move at once."""
        ejected, suspect = self._context.roster.follow(snapshot)
        if not ejected and not suspect:
            return
        now = self._context.now()
        for call in sorted(self._context.live, key=attrgetter("started_at")):  # first come, first rescued
            call.endpoints_changed(ejected, suspect, now)

    def reconfigure(self, setup: Setup) -> None:
        """Take over a new setup: requests under way end as they began. The TLS files are read again, too.

        Raises:
            ValueError: it contradicts itself, or a file cannot be read; the old one stays.
        """
        context = self._context
        keys = _keys(setup, context.keys)
        access = AccessLog(open_log(setup.access_log))
        try:
            if setup.tls is not None and self._tls is not None:
                load_certificate(self._tls, setup.tls)
            context.roster.configure(setup)
        except ValueError:
            access.close()
            raise
        context.access.close()
        context.access = access
        self._keep_books(setup)
        context.keys = keys
        context.setup = setup
        context.budget.resize(setup.limits.retry_percent, setup.limits.retry_floor)
        self._take_over(setup)
        for client in self._clients:
            client.reconfigured()

    def _take_over(self, setup: Setup) -> None:
        context = self._context
        names = {name.lower().encode() for pool in setup.pools for e in pool.endpoints for name, _ in e.headers}
        if any(pool.provider is not None for pool in setup.pools):
            names |= NOT_FOR_PROVIDERS
        affinity = None if setup.affinity_header is None else setup.affinity_header.lower().encode()
        context.rules = HeadRules(names, affinity)

    def _keep_books(self, setup: Setup) -> None:
        context, wanted = self._context, setup.ledger
        former = context.books
        if self._open_books is None or wanted == (None if former is None else former.setup):
            return
        context.books = None if wanted is None else self._open_books(wanted, lambda now: now + context.wall_offset_s)
        if former is not None:
            former.close()

    @property
    def books(self) -> Books | None:
        """What attempts are written into."""
        return self._context.books

    async def drain(self, timeout_s: float) -> int:
        """Stop accepting, let requests end, close connections; returns how many requests were cut off at the timeout.

        An idle connection stays open for a moment, because its client may be about to use it: that request is still
        answered, and its answer says that the connection closes.
        """
        context = self._context
        context.draining = True
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # who was accepted only just is a client from the next turn of the event loop on
        until = context.now() + LAST_CALL_S
        for client in self._clients:
            client.last_call(until)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._clients or (self._coming and context.now() < until):
                    await asyncio.sleep(_DRAIN_TURN_S)
                    await asyncio.sleep(0)  # after a standstill: first read what has come meanwhile
                    self._sweeper.look_at_clients()
        left = len(context.live)
        for client in list(self._clients):
            client.abort()
        return left

    # the door of client connections

    def _accepted(self) -> ClientConnection:
        """Somebody knocks. Who speaks TLS comes in after the handshake, who fails at it never."""
        client = ClientConnection(self._context, self)
        if self._tls is not None:
            self._coming.add(client)
        return client

    def came(self, client: ClientConnection) -> bool:
        """Door: a client has connected."""
        self._coming.discard(client)
        if len(self._clients) >= self._context.setup.limits.connections:
            return False
        self._clients.add(client)
        self._context.counters.connections += 1
        return True

    def left(self, client: ClientConnection) -> None:
        """Door: a client is gone."""
        if client in self._clients:
            self._clients.remove(client)
            self._context.counters.connections -= 1

    # what the control process tells of providers and money

    def look_out(self, outlook: NewOutlook) -> None:
        """Take over the latest ping with each key, how money stands, and why other gateways cannot be reached."""
        context = self._context
        context.cost, context.apart = outlook.cost, outlook.apart
        known, context.pings = context.pings, {ping.key: ping for ping in outlook.pings}
        for ping in outlook.pings:
            watch = context.roster.watches.get(ping.provider)
            if watch is not None and known.get(ping.key) != ping:
                watch.pinged(ping.key, ping.fault)

    def ping_over(self, ask: int) -> None:
        """Providers have been pinged for somebody."""
        waiting = self._asked.pop(ask, None)
        if waiting is not None:
            waiting.ping_over()

    def _ask_ping(self, waiting: PingCall) -> None:
        self._last_ask += 1
        self._asked[self._last_ask] = waiting
        if not self._sink.ask_ping(self._last_ask):
            self.ping_over(self._last_ask)

    # what the context asks for

    def _spawn(self, work: Coroutine[object, object, None]) -> object:
        if self._tasks is None:
            work.close()
            raise RuntimeError("the gateway is not open")
        return self._tasks.create_task(work)

    def _alarm(self) -> None:
        self._sweeper.report_soon()

    def _pump_soon(self) -> None:
        if not self._pumping and self._loop is not None:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Let those that wait for the retry budget try again, in order; who gets nothing waits on."""
        self._pumping = False
        context = self._context
        now = context.now()
        for _ in range(len(context.parked)):
            call = context.parked.popleft()
            call.budget_freed(now)
            if context.parked and context.parked[-1] is call:
                context.parked.rotate(1)  # it got nothing and comes first again
                return

    def figures(self) -> WorkerFigures:
        """All counters as they are now."""
        budget = self._context.budget
        return self._context.counters.figures(in_flight=budget.in_flight, retries_under_way=budget.used)

    @property
    def drain_timeout_s(self) -> float:
        """How long requests may go on after a drain was asked for, by the latest setup."""
        return self._context.setup.drain_timeout_s

    @property
    def idle(self) -> bool:
        """Whether nothing is held for anyone: no request, no seat, no retry. For tests and drains."""
        context = self._context
        busy = any(backend.seat.inflight for backend in context.roster.backends.values())
        return not context.live and not busy and context.budget.used == 0 and context.budget.in_flight == 0

    def __repr__(self) -> str:
        context = self._context
        return (
            f"Gateway(routes={len(context.roster.routes)}, snapshot={context.roster.version}, "
            f"clients={len(self._clients)}, live={len(context.live)})"
        )


def _keys(setup: Setup, former: KeyRing | None) -> KeyRing | None:
    return None if setup.keys_file is None else load_keys(setup.keys_file, former)


def server_context(spec: ServerTls) -> ssl.SSLContext:
    """TLS settings for clients.

    Raises:
        ValueError: a file cannot be read or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, spec)
    return context


def load_certificate(context: ssl.SSLContext, spec: ServerTls) -> None:
    """Read the certificate files into a context that may be in use: new connections get the new certificate.

    Raises:
        ValueError: a file cannot be read or is not what it should be.
    """
    try:
        context.load_cert_chain(spec.cert_file, spec.key_file, password=no_password)
        if spec.client_ca_file is not None:
            context.load_verify_locations(spec.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as exc:
        raise ValueError(f"TLS files {Path(spec.cert_file).name}, {Path(spec.key_file).name}: {exc}") from exc
