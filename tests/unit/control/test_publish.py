import asyncio

from pulsegate.control.publish import LatestSnapshot
from pulsegate.core.snapshot import Snapshot
from support.virtual_time import VirtualTimeLoop, run_virtual


def test_a_slow_follower_gets_the_latest_and_only_that() -> None:
    async def main(loop: VirtualTimeLoop) -> list[tuple[float, int]]:
        snapshots, seen = LatestSnapshot(), []

        async def follow() -> None:
            version = 0
            while version < 5:
                version = (await snapshots.newer_than(version)).version
                seen.append((loop.time(), version))
                await asyncio.sleep(10)

        async with asyncio.TaskGroup() as group:
            group.create_task(follow())
            for version in range(1, 6):
                await asyncio.sleep(1)
                snapshots.offer(Snapshot(version=version, pools=()))
        return seen

    assert run_virtual(main) == [(1.0, 1), (11.0, 5)]
