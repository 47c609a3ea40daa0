"""Runs the whole of ``pulsegate serve``: starts both planes, reloads them, stops them."""

import asyncio
import resource
import sys
from collections.abc import Callable
from random import Random

import uvloop
from structlog.typing import FilteringBoundLogger

from pulsegate import __version__
from pulsegate.assembly import encoded_setup
from pulsegate.billing import as_it_runs, cost_policy, price_probes, refuses
from pulsegate.config import Config, ConfigError
from pulsegate.control.clock import SystemClock
from pulsegate.control.collector import calm_collector
from pulsegate.control_plane import Control, Parts, run_control
from pulsegate.core.fleet import Fleet
from pulsegate.data_plane import DataPlane, run_gateway
from pulsegate.export.logs import LogFormat, open_log
from pulsegate.outlook import look_out
from pulsegate.signals import Signals
from pulsegate.status.server import ListenError

__all__ = ["Control", "ListenError", "LogFormat", "Parts", "run_control", "run_gateway", "serve"]

FILES_PER_ENDPOINT = 2  # a probe and a reading of counters at the same time
SPARE_FILES = 256
GC_THRESHOLD = 10_000  # objects: above what the probes of thousands of endpoints have in flight

Reload = Callable[[], Config]
"""Reads the configuration anew; raises ConfigError."""


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
