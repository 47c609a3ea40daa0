"""An engine that was put to sleep on purpose is told from a broken one, and is not used while it sleeps."""

import pytest

from pulsegate.core.fleet import EndpointSpec, EngineName
from pulsegate.core.ids import EndpointId, PoolName, PromptId
from pulsegate.core.probe import Ending, FaultClass, ProbeAsk, ProbeKind, ProbeResult
from pulsegate.engines.client import EngineClient
from pulsegate.engines.factory import open_engine
from support.fake_server import HANG, Reply, fake_server, page, stream, text

ASK = ProbeAsk(
    kind=ProbeKind.MICRO, prompt_id=PromptId("p1"), prompt="olive Paris", nonce="olive", max_tokens=1, deadline_s=0.4
)
TOKEN = stream('{"choices":[{"text":" is","finish_reason":"length"}]}', "[DONE]")
COMPLETIONS, SLEEPING = "POST /v1/completions", "GET /is_sleeping"
ASLEEP, AWAKE = page({"is_sleeping": True}), page({"is_sleeping": False})


def client_of(url: str, engine: EngineName = EngineName.VLLM) -> EngineClient:
    return open_engine(EndpointSpec(id=EndpointId("e"), pool=PoolName("p"), url=url, engine=engine, model="m"))


def kind_of(result: ProbeResult) -> FaultClass | None:
    return None if result.fault is None else result.fault.kind


@pytest.mark.parametrize("engine", [EngineName.VLLM, EngineName.LMDEPLOY])
@pytest.mark.parametrize("reply", [text("", 500), page({"error": "CUDA error: illegal memory access"}, 500)])
async def test_a_failure_while_asleep_is_sleep(engine: EngineName, reply: Reply):
    async with fake_server({COMPLETIONS: reply, SLEEPING: ASLEEP}) as server:
        client = client_of(server.url, engine)
        result = await client.probe(ASK)
        assert (kind_of(result), result.ending) == (FaultClass.SLEEPING, Ending.FAILED)
        assert kind_of(await client.probe(ASK)) is FaultClass.SLEEPING
        assert server.paths() == [COMPLETIONS, SLEEPING, SLEEPING]  # not used again while it sleeps
        server.routes |= {COMPLETIONS: TOKEN, SLEEPING: AWAKE}
        assert (await client.probe(ASK)).token_seen
        assert (await client.probe(ASK)).token_seen
        assert server.paths()[3:] == [SLEEPING, COMPLETIONS, COMPLETIONS]
        await client.close()


async def test_a_sleeping_engine_that_hangs_is_found_by_the_next_probe():
    async with fake_server({COMPLETIONS: HANG, SLEEPING: ASLEEP}) as server:
        client = client_of(server.url)
        first = await client.probe(ASK._replace(deadline_s=0.1))
        assert (first.ending, first.fault) == (Ending.DEADLINE, None)
        assert kind_of(await client.probe(ASK)) is FaultClass.SLEEPING
        await client.close()


@pytest.mark.parametrize("reply", [AWAKE, page([True]), page({"is_sleeping": "yes"}), text("", 500)])
async def test_a_failure_while_awake_stays_what_it_is(reply: Reply):
    async with fake_server({COMPLETIONS: page({"error": "CUDA error: x"}, 500), SLEEPING: reply}) as server:
        client = client_of(server.url)
        assert kind_of(await client.probe(ASK)) is FaultClass.CUDA
        await client.close()


async def test_without_that_page_it_is_asked_for_once():
    async with fake_server({COMPLETIONS: text("", 500)}) as server:
        client = client_of(server.url)
        for _ in range(3):
            assert kind_of(await client.probe(ASK)) is FaultClass.SERVER
        assert server.paths().count(SLEEPING) == 1
        await client.close()


async def test_a_page_that_hangs_leaves_time_for_the_probe():
    async with fake_server({COMPLETIONS: text("", 500), SLEEPING: HANG}) as server:
        client = client_of(server.url)
        await client.probe(ASK)
        server.routes[COMPLETIONS] = TOKEN
        assert (await client.probe(ASK)).token_seen
        await client.close()
