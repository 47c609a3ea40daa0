"""Who is started when, who is told what, who is believed: on made-up time, with workers that are no processes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from pulsegate.control.link import Drained, DrainNow, Figures, LinkError, NewSetup, Traffic
from pulsegate.control.workforce import Hiring, Workforce
from pulsegate.core.events import Event, TrafficSeen
from pulsegate.core.figures import nothing
from pulsegate.core.ids import EndpointId
from pulsegate.core.snapshot import Snapshot
from support.fake_workers import FakeHire, Noted
from support.virtual_time import VirtualClock, VirtualTimeLoop, run_virtual

GOOD, BETTER, BAD = b"good", b"better", b"bad"


class Shop:
    """A workforce and everybody around it."""

    def __init__(self, hire: FakeHire, loop: VirtualTimeLoop, *, count: int = 1, setup: bytes = GOOD) -> None:
        self.hire = hire
        self.noted = Noted()
        self.told: list[Event] = []
        hiring = Hiring(hire=hire, count=count, drain_timeout_s=30.0)
        self.force = Workforce(hiring, setup, tell=self.told.append, observer=self.noted, clock=VirtualClock(loop))


def play(hire: FakeHire, acts: Callable[[Shop], Awaitable[None]], *, count: int = 1, setup: bytes = GOOD) -> Shop:
    """Run a workforce while ``acts`` runs, then drain it."""

    async def main(loop: VirtualTimeLoop) -> Shop:
        shop = Shop(hire, loop, count=count, setup=setup)
        async with asyncio.TaskGroup() as group:
            group.create_task(shop.force.run())
            await acts(shop)
            shop.force.drain()
        return shop

    return run_virtual(main)


def table(version: int) -> Snapshot:
    return Snapshot(version=version, pools=())


def refuses_bad(setup: bytes) -> str | None:
    return "no such file" if setup == BAD else None


async def ready(shop: Shop) -> None:
    await shop.force.ready()


def test_workers_that_die_early_come_back_ever_more_slowly_and_proven_ones_at_once() -> None:
    async def acts(shop: Shop) -> None:
        await shop.force.ready()
        await asyncio.sleep(60)

    lives = [1, 1, 1, 1, 1, 1, 1, 1, 11]
    hire = FakeHire(*lives)
    shop = play(hire, acts)
    waits = [
        round(later - earlier - life, 3)
        for earlier, later, life in zip(hire.times, hire.times[1:], lives, strict=False)
    ]
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 0.0]
    assert shop.noted.lines[:4] == ["0 ready", "0 gone", "0 died with -11 after 1.0 s", "0 ready"]
    assert shop.noted.lines[-1] == "0 gone"


def test_a_new_worker_is_told_the_latest_of_everything() -> None:
    async def acts(shop: Shop) -> None:
        await shop.force.ready()
        for version in (1, 2, 3):
            shop.force.offer(table(version))
        shop.force.reconfigure(BETTER)
        await asyncio.sleep(12)

    hire = FakeHire(11)
    play(hire, acts)
    [first, second] = [worker for _, worker in hire.hired]
    assert (first.setups(), first.snapshots()) == ([GOOD, BETTER], [1, 2, 3])
    assert (second.setups(), second.snapshots()) == ([BETTER], [3])
    assert isinstance(second.got[0], NewSetup)


def test_all_workers_are_told() -> None:
    async def acts(shop: Shop) -> None:
        await asyncio.sleep(1)
        shop.force.offer(table(7))
        await asyncio.sleep(1)

    hire = FakeHire()
    play(hire, acts, count=3)
    assert [worker.snapshots() for _, worker in hire.hired] == [[7]] * 3
    assert [worker.got[-1] for _, worker in hire.hired] == [DrainNow(30.0)] * 3


def test_a_first_setup_that_is_refused_is_told_to_who_waits() -> None:
    async def acts(shop: Shop) -> None:
        with pytest.raises(ValueError, match="no such file"):
            await shop.force.ready()

    play(FakeHire(refuses=refuses_bad), acts, setup=BAD)


def test_a_worker_that_dies_before_it_serves_is_told_to_who_waits() -> None:
    async def acts(shop: Shop) -> None:
        with pytest.raises(ValueError, match="ended with status -11 before it served"):
            await shop.force.ready()

    play(FakeHire(1, mute=True), acts)


def test_a_worker_that_is_killed_before_it_serves_is_started_again() -> None:
    hire = FakeHire(mute=True)

    async def acts(shop: Shop) -> None:
        await asyncio.sleep(1)
        hire.mute = False
        hire.last.kill()
        await shop.force.ready()

    shop = play(hire, acts)
    assert hire.times == [0.0, 1.1]
    assert shop.noted.lines[:3] == ["0 gone", "0 died with -9 after 1.0 s", "0 ready"]


def test_a_machine_that_cannot_start_it_is_told_and_tried_again() -> None:
    async def acts(shop: Shop) -> None:
        with pytest.raises(ValueError, match=r"cannot be started.*Resource temporarily"):
            await shop.force.ready()
        await asyncio.sleep(11)

    hire = FakeHire()
    hire.failing = 2
    shop = play(hire, acts)
    assert hire.times == [10.0]
    assert shop.noted.lines[0].startswith("0 not started: ")
    assert shop.noted.lines[-2:] == ["0 ready", "0 gone"]


def test_a_later_setup_that_is_refused_is_not_given_to_newcomers() -> None:
    async def acts(shop: Shop) -> None:
        await shop.force.ready()
        shop.force.reconfigure(BAD)
        await asyncio.sleep(12)
        shop.force.reconfigure(BETTER)
        await asyncio.sleep(1)

    hire = FakeHire(11, refuses=refuses_bad)
    shop = play(hire, acts)
    assert [worker.setups() for _, worker in hire.hired] == [[GOOD, BAD], [GOOD, BETTER]]
    assert "0 refused: no such file" in shop.noted.lines
    assert not any("died with 3" in line for line in shop.noted.lines)


def test_what_workers_saw_reaches_the_board_and_the_observer() -> None:
    seen = [TrafficSeen(at=1.0, endpoint=EndpointId(name), tokens=3) for name in "ab"]

    async def acts(shop: Shop) -> None:
        await shop.force.ready()
        shop.hire.last.say(Traffic(seen))
        shop.hire.last.say(Figures(nothing()))

    shop = play(FakeHire(), acts)
    assert shop.told == seen
    assert shop.noted.figures == [(0, nothing())]


def test_requests_in_flight_are_those_of_all_workers_that_live() -> None:
    def holds(worker: int, inflight: int) -> None:
        seen = TrafficSeen(at=1.0, endpoint=EndpointId("a"), tokens=1, inflight=inflight)
        shop_hire.hired[worker][1].say(Traffic([seen]))

    async def acts(shop: Shop) -> None:
        await shop.force.ready()
        holds(0, 3)
        holds(1, 4)
        holds(0, 2)
        await asyncio.sleep(5)  # the first one dies meanwhile
        holds(1, 5)

    shop_hire = FakeHire(2)
    shop = play(shop_hire, acts, count=2)
    seen = [(one.tokens, one.inflight) for one in shop.told if isinstance(one, TrafficSeen)]
    assert seen == [(1, 3), (1, 7), (1, 6), (0, 4), (1, 5), (0, 0)]


def test_a_worker_does_not_give_orders() -> None:
    async def acts(shop: Shop) -> None:
        await shop.force.ready()
        with pytest.raises(LinkError, match="NewSetup"):
            shop.hire.last.say(NewSetup(GOOD))

    play(FakeHire(), acts)


def test_a_drain_ends_the_wait_for_the_next_worker() -> None:
    async def main(loop: VirtualTimeLoop) -> float:
        hire = FakeHire(*[0.5] * 20)
        shop = Shop(hire, loop)
        async with asyncio.TaskGroup() as group:
            group.create_task(shop.force.run())
            await shop.force.ready()
            while len(hire.hired) < 8:  # noqa: ASYNC110 - time is made up here
                await asyncio.sleep(0.1)
            await asyncio.sleep(1)  # the next comes in 5 s
            before = loop.time()
            shop.force.drain()
        return loop.time() - before

    assert run_virtual(main) == 0.0


def test_who_is_not_waited_for_any_more_is_killed() -> None:
    async def main(loop: VirtualTimeLoop) -> bool:
        hire = FakeHire()
        shop = Shop(hire, loop)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(shop.force.run())
            await shop.force.ready()
            running.cancel()
        return hire.last.killed

    assert run_virtual(main)


def test_what_was_cut_is_what_workers_say_last_or_had_when_they_were_killed() -> None:
    async def main(loop: VirtualTimeLoop) -> int:
        hire = FakeHire()
        shop = Shop(hire, loop, count=2)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(shop.force.run())
            await shop.force.ready()
            await asyncio.sleep(1)
            (_, one), (_, other) = hire.hired
            one.say(Figures(replace(nothing(), in_flight=40)))
            other.say(Figures(replace(nothing(), in_flight=5)))
            one.answers_drains = other.answers_drains = False
            shop.force.drain()
            one.say(Drained(3))
            one.end(0)
            await asyncio.sleep(1)
            assert shop.force.cut == 3
            running.cancel()
        return shop.force.cut

    assert run_virtual(main) == 3 + 5


def test_requests_of_a_worker_that_dies_before_the_end_are_not_counted_as_cut_by_it() -> None:
    async def acts(shop: Shop) -> None:
        await shop.force.ready()
        shop.hire.last.say(Figures(replace(nothing(), in_flight=7)))
        shop.hire.last.end(-11)
        await asyncio.sleep(1)

    assert play(FakeHire(), acts).force.cut == 0
