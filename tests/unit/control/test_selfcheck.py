import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from pulsegate.control.selfcheck import BEAT_S, LoopLag
from support.virtual_time import VirtualClock, VirtualTimeLoop, run_virtual

Scene = Callable[[VirtualTimeLoop, VirtualClock, LoopLag], Coroutine[Any, Any, Any]]


def play(scene: Scene) -> Any:
    async def main(loop: VirtualTimeLoop) -> Any:
        clock = VirtualClock(loop)
        lag = LoopLag(clock, loop)
        lag.enter()
        try:
            return await scene(loop, clock, lag)
        finally:
            lag.stop()

    return run_virtual(main)


def test_a_loop_that_is_never_late_shows_no_lag() -> None:
    async def scene(loop: VirtualTimeLoop, clock: VirtualClock, lag: LoopLag) -> float:
        await asyncio.sleep(60)
        return lag.since(0.0)

    assert play(scene) == 0.0


def test_a_stall_is_measured_within_one_beat() -> None:
    async def scene(loop: VirtualTimeLoop, clock: VirtualClock, lag: LoopLag) -> float:
        await asyncio.sleep(1.005)
        loop.stall(0.5)
        await asyncio.sleep(1)
        return lag.since(0.0)

    assert 0.499 - BEAT_S <= play(scene) <= 0.5


def test_a_stall_counts_before_the_heartbeat_had_a_chance_to_see_it() -> None:
    async def scene(loop: VirtualTimeLoop, clock: VirtualClock, lag: LoopLag) -> float:
        await asyncio.sleep(1)
        loop.stall(0.5)
        return lag.since(loop.time())

    assert 0.499 - BEAT_S <= play(scene) <= 0.5


def test_a_stall_that_ended_before_the_probe_began_is_not_held_against_it() -> None:
    async def scene(loop: VirtualTimeLoop, clock: VirtualClock, lag: LoopLag) -> list[bool]:
        await asyncio.sleep(1)
        loop.stall(0.5)
        await asyncio.sleep(0.1)
        return [lag.since(1.0) > 0, lag.since(1.59) > 0]

    assert play(scene) == [True, False]


def test_the_time_in_which_the_machine_slept_is_a_stall() -> None:
    async def scene(loop: VirtualTimeLoop, clock: VirtualClock, lag: LoopLag) -> float:
        await asyncio.sleep(1)
        clock.suspend(3600)
        await asyncio.sleep(0.1)
        return lag.since(0.9)

    assert 3599 <= play(scene) <= 3600


def test_the_longest_stall_wins_and_old_ones_are_forgotten() -> None:
    async def scene(loop: VirtualTimeLoop, clock: VirtualClock, lag: LoopLag) -> list[float]:
        for stall_s in (0.1, 0.4, 0.2):
            loop.stall(stall_s)
            await asyncio.sleep(1)
        longest_s = lag.since(0.0)
        await asyncio.sleep(300)
        return [longest_s, lag.since(0.0)]

    longest_s, forgotten_s = play(scene)
    assert 0.379 <= longest_s <= 0.4
    assert forgotten_s == 0.0


def test_the_heart_rests_while_nobody_is_inside() -> None:
    async def main(loop: VirtualTimeLoop) -> tuple[int, float]:
        lag = LoopLag(VirtualClock(loop), loop)
        lag.enter()
        await asyncio.sleep(1)
        lag.leave()
        await asyncio.sleep(1)
        loop.stall(5)  # nobody's probe was under way
        await asyncio.sleep(1)
        timers = len(loop._scheduled)
        lag.enter()
        return timers, lag.since(0.0)

    assert run_virtual(main) == (0, 0.0)
