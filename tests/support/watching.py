"""The real board and the real prober over fake engines on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pulsegate.control.audience import Audience
from pulsegate.control.prober import Prober
from pulsegate.control.publish import LatestSnapshot
from pulsegate.control.reports import ProbeReport
from pulsegate.control.selfcheck import LoopLag
from pulsegate.core.board import Board
from pulsegate.core.events import Alerted, Effect, Transitioned
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.health import Reason, State
from pulsegate.core.probe import Counters
from support.fake_engine import FakeFactory
from support.virtual_time import VirtualClock, VirtualTimeLoop, run_virtual


@dataclass(slots=True)
class Diary:
    """An ``Observer``, a ``ProbeObserver`` and a ``CrashObserver`` that writes everything down."""

    keep_reports: bool = True
    transitions: list[Transitioned] = field(default_factory=list)
    alerts: list[Alerted] = field(default_factory=list)
    reports: list[ProbeReport] = field(default_factory=list)
    readings: list[tuple[str, Counters | None]] = field(default_factory=list)
    fleets: list[Fleet] = field(default_factory=list)
    crashes: list[tuple[str, BaseException]] = field(default_factory=list)

    def saw(self, effect: Effect) -> None:
        if isinstance(effect, Transitioned):
            self.transitions.append(effect)
        elif isinstance(effect, Alerted):
            self.alerts.append(effect)

    def watching(self, fleet: Fleet) -> None:
        self.fleets.append(fleet)

    def probed(self, report: ProbeReport) -> None:
        if self.keep_reports:
            self.reports.append(report)

    def counted(self, spec: EndpointSpec, counters: Counters | None) -> None:
        self.readings.append((spec.id, counters))

    def crashed(self, what: str, exc: BaseException) -> None:
        self.crashes.append((what, exc))

    def states(self, endpoint: str) -> list[tuple[float, State, Reason]]:
        """When the endpoint became what, to the millisecond."""
        return [(round(one.at, 3), one.new, one.reason) for one in self.transitions if one.endpoint == endpoint]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)  # a day of probes makes a long repr
class Scene:
    """A prober at work."""

    loop: VirtualTimeLoop
    clock: VirtualClock
    board: Board
    prober: Prober
    factory: FakeFactory
    diary: Diary
    snapshots: LatestSnapshot

    def state(self, endpoint: str) -> tuple[State, Reason]:
        status = self.board.status(endpoint)  # type: ignore[arg-type]
        assert status is not None
        return status.state, status.reason


def watch(
    fleet: Fleet,
    factory: FakeFactory,
    play: Callable[[Scene], Awaitable[Any]],
    *,
    diary: Diary | None = None,
    seed: int = 1,
) -> Scene:
    """Watch ``fleet`` while ``play`` runs; returns the scene as it was at the end."""

    async def main(loop: VirtualTimeLoop) -> Scene:
        clock, board = VirtualClock(loop), Board(Random(seed))
        snapshots, notes = LatestSnapshot(), diary or Diary()
        audience = Audience(publisher=snapshots, crashes=notes, observers=(notes,), probe_observers=(notes,))
        prober = Prober(
            board=board,
            open_engine=factory,
            audience=audience,
            clock=clock,
            timers=loop,
            lag=LoopLag(clock, loop),
        )
        scene = Scene(
            loop=loop, clock=clock, board=board, prober=prober, factory=factory, diary=notes, snapshots=snapshots
        )
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(prober.run(fleet))
            await asyncio.sleep(0)
            await play(scene)
            probing.cancel()
        return scene

    return run_virtual(main)


def for_seconds(seconds: float) -> Callable[[Scene], Awaitable[None]]:
    async def play(_scene: Scene) -> None:
        await asyncio.sleep(seconds)

    return play
