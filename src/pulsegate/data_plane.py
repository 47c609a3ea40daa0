"""Wires the data plane to a running control process: the listening address, the workers, and what they are told."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial

from pulsegate.assembly import encoded_setup
from pulsegate.config import Config
from pulsegate.config.address import Listen
from pulsegate.control.hiring import hire_process
from pulsegate.control.publish import LatestSnapshot
from pulsegate.control.succession import INHERIT_S, Succession
from pulsegate.control.workforce import END_GRACE_S, Hiring, Workforce
from pulsegate.control_plane import Control, Parts
from pulsegate.export.traffic import TrafficSeries
from pulsegate.export.workers import WorkerNews
from pulsegate.outlook import inform
from pulsegate.status.server import AddressInUseError, ListenError, base_url, listen

ACQUAINTANCE_S = 10.0  # how long orphans go on serving while we take our first tokens; then we serve what there is
SETTLE_S = 3.0  # how long users wait at most for what other gateways know already


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
