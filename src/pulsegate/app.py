"""The only place that knows everybody: wires adapters to the control process, runs it, reloads it, stops it."""

import asyncio
import contextlib
import gc
import resource
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from random import Random

import uvloop
from structlog.typing import FilteringBoundLogger

from pulsegate import __version__
from pulsegate.config import Config, ConfigError
from pulsegate.control.audience import Audience
from pulsegate.control.clock import SystemClock
from pulsegate.control.desk import Desk
from pulsegate.control.ports import Clock, EngineFactory, ProbeObserver
from pulsegate.control.prober import Prober
from pulsegate.control.publish import LatestSnapshot
from pulsegate.control.selfcheck import LoopLag
from pulsegate.core.board import Board
from pulsegate.core.fleet import Fleet
from pulsegate.engines.factory import open_engine
from pulsegate.export.logs import LogFormat, LogObserver, open_log
from pulsegate.export.metrics import Metrics
from pulsegate.export.scrape import page
from pulsegate.status.app import admin_app
from pulsegate.status.server import ListenError, base_url, listen, serving
from pulsegate.status.stream import EventHub

__all__ = ["Control", "ListenError", "LogFormat", "Parts", "run_control", "serve"]

FILES_PER_ENDPOINT = 2  # a probe and a reading of counters at the same time
SPARE_FILES = 256
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
    probe_observers: tuple[ProbeObserver, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A running control process: where it answers, what it knows, and how to change what it watches."""

    url: str
    board: Board
    desk: Desk
    snapshots: LatestSnapshot
    change: Callable[[Fleet], None]


@contextlib.asynccontextmanager
async def run_control(config: Config, parts: Parts) -> AsyncGenerator[Control]:
    """Probe the fleet of ``config`` and serve the admin API while the context is open.

    Raises:
        ListenError: the admin address cannot be listened on.
    """
    loop, clock = asyncio.get_running_loop(), parts.clock
    sock = listen(config.admin.listen.host, config.admin.listen.port, "admin.listen")
    board, metrics, hub, snapshots = Board(parts.rng), Metrics(__version__), EventHub(clock), LatestSnapshot()
    logs, lag = LogObserver(parts.log, clock), LoopLag(clock, loop)
    audience = Audience(
        publisher=snapshots,
        crashes=logs,
        observers=(logs, metrics, hub),
        probe_observers=(metrics, *parts.probe_observers),
    )
    prober = Prober(board=board, open_engine=parts.open_engine, audience=audience, clock=clock, timers=loop, lag=lag)
    desk = Desk(board, prober, clock)

    async def scrape() -> bytes:
        worst_s = lag.since(clock.now() - LAG_WINDOW_S)
        metrics.note_prober(lag_s=worst_s, snapshot_version=board.snapshot.version)
        return await page(metrics, desk.statuses())

    async with asyncio.TaskGroup() as group:
        probing = group.create_task(prober.run(config.fleet()))
        await asyncio.sleep(0)  # one turn, in which the board learns of the fleet
        async with serving(admin_app(desk, hub, scrape), sock):
            try:
                yield Control(url=base_url(sock), board=board, desk=desk, snapshots=snapshots, change=prober.change)
            finally:
                hub.close()
        probing.cancel()


def serve(config: Config, *, reload: Reload, log_format: LogFormat) -> int:
    """Run until SIGTERM or SIGINT; SIGHUP reloads. Returns the exit code.

    Raises:
        ListenError: the admin address cannot be listened on.
    """
    clock = SystemClock()
    parts = Parts(log=open_log(clock, log_format, sys.stdout), clock=clock, rng=Random())  # noqa: S311 - jitter
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, parts, reload, log_format))
    return 0


async def _serve(config: Config, parts: Parts, reload: Reload, log_format: LogFormat) -> None:
    stop, hang_up = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    _allow_files(config.fleet(), parts.log)
    try:
        async with run_control(config, parts) as control:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.set)
            loop.add_signal_handler(signal.SIGHUP, hang_up.set)
            _say_where_to_look(control.url, config, parts.log, log_format)
            gc.collect()
            gc.freeze()  # what is here now stays: no need to look at it again and again
            async with asyncio.TaskGroup() as group:
                reloading = group.create_task(_reload_on(hang_up, reload, config, control, parts.log))
                await stop.wait()
                reloading.cancel()
            parts.log.info("stopping")
    except* ListenError as errors:
        raise errors.exceptions[0] from None


async def _reload_on(
    hang_up: asyncio.Event, reload: Reload, config: Config, control: Control, log: FilteringBoundLogger
) -> None:
    """Take over a new configuration at each signal, if all of it is right; else keep the old one and say why."""
    while True:
        await hang_up.wait()
        hang_up.clear()
        try:
            new = await asyncio.to_thread(reload)  # in a thread: parsing a big file would hold up the probes
            control.change(new.fleet())
        except (ConfigError, ValueError) as exc:
            log.error("reload refused, the old configuration stays", problems=str(exc).splitlines())
            continue
        log.info("reloaded", endpoints=len(control.desk.ids()))
        for setting, old, wanted in (
            ("admin.listen", config.admin.listen, new.admin.listen),
            ("gateway.listen", config.gateway.listen, new.gateway.listen),
        ):
            if old != wanted:
                log.warning("takes effect at the next start", setting=setting, running=str(old), wanted=str(wanted))


def _allow_files(fleet: Fleet, log: FilteringBoundLogger) -> None:
    """Raise the soft limit of open files to what the fleet needs, and warn when the hard limit is below that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = SPARE_FILES + FILES_PER_ENDPOINT * sum(len(pool.endpoints) for pool in fleet.pools)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning("too few open files are allowed for this fleet", allowed=allowed, wanted=wanted, fix="ulimit -n")


def _say_where_to_look(url: str, config: Config, log: FilteringBoundLogger, log_format: LogFormat) -> None:
    fleet = config.fleet()
    endpoints = sum(len(pool.endpoints) for pool in fleet.pools)
    if log_format is LogFormat.JSON:
        log.info("watching", version=__version__, admin=url, pools=len(fleet.pools), endpoints=endpoints)
        return
    sys.stdout.write(
        f"Pulsegate {__version__} watches {endpoints} endpoint(s) in {len(fleet.pools)} pool(s) of {config.path}\n"
        f"  endpoints   {url}/api/endpoints\n"
        f"  events      {url}/api/events\n"
        f"  readiness   {url}/health/ready\n"
        f"  liveness    {url}/health\n"
        f"  metrics     {url}/metrics\n"
        "Ctrl-C stops it; SIGHUP reloads the configuration.\n"
    )
    sys.stdout.flush()
