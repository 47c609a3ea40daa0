"""The only place that knows everybody: wires adapters to the control process, runs it, reloads it, stops it."""

import asyncio
import contextlib
import resource
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random

import uvloop
from structlog.typing import FilteringBoundLogger

from pulsegate import __version__
from pulsegate.assembly import encoded_setup
from pulsegate.billing import as_it_runs, cost_policy, cost_view, open_treasury, price_probes, refuses
from pulsegate.config import Config, ConfigError
from pulsegate.config.address import Listen
from pulsegate.control.audience import Audience
from pulsegate.control.clock import SystemClock
from pulsegate.control.collector import calm_collector
from pulsegate.control.desk import Desk
from pulsegate.control.fellowship import Fellowship
from pulsegate.control.hiring import hire_process
from pulsegate.control.outlook import Outlook
from pulsegate.control.pinging import Ping, Pinging
from pulsegate.control.ports import Clock, EngineFactory, ProbeObserver, Timers
from pulsegate.control.probe_books import ProbeBooks
from pulsegate.control.prober import Prober
from pulsegate.control.publish import LatestSnapshot
from pulsegate.control.selfcheck import LoopLag
from pulsegate.control.succession import INHERIT_S, Succession
from pulsegate.control.treasury import Treasury
from pulsegate.control.workforce import END_GRACE_S, Hiring, Workforce
from pulsegate.coordination.factory import open_coordinator
from pulsegate.core.board import Board
from pulsegate.core.coordination import CoordinationSpec
from pulsegate.core.events import Event
from pulsegate.core.fleet import Fleet
from pulsegate.engines.factory import open_engine
from pulsegate.engines.ping import ping_provider
from pulsegate.export.fellowship import FellowshipNews
from pulsegate.export.logs import LogFormat, LogObserver, open_log
from pulsegate.export.metrics import Metrics
from pulsegate.export.scrape import page
from pulsegate.export.traffic import TrafficSeries
from pulsegate.export.workers import WorkerNews
from pulsegate.fellowship import OpenCoordinator, apart, open_fellowship
from pulsegate.ledger.lines import Row as TailRow
from pulsegate.outlook import inform, look_out, open_outlook
from pulsegate.signals import Signals
from pulsegate.status.app import admin_app
from pulsegate.status.costs import costs_of
from pulsegate.status.server import AddressInUseError, ListenError, base_url, listen, serving
from pulsegate.status.stream import EventHub

__all__ = ["Control", "ListenError", "LogFormat", "Parts", "run_control", "run_gateway", "serve"]

FILES_PER_ENDPOINT = 2  # a probe and a reading of counters at the same time
SPARE_FILES = 256
GC_THRESHOLD = 10_000  # objects: above what the probes of thousands of endpoints have in flight
ACQUAINTANCE_S = 10.0  # how long orphans go on serving while we take our first tokens; then we serve what there is
SETTLE_S = 3.0  # how long users wait at most for what other gateways know already
LAG_WINDOW_S = 60.0  # over which the metrics show the worst stall

