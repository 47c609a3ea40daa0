"""Worker processes come, go and end: killed, told to drain, told twice, Ctrl-C, two of them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.gateways import Client, Reply, under_way, until
from support.service import PATIENCE_S, Service, chat, configured, engine, engines, is_dead, service

SLOWLY = 0.02  # seconds between two tokens


@asynccontextmanager
async def streaming(run: Service, tokens: int) -> AsyncIterator["asyncio.Task[Reply]"]:
    """A stream that has begun."""
    async with Client(run.port) as client, under_way(client.ask(chat(tokens=tokens, stream=True))) as asking:
        async with asyncio.timeout(PATIENCE_S):
            while await run.metric("pulsegate_requests_in_flight") < 1:  # noqa: ASYNC110 - it happens elsewhere
                await asyncio.sleep(0.05)
        yield asking


async def refuses(run: Service) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", run.port)
    except ConnectionRefusedError:
        return True
    writer.transport.abort()
    return False


async def test_a_killed_worker_is_replaced_and_nobody_who_comes_meanwhile_is_turned_away(tmp_path: Path) -> None:
    async with engines() as sims, service(tmp_path, configured(sims.url())) as run:
        for death in (1, 2):
            [victim] = run.workers()
            os.kill(victim, signal.SIGKILL)
            replies = await asyncio.gather(*(run.ask(chat(stream=stream)) for stream in (False, True) * 4))
            assert [(reply.status, reply.whole) for reply in replies] == [(200, True)] * 8
            assert (await run.log("worker died and is started again", death))["status"] == -signal.SIGKILL
            assert [pid for pid in run.workers() if pid != victim]
        assert await run.metric("pulsegate_worker_deaths_total") == 2


async def test_told_to_end_it_takes_nobody_new_and_lets_streams_finish(tmp_path: Path) -> None:
    async with engines(engine(itl_s=SLOWLY)) as sims, service(tmp_path, configured(sims.url())) as run:
        workers = run.workers()
        async with streaming(run, 150) as asking:
            run.signal(signal.SIGTERM)
            async with asyncio.timeout(PATIENCE_S):
                while not await refuses(run):  # noqa: ASYNC110 - it happens in another process
                    await asyncio.sleep(0.02)
            assert not asking.done()
            reply = await asking
            assert (reply.whole, reply.last_error) == (True, None)
        assert await run.ended() == 0
        assert all(map(is_dead, workers))
        assert run.errors == ""


async def test_streams_that_take_too_long_are_cut(tmp_path: Path) -> None:
    async with engines(engine(itl_s=SLOWLY)) as sims:
        document = configured(sims.url(), gateway={"drain_timeout": "1s"})
        async with service(tmp_path, document) as run, streaming(run, 100_000) as asking:
            run.signal(signal.SIGTERM)
            assert await run.ended(within_s=10) == 0
            assert not (await asking).whole
        assert (await run.log("stopping"))["why"] == "SIGTERM"
        stopped = await run.log("stopped")
        assert stopped["cut"] == 1
        assert 1.0 <= stopped["drain_s"] < 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_told_twice_it_waits_for_nobody(tmp_path: Path, number: int) -> None:
    async with engines(engine(itl_s=SLOWLY)) as sims, service(tmp_path, configured(sims.url())) as run:
        workers = run.workers()
        async with streaming(run, 100_000) as asking:
            run.signal(number)
            await run.log("stopping")
            run.signal(number)
            assert await run.ended(within_s=10) == 0
            assert not (await asking).whole
        assert all(map(is_dead, workers))


async def test_ctrl_c_reaches_the_control_process_alone(tmp_path: Path) -> None:
    async with engines(engine(itl_s=SLOWLY)) as sims, service(tmp_path, configured(sims.url())) as run:
        async with streaming(run, 100) as asking:
            run.interrupt()
            assert (await asking).whole
        assert await run.ended() == 0


async def test_two_workers_both_serve(tmp_path: Path) -> None:
    async with engines() as sims, service(tmp_path, configured(sims.url()), "--workers", "2") as run:
        workers = run.workers()
        assert len(workers) == 2
        for stopped in workers:
            os.kill(stopped, signal.SIGSTOP)
            replies = await asyncio.gather(*(run.ask(chat()) for _ in range(8)))
            os.kill(stopped, signal.SIGCONT)
            assert {reply.status for reply in replies} == {200}


async def test_a_worker_that_is_told_to_end_by_itself_is_replaced(tmp_path: Path) -> None:
    async with engines() as sims, service(tmp_path, configured(sims.url())) as run:
        [told] = run.workers()
        os.kill(told, signal.SIGINT)  # not its business
        os.kill(told, signal.SIGTERM)
        assert (await run.log("worker died and is started again"))["status"] == 0
        await until(lambda: len(run.workers()) == 1, patience_s=PATIENCE_S)
        assert (await run.ask(chat())).status == 200
