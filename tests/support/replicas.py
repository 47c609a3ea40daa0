"""Several gateways over one fleet on virtual time: real boards, probers and fellowships, one meeting in memory.

Every replica sees every engine through its own eyes: ``World.unreachable`` cuts some of them off from some engines.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pulsegate.control.audience import Audience
from pulsegate.control.coordination import View
from pulsegate.control.fellowship import Fellowship
from pulsegate.control.prober import Prober
from pulsegate.control.publish import LatestSnapshot
from pulsegate.control.selfcheck import LoopLag
from pulsegate.coordination.memory import Meeting, MemoryCoordinator
from pulsegate.core.board import Board
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, MemberId
from pulsegate.core.probe import Counters, Fault, FaultClass, ProbeAsk, ProbeResult
from pulsegate.core.sharding import Mode
from pulsegate.core.snapshot import EndpointView
from support.fake_engine import FAST, Answer, FakeEngine
from support.virtual_time import VirtualClock, VirtualTimeLoop, run_virtual
from support.watching import Diary

CUT_OFF = Answer(after_s=0.4, fault=Fault(kind=FaultClass.UNREACHABLE, detail="no route to host"))


@dataclass(slots=True)
class World:
    """The engines, and what stands between them and the gateways. ``probes``: (when, by whom, of whom)."""

    scripts: dict[str, Callable[[float], Answer]] = field(default_factory=dict)
    unreachable: set[tuple[str, str]] = field(default_factory=set)
    probes: list[tuple[float, str, str]] = field(default_factory=list)

    def opener(self, member: str) -> Callable[[EndpointSpec], "Eyes"]:
        return lambda spec: Eyes(self, member, spec.id)

    def most_per(self, interval_s: float, since: float, until: float) -> int:
        """The most probes that any endpoint got within one interval that begins with a probe."""
        times: dict[str, list[float]] = {}
        for at, _, endpoint in self.probes:
            if since <= at < until:
                times.setdefault(endpoint, []).append(at)
        return max(
            sum(1 for other in of_one if at <= other < at + interval_s) for of_one in times.values() for at in of_one
        )

    def count_of(self, endpoint: str, since: float, until: float) -> int:
        return sum(1 for at, _, one in self.probes if one == endpoint and since <= at < until)

    def by_member(self, since: float, until: float) -> Counter[str]:
        return Counter(member for at, member, _ in self.probes if since <= at < until)

    def count(self, since: float, until: float) -> int:
        return sum(1 for at, _, _ in self.probes if since <= at < until)


class Eyes:
    """One gateway's ``Engine`` for one endpoint."""

    def __init__(self, world: World, member: str, endpoint: str) -> None:
        self._world = world
        self._pair = (member, endpoint)
        self._engine = FakeEngine(self._script)

    def _script(self, at: float) -> Answer:
        if self._pair in self._world.unreachable:
            return CUT_OFF
        return self._world.scripts.get(self._pair[1], lambda _at: FAST)(at)

    async def probe(self, ask: ProbeAsk) -> ProbeResult:
        self._world.probes.append((asyncio.get_running_loop().time(), *self._pair))
        return await self._engine.probe(ask)

    async def counters(self, deadline_s: float) -> Counters | None:
        return await self._engine.counters(deadline_s)

    async def close(self) -> None:
        await self._engine.close()


@dataclass(slots=True)
class News:
    """A ``FellowshipObserver`` that keeps what it is told."""

    said: list[str] = field(default_factory=list)
    misread: list[str] = field(default_factory=list)

    def joined(self, view: View) -> None:
        self.said.append(f"joined {len(view.members)}")

    def members_changed(self, view: View) -> None:
        self.said.append(f"members {len(view.members)}")

    def parted(self, why: str) -> None:
        self.said.append(f"parted: {why}")

    def dealt(self, gained: int, lost: int, owned: int) -> None:
        self.said.append(f"dealt +{gained} -{lost} = {owned}")

    def misunderstood(self, what: str) -> None:
        self.misread.append(what)


