"""Wires the control process: what probes, judges, counts money and answers on the admin port."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from structlog.typing import FilteringBoundLogger

from pulsegate import __version__
from pulsegate.billing import cost_view, open_treasury, price_probes
from pulsegate.config import Config
from pulsegate.control.audience import Audience
from pulsegate.control.desk import Desk
from pulsegate.control.fellowship import Fellowship
from pulsegate.control.outlook import Outlook
from pulsegate.control.pinging import Ping, Pinging
from pulsegate.control.ports import Clock, EngineFactory, ProbeObserver, Timers
from pulsegate.control.probe_books import ProbeBooks
from pulsegate.control.prober import Prober
from pulsegate.control.publish import LatestSnapshot
from pulsegate.control.selfcheck import LoopLag
from pulsegate.control.treasury import Treasury
from pulsegate.coordination.factory import open_coordinator
from pulsegate.core.board import Board
from pulsegate.core.coordination import CoordinationSpec
from pulsegate.core.events import Event
from pulsegate.core.fleet import Fleet
from pulsegate.engines.factory import open_engine
from pulsegate.engines.ping import ping_provider
from pulsegate.export.fellowship import FellowshipNews
from pulsegate.export.logs import LogObserver
from pulsegate.export.metrics import Metrics
from pulsegate.export.scrape import page
from pulsegate.fellowship import OpenCoordinator, apart, open_fellowship
from pulsegate.ledger.lines import Row as TailRow
from pulsegate.outlook import open_outlook
from pulsegate.status.app import admin_app
from pulsegate.status.costs import costs_of
from pulsegate.status.server import base_url, listen, serving
from pulsegate.status.stream import EventHub

LAG_WINDOW_S = 60.0  # over which the metrics show the worst stall


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a control process is made of besides its configuration; tests replace some."""

    log: FilteringBoundLogger
    clock: Clock
    rng: Random
    open_engine: EngineFactory = open_engine
    open_coordinator: OpenCoordinator = open_coordinator
    probe_observers: tuple[ProbeObserver, ...] = ()
    ping: Ping = ping_provider


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A running control process: where it answers, what it knows, and how to change what it watches."""

    url: str
    board: Board
    desk: Desk
    snapshots: LatestSnapshot
    metrics: Metrics
    tell: Callable[[Event], None]
    change: Callable[[Fleet], None]
    outlook: Outlook
    pinging: Pinging
    treasury: Treasury[TailRow] | None = None
    settled: Callable[[], Awaitable[None]] | None = None
    probe_books: ProbeBooks | None = None


@contextlib.asynccontextmanager
async def run_control(config: Config, parts: Parts) -> AsyncGenerator[Control]:
    """Probe the fleet of ``config`` and serve the admin API while the context is open.

    Raises:
        ListenError: the admin address cannot be listened on.
    """
    loop, clock = asyncio.get_running_loop(), parts.clock
    sock = listen(config.admin.listen.host, config.admin.listen.port, "admin.listen")
    sharing = config.coordination.spec()
    board, metrics = Board(parts.rng, shared=sharing.redis is not None), Metrics(__version__)
    hub, snapshots = EventHub(clock), LatestSnapshot()
    fellowship = _fellowship(sharing, parts, board, metrics, loop)
    fellows = () if fellowship is None else (fellowship,)
    logs, lag = LogObserver(parts.log, clock), LoopLag(clock, loop)
    treasury = open_treasury(config.costs, parts.log, metrics.registry, clock)
    books = None if treasury is None else ProbeBooks(treasury.book, clock.wall)
    if books is not None:
        price_probes(books, config)
    audience = Audience(
        publisher=snapshots,
        crashes=logs,
        observers=(logs, metrics, hub, *fellows),
        probe_observers=(metrics, *(() if books is None else (books,)), *fellows, *parts.probe_observers),
    )
    prober = Prober(board=board, open_engine=parts.open_engine, audience=audience, clock=clock, timers=loop, lag=lag)
    outlook, pinging = open_outlook(config, partial(cost_view, treasury), parts.ping, clock)
    if fellowship is not None:
        outlook.apart = partial(apart, fellowship)
    desk = Desk(board, prober, clock, outlook, fellowship)

    async def scrape() -> bytes:
        worst_s = lag.since(clock.now() - LAG_WINDOW_S)
        metrics.note_prober(lag_s=worst_s, snapshot_version=board.snapshot.version)
        return await page(metrics, desk.statuses(), outlook.standings())

    async with asyncio.TaskGroup() as group:
        if treasury is not None:
            await treasury.start()
        banking = None if treasury is None else group.create_task(treasury.run())
        probing = group.create_task(prober.run(config.fleet()))
        ringing = group.create_task(pinging.run())
        await asyncio.sleep(0)  # one turn, in which the board learns of the fleet
        sharing_out = None if fellowship is None else group.create_task(fellowship.run(prober.tell))
        async with serving(admin_app(desk, hub, scrape, costs_of(treasury), ping=pinging.fresh), sock):
            try:
                yield Control(
                    url=base_url(sock),
                    board=board,
                    desk=desk,
                    snapshots=snapshots,
                    metrics=metrics,
                    tell=prober.tell if fellowship is None else fellowship.told,
                    settled=None if fellowship is None else fellowship.settled,
                    change=prober.change,
                    treasury=treasury,
                    probe_books=books,
                    outlook=outlook,
                    pinging=pinging,
                )
            finally:
                hub.close()
        probing.cancel()
        ringing.cancel()
        if sharing_out is not None:
            sharing_out.cancel()
        if banking is not None:
            banking.cancel()


def _fellowship(
    spec: CoordinationSpec, parts: Parts, board: Board, metrics: Metrics, timers: Timers
) -> Fellowship | None:
    if spec.redis is None:
        return None
    return open_fellowship(
        spec,
        parts.open_coordinator,
        board=board,
        clock=parts.clock,
        timers=timers,
        rng=parts.rng,
        observer=FellowshipNews(parts.log, metrics.registry),
    )
