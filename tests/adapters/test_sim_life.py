"""Life and death of a simulated engine: load, freezing, crashes, starting, sleeping, clients that leave."""

import asyncio
import json

import pytest

from pulsegate.sim import EngineConfig, Load, Phase, SimServer, Spread
from support.sim_client import SimClient, ask, asking

QUIET_S = 0.4  # long enough for a busy machine to send what it is going to send
FAST = Load(ttft=Spread(median_s=0.001), itl_s=0.001)


def gauge(page: bytes, name: str) -> list[float]:
    return [float(line.rsplit(" ", 1)[1]) for line in page.decode().splitlines() if line.startswith(name + "{")]


async def until(condition, patience_s: float = 10.0) -> None:
    """Nothing tells a test when a socket's other end has noticed something; so it looks again and again."""
    async with asyncio.timeout(patience_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def test_the_queue_waits_for_a_slot_and_counters_move_meanwhile():
    load = Load(slots=2, ttft=Spread(median_s=0.001), itl_s=0.01)
    async with SimServer([EngineConfig(load=load)]) as sim, asyncio.TaskGroup() as group:
        long = [group.create_task(ask(sim.url(), body=asking(20))) for _ in range(2)]
        await until(lambda: sim.engine().ranks[0].slots.taken == 2)
        third = group.create_task(ask(sim.url(), body=asking()))
        await until(lambda: sim.engine().ranks[0].slots.waiting == 1)
        pages = []
        for _ in range(2):
            pages.append((await ask(sim.url(), "/metrics")).body)
            await asyncio.sleep(0.03)
        assert gauge(pages[0], "vllm:num_requests_running") == [2.0]
        assert gauge(pages[0], "vllm:num_requests_waiting") == [1.0]
        assert gauge(pages[0], "vllm:generation_tokens_total") < gauge(pages[1], "vllm:generation_tokens_total")
        seen = await third
        assert all(task.done() for task in long) or seen.pieces[-1][0] > 0.1
        assert seen.end == "whole"


async def test_a_full_queue_is_refused_in_the_engines_way():
    load = Load(slots=1, queue=0, ttft=Spread(median_s=0.2))
    names = {"vllm": 503, "tgi": 200, "openai": 429, "sglang": 200}
    async with SimServer([EngineConfig(engine=name, load=load) for name in names]) as sim:
        for n, (name, status) in enumerate(names.items()):
            async with SimClient(sim.url(n)) as holder:
                holder.send("POST", "/v1/completions", json.dumps(asking()).encode())
                await until(lambda n=n: sim.engine(n).ranks[0].slots.taken == 1)
                seen = await ask(sim.url(n), body=asking())
            assert (name, seen.status, sim.engine(n).counters.refused) == (name, status, 1)
        assert json.loads(seen.events[0])["error"]["code"] == 503


async def test_frozen_engine_keeps_its_health_and_loses_no_stream():
    load = Load(ttft=Spread(median_s=0.005), itl_s=0.005)
    async with SimServer([EngineConfig(load=load)]) as sim, SimClient(sim.url()) as client:
        engine = sim.engine()
        client.send("POST", "/v1/completions", json.dumps(asking(10)).encode())
        await until(lambda: engine.counters.tokens >= 3)
        engine.freeze()
        at_freeze = engine.counters.tokens
        assert (await client.read(QUIET_S)).end == "silent"
        new = await ask(sim.url(), body=asking(), patience_s=QUIET_S)
        assert (new.end, new.status, new.body) == ("silent", 200, b"")
        assert (await ask(sim.url(), "/health")).status == 200
        page = (await ask(sim.url(), "/metrics")).body
        assert gauge(page, "vllm:num_requests_running") == [1.0]
        assert gauge(page, "vllm:num_requests_waiting") == [0.0]
        assert engine.counters.tokens == at_freeze
        engine.thaw()
        rest = await client.read(5, until=b"0\r\n\r\n")
        assert rest.raw.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert engine.counters.tokens == 10


async def test_frozen_llamacpp_hangs_where_the_real_one_does():
    async with SimServer([EngineConfig(engine="llamacpp")]) as sim:
        sim.engine().freeze()
        ends = {
            path: (await ask(sim.url(), path, patience_s=QUIET_S)).end for path in ("/health", "/v1/models", "/metrics")
        }
        stream = await ask(sim.url(), body=asking(), patience_s=QUIET_S)
        assert ends == {"/health": "whole", "/v1/models": "whole", "/metrics": "silent"}
        assert (stream.end, stream.raw) == ("silent", b"")


async def test_comments_flow_while_the_engine_is_frozen():
    async with SimServer([EngineConfig(load=Load(comment_every_s=0.02))]) as sim:
        sim.engine().freeze()
        seen = await ask(sim.url(), body=asking(), patience_s=QUIET_S)
    assert seen.body.count(b": keep-alive\n\n") >= 3
    assert seen.events == []


async def test_one_rank_of_two_stands_still():
    async with SimServer([EngineConfig(ranks=2, load=FAST)]) as sim:
        sim.engine().freeze(1)
        ends = [
            (await ask(sim.url(), body=asking(), headers={"x-data-parallel-rank": rank}, patience_s=QUIET_S)).end
            for rank in "0101"
        ]
        mixed = {(await ask(sim.url(), body=asking(), patience_s=QUIET_S)).end for _ in range(2)}
        page = (await ask(sim.url(), "/metrics")).body
    assert ends == ["whole", "silent", "whole", "silent"]
    assert mixed == {"whole", "silent"}
    assert len(gauge(page, "vllm:generation_tokens_total")) == 2


async def test_a_crash_resets_connections_and_the_port_refuses_until_it_is_back():
    async with SimServer([EngineConfig(load=Load(ttft=Spread(median_s=5)))], ports=True) as sim:
        url, engine = sim.url(), sim.engine()
        async with SimClient(url) as client:
            client.send("POST", "/v1/completions", json.dumps(asking()).encode())
            await until(lambda: engine.counters.open == 1)
            engine.crash(restart_s=0.15, loading_s=0.1)
            assert (await client.read(5)).end == "reset"
        assert (await ask(url, "/health")).end == "refused"
        await until(lambda: engine.phase is Phase.LOADING)
        assert (await ask(url, "/health")).end == "refused"  # vLLM listens when it is ready
        await until(lambda: engine.phase is Phase.READY)
        await asyncio.sleep(0.01)
        assert (await ask(url, "/health")).status == 200
        assert (sim.url(), engine.counters.starts, engine.counters.aborted) == (url, 2, 0)


async def test_on_a_shared_port_a_dead_engine_resets():
    async with SimServer([EngineConfig(), EngineConfig(load=FAST)]) as sim:
        sim.engine(0).crash()
        assert (await ask(sim.url(0), "/health")).end == "reset"
        assert (await ask(sim.url(1), body=asking())).status == 200


async def test_llamacpp_says_that_it_loads():
    async with SimServer([EngineConfig(engine="llamacpp", load=FAST)], ports=True) as sim:
        sim.engine().set_script({"start": {"refuse": "50ms", "loading": "100ms"}})
        sim.engine().come_up()
        assert (await ask(sim.url(), "/health")).end == "refused"
        await until(lambda: sim.engine().phase is Phase.LOADING)
        await asyncio.sleep(0.01)
        loading = await ask(sim.url(), body=asking())
        assert (loading.status, loading.json["error"]["message"]) == (503, "Loading model")
        await until(lambda: sim.engine().phase is Phase.READY)
        assert (await ask(sim.url(), body=asking())).status == 200


async def test_a_deaf_port_is_connected_to_but_not_accepted_and_serves_those_who_waited():
    async with SimServer([EngineConfig(load=FAST)], ports=True) as sim:
        sim.engine().be_deaf(0.2)
        seen = await ask(sim.url(), body=asking(), patience_s=5)
        assert seen.end == "whole"
        assert seen.pieces[0][0] >= 0.15


async def test_sleep_mode_and_waking():
    async with SimServer([EngineConfig(load=FAST), EngineConfig(engine="lmdeploy", load=FAST)]) as sim:
        for engine in sim.engines:
            engine.set_asleep(True)
        assert (await ask(sim.url(0), "/is_sleeping")).json == {"is_sleeping": True}
        assert (await ask(sim.url(0), body=asking())).status == 500
        assert (await ask(sim.url(1), "/health")).json["status"] == "sleeping"
        sim.engine(0).set_asleep(False)
        assert (await ask(sim.url(0), body=asking())).status == 200


async def test_the_engine_behind_the_web_server_dies():
    async with SimServer([EngineConfig(load=FAST)]) as sim:
        sim.engine().break_down()
        assert (await ask(sim.url(), "/health")).status == 503
        assert (await ask(sim.url(), "/v1/models")).status == 200
        dead = await ask(sim.url(), body=asking())
    assert (dead.status, "EngineCore" in dead.json["error"]["message"]) == (500, True)


async def test_a_client_that_leaves_is_an_abort_and_frees_its_slot():
    async with SimServer([EngineConfig(load=Load(ttft=Spread(median_s=5)))]) as sim:
        engine = sim.engine()
        async with SimClient(sim.url()) as client:
            client.send("POST", "/v1/completions", json.dumps(asking()).encode(), {"x-llm-probe": "true"})
            await until(lambda: engine.ranks[0].slots.taken == 1)
        await until(lambda: engine.ranks[0].slots.taken == 0)
        counters = engine.counters
    assert (counters.aborted, counters.probes, counters.probes_aborted) == (1, 1, 1)
    assert (counters.open, counters.connections_open, counters.probes_open_max) == (0, 0, 1)


async def test_a_slot_can_stay_taken_after_its_client_left():
    load = Load(slots=1, ttft=Spread(median_s=5), hold_after_abort_s=0.1)
    async with SimServer([EngineConfig(load=load)]) as sim:
        engine = sim.engine()
        async with SimClient(sim.url()) as client:
            client.send("POST", "/v1/completions", json.dumps(asking()).encode())
            await until(lambda: engine.ranks[0].slots.taken == 1)
        await until(lambda: engine.counters.aborted == 1)
        assert engine.ranks[0].slots.taken == 1
        await until(lambda: engine.ranks[0].slots.taken == 0)


async def test_leaving_early_can_crash_the_server():
    async with SimServer([EngineConfig(load=Load(ttft=Spread(median_s=5)))], ports=True) as sim:
        sim.engine().set_script([{"match": {"path": "abort"}, "do": ["crash"]}])
        async with SimClient(sim.url()) as client:
            client.send("POST", "/v1/completions", json.dumps(asking()).encode())
            await until(lambda: sim.engine().counters.open == 1)
        await until(lambda: sim.engine().phase is Phase.DOWN)
        assert (await ask(sim.url(), "/health")).end == "refused"


async def test_web_threads_starve_the_health_path():
    load = Load(web_threads=1, ttft=Spread(median_s=5))
    async with SimServer([EngineConfig(engine="llamacpp", load=load)]) as sim:
        async with SimClient(sim.url()) as client:
            client.send("POST", "/v1/completions", json.dumps(asking()).encode())
            await until(lambda: sim.engine().counters.open == 1)
            assert (await ask(sim.url(), "/health", patience_s=QUIET_S)).end == "silent"
        assert (await ask(sim.url(), "/health")).status == 200


async def test_idle_connections_are_closed():
    async with SimServer([EngineConfig(load=Load(keep_alive_s=0.05))]) as sim, SimClient(sim.url()) as client:
        client.send("GET", "/health")
        assert (await client.read(5)).status == 200
        assert (await client.read(5)).end == "eof"


async def test_throughput_can_be_shared():
    load = Load(ttft=Spread(median_s=0.001), shared_tokens_per_s=200)
    async with SimServer([EngineConfig(load=load)]) as sim:
        alone = (await ask(sim.url(), body=asking(10))).pieces[-1][0]
        async with asyncio.TaskGroup() as group:
            pair = [group.create_task(ask(sim.url(), body=asking(10))) for _ in range(2)]
        together = max(task.result().pieces[-1][0] for task in pair)
    assert alone >= 0.045
    assert together >= 0.085


async def test_flags_poison_an_engine():
    async with SimServer([EngineConfig(load=FAST)]) as sim:
        sim.engine().set_script(
            """
            - match: {longer_than: 100}
              do: [{set: poisoned}, hang]
            - match: {flag: poisoned}
              do: [hang]
            """
        )
        ends = [
            (await ask(sim.url(), body=asking(prompt=prompt), patience_s=QUIET_S)).end
            for prompt in ("a", "b" * 101, "a")
        ]
    assert ends == ["whole", "silent", "silent"]


async def test_metrics_can_lie():
    async with SimServer([EngineConfig()]) as sim:
        sim.engine().set_script({"metrics": {"running": 0, "waiting": 6, "rise_per_s": 1000}})
        pages = [(await ask(sim.url(), "/metrics")).body]
        await asyncio.sleep(0.02)
        pages.append((await ask(sim.url(), "/metrics")).body)
    assert gauge(pages[0], "vllm:num_requests_waiting") == [6.0]
    assert gauge(pages[1], "vllm:generation_tokens_total") > gauge(pages[0], "vllm:generation_tokens_total")


@pytest.mark.parametrize("ports", [False, True])
async def test_control_interface(ports):
    async with SimServer([EngineConfig(load=FAST), EngineConfig(load=FAST)], ports=ports) as sim:
        admin = sim.admin_url
        shown = (await ask(admin, "/_sim")).json["engines"]
        assert [(engine["name"], engine["url"]) for engine in shown] == [("e0", sim.url(0)), ("e1", sim.url(1))]
        assert (await ask(admin, "/_sim/e1/freeze", b"")).json == {"ok": True, "engines": 1}
        assert (await ask(admin, "/_sim/e1")).json["engines"][0]["frozen"] == [True]
        assert (await ask(sim.url(1), body=asking(), patience_s=QUIET_S)).end == "silent"
        assert (await ask(admin, "/_sim/thaw", b"")).json["engines"] == 2
        script = b"rules: [{name: teapot, do: [{respond: 418}]}]"
        assert (await ask(admin, "/_sim/e0/script", script, method="PUT")).status == 200
        assert (await ask(sim.url(0), body=asking())).status == 418
        bad = await ask(admin, "/_sim/e0/script", b"rulez: []", method="PUT")
        assert (bad.status, "did you mean 'rules'" in bad.json["error"]) == (400, True)
        assert (await ask(admin, "/_sim/e0/reset", b"")).status == 200
        assert (await ask(sim.url(0), body=asking())).status == 200
        assert (await ask(admin, "/_sim/e0/kill?restart=50ms", b"")).status == 200
        assert (await ask(sim.url(0), "/health")).end == ("refused" if ports else "reset")
        await until(lambda: sim.engine(0).phase is Phase.READY)
        assert (await ask(admin, "/_sim/e0/explode", b"")).status == 404
        assert (await ask(admin, "/_sim/e0/freeze?rank=7", b"")).status == 400


async def test_leaving_the_block_closes_everything():
    async with SimServer([EngineConfig(load=Load(ttft=Spread(median_s=5)))], ports=True) as sim:
        url = sim.url()
        client = SimClient(url)
        await client.__aenter__()
        client.send("POST", "/v1/completions", json.dumps(asking()).encode())
        await until(lambda: sim.engine().counters.open == 1)
    assert (await client.read(5)).end == "reset"
    await client.__aexit__()
    assert (await ask(url, "/health")).end == "refused"