@dataclass(slots=True, kw_only=True)
class Replica:
    """One gateway's control plane."""

    name: MemberId
    board: Board
    prober: Prober
    fellowship: Fellowship
    diary: Diary
    news: News
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def state(self, endpoint: str) -> tuple[State, Reason]:
        status = self.board.status(EndpointId(endpoint))
        assert status is not None
        return status.state, status.reason

    def view(self, endpoint: str) -> EndpointView:
        return next(view for pool in self.board.snapshot.pools for view in pool.endpoints if view.id == endpoint)

    def became(self, endpoint: str, state: State, since: float) -> float | None:
        """When it first became that, for this replica."""
        return next((at for at, new, _ in self.diary.states(endpoint) if new is state and at >= since), None)


class Replicas:
    """All gateways of a play."""

    def __init__(self, loop: VirtualTimeLoop, fleet: Fleet, world: World, mode: Mode, group: asyncio.TaskGroup) -> None:
        self.loop = loop
        self.world = world
        self.meeting = Meeting()
        self.all: dict[str, Replica] = {}
        self._fleet = fleet
        self._mode = mode
        self._group = group

    async def start(self, name: str) -> Replica:
        """One more gateway."""
        clock, me = VirtualClock(self.loop), MemberId(name)
        board, diary, news = Board(Random(len(self.all)), shared=True), Diary(), News()
        fellowship = Fellowship(
            me,
            self._mode,
            MemoryCoordinator(self.meeting, me),
            board=board,
            clock=clock,
            timers=self.loop,
            observer=news,
        )
        audience = Audience(
            publisher=LatestSnapshot(),
            crashes=diary,
            observers=(diary, fellowship),
            probe_observers=(diary, fellowship),
        )
        prober = Prober(
            board=board,
            open_engine=self.world.opener(name),
            audience=audience,
            clock=clock,
            timers=self.loop,
            lag=LoopLag(clock, self.loop),
        )
        replica = Replica(name=me, board=board, prober=prober, fellowship=fellowship, diary=diary, news=news)
        replica.tasks = [self._group.create_task(prober.run(self._fleet))]
        await asyncio.sleep(0)
        replica.tasks.append(self._group.create_task(fellowship.run(prober.tell)))
        self.all[name] = replica
        return replica

    async def kill(self, name: str, *, noticed_after_s: float = 3.0) -> None:
        """It is gone at once; the others hear of it when its time to live is over."""
        replica, meeting = self.all.pop(name), self.meeting
        leave = meeting.leave
        meeting.leave = lambda _member: None  # type: ignore[method-assign] - nobody says goodbye
        for task in replica.tasks:
            task.cancel()
        await asyncio.wait(replica.tasks)
        meeting.leave = leave  # type: ignore[method-assign]
        self.loop.call_later(noticed_after_s, leave, replica.name)

    def lose_backend(self) -> None:
        """Nobody can reach anybody."""
        for replica in self.all.values():
            replica.fellowship.parted("the backend is gone")
        for replica in self.all.values():
            self.meeting.leave(replica.name)

    def find_backend(self) -> None:
        """It is back; who was there comes back one by one, and what was kept is lost."""
        self.meeting.forget()
        for number, replica in enumerate(self.all.values()):
            self.loop.call_later(0.5 * number, self.meeting.enter, replica.name, replica.fellowship)


def play(
    fleet: Fleet,
    act: Callable[[Replicas], Awaitable[Any]],
    *,
    world: World | None = None,
    mode: Mode = Mode.SHARD,
) -> None:
    """Run ``act`` with gateways that it starts."""

    async def main(loop: VirtualTimeLoop) -> None:
        async with asyncio.TaskGroup() as group:
            replicas = Replicas(loop, fleet, world or World(), mode, group)
            await act(replicas)
            for replica in replicas.all.values():
                assert replica.diary.crashes == []
                for task in replica.tasks:
                    task.cancel()

    run_virtual(main)
