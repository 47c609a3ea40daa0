"""The worker's only timer, on virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pulsegate.core.ids import EndpointId
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Seat
from pulsegate.gateway.access import AccessLog
from pulsegate.gateway.context import Context
from pulsegate.gateway.counters import Counters
from pulsegate.gateway.roster import Roster
from pulsegate.gateway.sweeper import TURN_S, Sweeper
from support.gateways import Heard, pool, setup_of
from support.virtual_time import VirtualClock, VirtualTimeLoop, run_virtual


class Waiting:
    """A request with a deadline."""

    def __init__(self, due_at: float, *, breaks: bool = False) -> None:
        self.due_at = due_at
        self.breaks = breaks
        self.started_at = 0.0
        self.called: list[float] = []
        self.crashed = False

    def due(self, now: float) -> None:
        self.called.append(round(now, 3))
        self.due_at = float("inf")
        if self.breaks:
            raise RuntimeError("broken")

    def crash(self) -> None:
        self.crashed = True

    def budget_freed(self, now: float) -> None: ...

    def endpoints_changed(self, ejected: list[Seat], suspect: list[Seat], now: float) -> None: ...

    def client_gone(self) -> None: ...


class Room:
    """A sweeper over one endpoint, with all that it looks at."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop = loop
        clock = VirtualClock(loop)
        counters = Counters()
        roster = Roster(counters, now=clock.now, spawn=lambda work: work.close())
        setup = setup_of(pool(1))
        roster.configure(setup)
        self.heard = Heard()
        self.context = Context(
            now=clock.now,
            wall=clock.wall,
            random=lambda: 0.5,
            new_id=lambda: b"id",
            setup=setup,
            roster=roster,
            counters=counters,
            budget=RetryBudget(),
            keys=None,
            access=AccessLog(None),
            alarm=lambda: None,
            pump=lambda: None,
            started_at=0.0,
        )
        self.sweeper = Sweeper(self.context, (), self.heard)
        self.sweeper.start(loop)
        self.backend = roster.backends[EndpointId("e1")]

    def told(self, what: str) -> list[float]:
        """When reports told of it."""
        return [round(report.at, 2) for report in self.heard.seen if getattr(report, what)]


def in_room(story: Callable[[Room, Callable[[float], Awaitable[None]]], Awaitable[None]]) -> Room:
    async def play(loop: VirtualTimeLoop) -> Room:
        room = Room(loop)
        await story(room, VirtualClock(loop).sleep)
        room.sweeper.stop()
        return room

    return run_virtual(play)


def test_deadlines_are_met_within_a_turn() -> None:
    early, late = Waiting(0.31), Waiting(2.0)

    async def story(room: Room, sleep: Any) -> None:
        room.context.live |= {early, late}
        await sleep(1.0)

    in_room(story)
    assert (early.called, late.called) == ([0.35], [])


def test_a_request_that_breaks_does_not_hold_up_others() -> None:
    bad, good = Waiting(0.1, breaks=True), Waiting(0.1)
    told: list[str] = []

    async def story(room: Room, sleep: Any) -> None:
        room.loop.set_exception_handler(lambda _, context: told.append(str(context["exception"])))
        room.context.live |= {bad, good}
        await sleep(0.2)

    in_room(story)
    assert (bad.crashed, good.crashed, len(good.called)) == (True, False, 1)
    assert told == ["broken"]


def test_after_a_standstill_of_ours_nobody_is_late_before_what_came_is_read() -> None:
    waiting = Waiting(0.5)

    async def story(room: Room, sleep: Any) -> None:
        room.context.live.add(waiting)
        await sleep(0.2)
        room.loop.stall(1.0)
        await sleep(0)
        await sleep(0)
        waiting.due_at = 5.0  # its token was in the sockets all the while
        await sleep(1.0)

    in_room(story)
    assert waiting.called == []


def test_users_who_wait_are_told_of_ever_more_rarely() -> None:
    async def story(room: Room, sleep: Any) -> None:
        await sleep(1.0)
        room.backend.seat.inflight = 1
        room.backend.counters.busy_since = 1.0
        await sleep(20.0)
        room.backend.counters.sign_at = 21.0
        await sleep(0.3)
        room.backend.counters.sign_at = 21.3
        await sleep(1.0)
        room.backend.seat.inflight = 0
        await sleep(20.0)

    told = in_room(story).told("stalls")
    assert told == pytest.approx([1.5, 2.5, 4.5, 8.5, 16.5, 21.8], abs=5 * TURN_S)


def test_an_endpoint_that_gives_signs_is_not_suspected() -> None:
    async def story(room: Room, sleep: Any) -> None:
        room.backend.seat.inflight = 1
        for _ in range(100):
            await sleep(0.2)
            room.backend.counters.sign_at = room.loop.time()

    assert in_room(story).told("stalls") == []


def test_tokens_are_reported_in_batches_and_failures_at_once() -> None:
    async def story(room: Room, sleep: Any) -> None:
        await sleep(0.01)
        for _ in range(20):
            room.backend.counters.tokens += 1
            await sleep(0.01)
        await sleep(0.11)
        room.backend.counters.failed("closed", evidence=True)
        room.sweeper.report_soon()
        await sleep(0.001)
        room.backend.counters.failed("overload", evidence=False)
        await sleep(1.0)

    room = in_room(story)
    assert len(room.told("tokens")) <= 3
    assert room.heard.total("tokens") == 20
    assert room.told("failures") == [0.32]
    assert TURN_S == 0.05


def test_requests_that_come_and_go_without_a_token_are_told_too() -> None:
    async def story(room: Room, sleep: Any) -> None:
        await sleep(1.0)
        room.backend.seat.inflight = 2
        room.backend.counters.busy_since = 1.0
        await sleep(0.3)
        room.backend.seat.inflight = 0
        await sleep(1.0)

    seen = in_room(story).heard.seen
    assert [(report.inflight, report.tokens, report.stalls) for report in seen] == [(2, 0, 0), (0, 0, 0)]