Reload = Callable[[], Config]
"""Reads the configuration anew; raises ConfigError."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlane:
    """Running workers: where they answer, and how to change what they serve. ``access_log`` as in ``Setup``."""

    url: str
    workforce: Workforce
    access_log: str | None


@contextlib.asynccontextmanager
async def run_gateway(
    config: Config, control: Control, parts: Parts, *, access_log: str | None = None, hurry: asyncio.Event | None = None
) -> AsyncGenerator[DataPlane]:
    """Serve users' requests by what ``control`` knows while the context is open; then let requests under way finish.

    Args:
        config: which models, where to listen, how many workers.
        control: the running control process that the workers follow and report to.
        parts: log and clock.
        access_log: a file for one line per request, ``-`` for standard output, None for none.
        hurry: once it is set, requests under way are waited for no more.

    Raises:
        ListenError: the gateway's address cannot be listened on.
        ValueError: an endpoint's address or a file cannot be used; the message says which, and why.
    """
    setup = encoded_setup(config, access_log=access_log, priced_at=parts.clock.wall())
    listener, succession, inherited = await _take_address(config.gateway.listen)
    if control.settled is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await control.settled()
    if inherited:
        await _acquainted(control.snapshots)
    hiring = Hiring(
        hire=partial(hire_process, (sys.executable, "-m", "pulsegate.worker"), listener),
        count=config.gateway.workers,
        drain_timeout_s=config.gateway.drain_timeout_s,
    )
    news = WorkerNews(parts.log, TrafficSeries(control.metrics.registry))
    outlook = control.outlook
    workforce = Workforce(
        hiring, setup, tell=control.tell, observer=news, clock=parts.clock, cashier=control.treasury, watcher=outlook
    )
    async with asyncio.TaskGroup() as group:
        working = group.create_task(workforce.run())
        following = group.create_task(_follow(control.snapshots, workforce))
        informing = group.create_task(inform(outlook, workforce, parts.clock))
        if control.treasury is not None:
            control.treasury.lend = workforce.allow
        hurrying = group.create_task((hurry or asyncio.Event()).wait())
        try:
            await workforce.ready()
            succession.serving()
            yield DataPlane(url=base_url(listener), workforce=workforce, access_log=access_log)
        finally:
            following.cancel()
            informing.cancel()
            succession.close()
            listener.close()
            workforce.drain()
            patience_s = hiring.drain_timeout_s + END_GRACE_S
            await asyncio.wait([working, hurrying], timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            hurrying.cancel()
            working.cancel()


async def _acquainted(snapshots: LatestSnapshot) -> None:
    """Wait until every pool can serve, for a while at most.

    Orphans still accept on the socket that we inherited, and they know the fleet: our own workers would refuse what
    orphans can serve as long as our prober has not taken its first tokens.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(ACQUAINTANCE_S):
            snapshot = await snapshots.newer_than(0)
            while any(pool.down for pool in snapshot.pools):
                snapshot = await snapshots.newer_than(snapshot.version)


async def _take_address(where: Listen) -> tuple[socket.socket, Succession, bool]:
    """A listening socket, the name that goes with its address, and whether orphaned workers had to hand it over.

    Raises:
        ListenError: it cannot be listened on.
    """
    try:
        listener = listen(where.host, where.port, "gateway.listen")
    except AddressInUseError as taken:
        try:
            succession = Succession.of(taken.address)
        except OSError:
            raise taken from None  # it is served by a control process that lives
        inherited = await succession.inherited(INHERIT_S)
        if inherited is None:
            succession.close()
            raise
        return inherited, succession, True
    try:
        return listener, Succession.of(listener.getsockname()), False
    except OSError as exc:
        listener.close()
        raise ListenError(f"gateway.listen: {where} belongs to another process: {exc}") from exc


async def _follow(snapshots: LatestSnapshot, workforce: Workforce) -> None:
    """Hand every new routing table to the workers."""
    version = -1
    while True:
        snapshot = await snapshots.newer_than(version)
        version = snapshot.version
        workforce.offer(snapshot)


def serve(config: Config, *, reload: Reload, log_format: LogFormat, access_log: str | None = None) -> int:
    """Run until SIGTERM or SIGINT (a second one does not wait for streams); SIGHUP reloads. Returns the exit code.

    Raises:
        ListenError: an address cannot be listened on.
        ValueError: the workers cannot serve the configuration.
    """
    clock = SystemClock()
    parts = Parts(log=open_log(clock, log_format, sys.stdout), clock=clock, rng=Random())  # noqa: S311 - jitter
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, parts, reload, log_format, access_log))
    return 0


