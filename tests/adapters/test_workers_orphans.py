"""Workers whose control process was killed: they go on, hand over to the next one, and do not live for ever."""

import asyncio
import json
from pathlib import Path

from support.gateways import under_way, until
from support.service import PATIENCE_S, chat, configured, engine, engines, is_dead, service, started
from support.users import users


async def test_requests_go_on_without_control_and_through_the_next_ones_start(tmp_path: Path) -> None:
    async with engines(engine(), engine()) as sims:
        document = configured(sims.url(0), sims.url(1))
        async with service(tmp_path, document) as first, users(first.port) as tally:
            [orphan] = first.workers()
            await until(lambda: tally.good > 50, patience_s=PATIENCE_S)
            first.kill()
            before = tally.good
            await until(lambda: tally.good > before + 50, patience_s=PATIENCE_S)
            assert not is_dead(orphan)

            address = f"127.0.0.1:{first.port}"
            async with service(tmp_path, {**document, "gateway": {"listen": address}}) as second:
                assert second.port == first.port
                await until(lambda: is_dead(orphan), patience_s=PATIENCE_S)
                before = tally.good
                await until(lambda: tally.good > before + 50, patience_s=PATIENCE_S)
                assert orphan not in second.workers()
                assert tally.bad == []
    [gone, succeeded] = [json.loads(line) for line in first.errors.splitlines()]
    assert (gone["level"], gone["pid"]) == ("warning", orphan)
    assert "control process is gone" in gone["event"]
    assert "new control process serves" in succeeded["event"]


async def test_an_orphan_ends_soon_after_its_last_stream(tmp_path: Path) -> None:
    async with engines(engine(itl_s=0.02)) as sims:
        document = configured(sims.url(0))
        async with service(tmp_path, document) as first:
            [orphan] = first.workers()
            async with under_way(first.ask(chat(tokens=150, stream=True))) as asking:
                await until(lambda: sims.engine().counters.open > 0)
                first.kill()
                address = f"127.0.0.1:{first.port}"
                async with service(tmp_path, {**document, "gateway": {"listen": address}}) as second:
                    assert second.workers()
                    reply = await asking
                    assert (reply.whole, reply.last_error) == (True, None)
                    await until(lambda: is_dead(orphan), patience_s=2)


async def test_a_living_control_process_keeps_its_address(tmp_path: Path) -> None:
    async with engines() as sims, service(tmp_path, configured(sims.url(0))) as first:
        address = f"127.0.0.1:{first.port}"
        folder = tmp_path / "second"
        folder.mkdir()
        with started(folder, configured(sims.url(0), gateway={"listen": address})) as second:
            assert await second.ended() == 3
            advice = "the address is in use; stop what listens there or choose another port"
            assert second.errors == f"pulsegate: gateway.listen: cannot listen on {address}: {advice}\n"
        assert (await first.ask(chat())).status == 200


async def test_several_orphans_all_go(tmp_path: Path) -> None:
    async with engines() as sims:
        document = configured(sims.url(0))
        async with service(tmp_path, document, "--workers", "3") as first:
            orphans = first.workers()
            assert len(orphans) == 3
            first.kill()
            async with service(tmp_path, {**document, "gateway": {"listen": f"127.0.0.1:{first.port}"}}) as second:
                await until(lambda: all(map(is_dead, orphans)), patience_s=PATIENCE_S)
                replies = await asyncio.gather(*(second.ask(chat()) for _ in range(20)))
                assert {reply.status for reply in replies} == {200}
