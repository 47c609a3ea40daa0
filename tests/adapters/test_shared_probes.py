"""Several ``pulsegate serve`` over the same engines and a real redis-server."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pulsegate.sim import SimServer
from support.gateways import until
from support.redis_server import RedisServer
from support.service import PATIENCE_S, Service, chat, configured, engine, engines, service

SECRET = "s3cret-of-redis"
ENGINES = 8
BROKEN = "[{match: {path: gen}, do: [{error: 'CUDA error: an illegal memory access was encountered'}]}]"


def document(sims: SimServer, redis: RedisServer, **more: Any) -> dict[str, Any]:
    url = f"redis://127.0.0.1:{redis.port}"
    coordination = {"backend": "redis", "url": url, "password": SECRET, "heartbeat": "300ms", "member_timeout": "1s"}
    return configured(*(sims.url(n) for n in range(ENGINES)), coordination={**coordination, **more})


@asynccontextmanager
async def fellows(
    tmp_path: Path, count: int, **more: Any
) -> AsyncIterator[tuple[SimServer, RedisServer, list[Service]]]:
    redis = RedisServer(tmp_path, ("--requirepass", SECRET))
    async with engines(*(engine() for _ in range(ENGINES))) as sims, AsyncExitStack() as stack:
        await redis.start()
        stack.callback(redis.stop)
        running = []
        for number in range(count):
            folder = tmp_path / f"g{number}"
            folder.mkdir()
            running.append(await stack.enter_async_context(service(folder, document(sims, redis, **more))))
        yield sims, redis, running


async def coordination(one: Service) -> dict[str, Any]:
    return (await one.ask_admin("/api/coordination")).json


async def states(one: Service) -> dict[str, str]:
    return {row["id"]: row["state"] for row in await one.endpoints()}


async def eventually(check: Any, patience_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not await check():  # noqa: ASYNC110 - what is waited for is another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", ["shard", "leader"])
async def test_every_gateway_knows_everything_and_each_engine_is_asked_by_one(tmp_path: Path, mode: str) -> None:
    async with fellows(tmp_path, 3, mode=mode) as (sims, _, running):
        told = [await coordination(one) for one in running]
        assert {(one["state"], one["mode"], one["epoch"], tuple(one["members"])) for one in told} == {
            ("joined", mode, 3, tuple(told[0]["members"]))
        }
        assert sum(one["owned"] for one in told) == ENGINES
        assert min(one["owned"] for one in told) == 0, "eight endpoints are two groups, or one leader's"
        owners = [{row["id"]: row["owner"] for row in await one.endpoints()} for one in running]
        assert owners[0] == owners[1] == owners[2]

        before = [one.counters.probes for one in sims.engines]
        await asyncio.sleep(7.5)  # three intervals
        taken = [one.counters.probes - old for one, old in zip(sims.engines, before, strict=True)]
        assert all(2 <= count <= 4 for count in taken), taken

        sims.engine(3).set_script(BROKEN)
        await eventually(lambda: all_see(running, "e3", "unhealthy"))
        for one in running:
            replies = [await one.ask(chat()) for _ in range(10)]
            assert {reply.status for reply in replies} == {200}
            assert SECRET not in one.errors + str(one.lines)
            assert await one.metric("pulsegate_coordination_members") == 3
        assert sum([await one.metric("pulsegate_owned_endpoints") for one in running]) == ENGINES


async def all_see(running: list[Service], endpoint: str, state: str) -> bool:
    return all([(await states(one))[endpoint] == state for one in running])


async def test_a_gateway_that_dies_is_replaced(tmp_path: Path) -> None:
    async with fellows(tmp_path, 2) as (sims, _, [first, second]):
        mine = (await coordination(second))["owned"]
        first.kill()

        async def took_over() -> bool:
            told = await coordination(second)
            return len(told["members"]) == 1 and told["owned"] == ENGINES > mine - 1

        await eventually(took_over, 5)
        before = [one.counters.probes for one in sims.engines]
        await until(lambda: all(one.counters.probes > old for one, old in zip(sims.engines, before, strict=True)))
        assert set((await states(second)).values()) == {"healthy"}


async def test_a_gateway_that_was_stopped_comes_back_and_says_nothing_stale(tmp_path: Path) -> None:
    async with fellows(tmp_path, 2) as (sims, _, [first, second]):
        os.kill(first.pid, signal.SIGSTOP)
        try:

            async def alone() -> bool:
                return len((await coordination(second))["members"]) == 1

            await eventually(alone, 5)
            sims.engine(0).set_script(BROKEN)
            await eventually(lambda: all_see([second], "e0", "unhealthy"))
        finally:
            os.kill(first.pid, signal.SIGCONT)
        await first.log("other gateways cannot be reached, everything is probed from here")
        await first.log("joined the other gateways", 2)
        await eventually(lambda: all_see([first, second], "e0", "unhealthy"))
        changes = [line for line in second.logged("endpoint changed") if line["endpoint"] == "e0"]
        assert [line["new"] for line in changes].count("unhealthy") == 1, changes


async def test_without_redis_both_go_on_and_say_so(tmp_path: Path) -> None:
    async with fellows(tmp_path, 2) as (sims, redis, running):
        redis.kill()

        async def told(one: Service, status: str) -> bool:
            said = (await one.ask(path="/health/ready", method="GET")).json
            return said["status"] == status and ("other gateways cannot be reached" in said["detail"]) == (
                status == "degraded"
            )

        for one in running:
            await eventually(lambda one=one: told(one, "degraded"), 10)
            assert (await one.ask(chat())).status == 200
            assert (await coordination(one))["state"] == "parted"
        sims.engine(5).set_script(BROKEN)
        await eventually(lambda: all_see(running, "e5", "unhealthy"))
        await redis.start()
        for one in running:
            await eventually(lambda one=one: told(one, "ready"), 15)
        members = [(await coordination(one))["members"] for one in running]
        assert [len(one) for one in members] == [2, 2]


async def test_a_redis_that_was_never_there_does_not_keep_a_gateway_from_serving(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path)
    async with engines(*(engine() for _ in range(ENGINES))) as sims:
        folder = tmp_path / "g"
        folder.mkdir()
        run = Service(folder, document(sims, redis))
        try:
            await run.serving()
            await eventually(lambda: all_see([run], "e0", "healthy"))
            assert (await run.ask(chat())).status == 200
            assert (await coordination(run))["state"] == "parted"
            assert SECRET not in run.errors + str(run.lines)
        finally:
            run.clear_away()