async def _serve(config: Config, parts: Parts, reload: Reload, log_format: LogFormat, access_log: str | None) -> None:
    signals = Signals(asyncio.get_running_loop())
    _allow_files(config.fleet(), parts.log)
    try:
        async with (
            run_control(config, parts) as control,
            run_gateway(config, control, parts, access_log=access_log, hurry=signals.hurry) as gateway,
        ):
            _say_where_to_look(control.url, gateway.url, config, parts.log, log_format)
            calm_collector(GC_THRESHOLD)
            async with asyncio.TaskGroup() as group:
                reloading = group.create_task(_reload_on(signals, reload, config, (control, gateway), parts))
                await signals.stop.wait()
                reloading.cancel()
            parts.log.info("stopping", why=signals.why)
            began = parts.clock.now()
        parts.log.info("stopped", drain_s=round(parts.clock.now() - began, 3), cut=gateway.workforce.cut)
    except* (ListenError, ValueError) as errors:
        raise _first(errors) from None


def _first(errors: BaseExceptionGroup[Exception]) -> Exception:
    """The first of the exceptions in a group of groups."""
    inner = errors.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


async def _reload_on(
    signals: Signals, reload: Reload, config: Config, running: tuple[Control, DataPlane], parts: Parts
) -> None:
    """Take over a new configuration at each signal, if all of it is right; else keep the old one and say why."""
    log, (control, gateway) = parts.log, running

    def read() -> tuple[Config, Config, bytes]:
        wanted = reload()
        new = as_it_runs(wanted, config)
        return wanted, new, encoded_setup(new, access_log=gateway.access_log, priced_at=parts.clock.wall())

    while True:
        await signals.hang_up.wait()
        signals.hang_up.clear()
        try:
            wanted, new, setup = await asyncio.to_thread(
                read
            )  # in a thread: parsing a big file would hold up the probes
            control.change(new.fleet())
            if control.treasury is not None:
                control.treasury.change(cost_policy(new.costs), refuses=refuses(new.costs))
            if control.probe_books is not None:
                price_probes(control.probe_books, new)
            look_out(new, control.outlook, control.pinging)
            gateway.workforce.reconfigure(setup)
        except (ConfigError, ValueError) as exc:
            log.error("reload refused, the old configuration stays", problems=str(exc).splitlines())  # noqa: TRY400
            continue
        log.info("reloaded", endpoints=len(control.desk.ids()))
        for setting, old, asked in (
            ("admin.listen", config.admin.listen, wanted.admin.listen),
            ("gateway.listen", config.gateway.listen, wanted.gateway.listen),
            ("costs.ledger", config.costs.ledger, wanted.costs.ledger),
            ("costs.time_zone", config.costs.time_zone, wanted.costs.time_zone),
            ("gateway.workers", config.gateway.workers, wanted.gateway.workers),
            ("coordination", config.coordination.spec(), wanted.coordination.spec()),
        ):
            if old != asked:
                log.warning("takes effect at the next start", setting=setting, running=str(old), wanted=str(asked))


def _allow_files(fleet: Fleet, log: FilteringBoundLogger) -> None:
    """Raise the soft limit of open files to what the fleet needs, and warn when the hard limit is below that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SPARE_FILES + FILES_PER_ENDPOINT * sum(len(pool.endpoints) for pool in fleet.pools)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("too few open files are allowed for this fleet", allowed=allowed, wanted=wanted, fix="ulimit -n")


def _say_where_to_look(
    url: str, gateway_url: str, config: Config, log: FilteringBoundLogger, log_format: LogFormat
) -> None:
    fleet = config.fleet()
    endpoints = sum(len(pool.endpoints) for pool in fleet.pools)
    if log_format is LogFormat.JSON:
        log.info(
            "serving", version=__version__, gateway=gateway_url, admin=url, pools=len(fleet.pools), endpoints=endpoints
        )
        return
    sys.stdout.write(
        f"Pulsegate {__version__} watches {endpoints} endpoint(s) in {len(fleet.pools)} pool(s) of {config.path}\n"
        f"  requests    {gateway_url}/v1\n"
        f"  endpoints   {url}/api/endpoints\n"
        f"  events      {url}/api/events\n"
        f"  readiness   {url}/health/ready\n"
        f"  liveness    {url}/health\n"
        f"  metrics     {url}/metrics\n"
        "Ctrl-C stops it; SIGHUP reloads the configuration.\n"
    )
    sys.stdout.flush()
