"""Keys, lanes, the list of models, health, the access log, reconfiguring and draining."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from pulsegate.core.ids import PoolName
from pulsegate.gateway.server import Gateway
from pulsegate.gateway.setup import PoolSetup, RouteSetup, Setup
from support import raw_server as script
from support.gateways import (
    MODEL,
    POOL,
    Client,
    Running,
    ask_for,
    ejected,
    endpoint,
    json_answer,
    pool,
    running,
    setup_of,
    snapshot,
    stream_answer,
    under_way,
    until,
    view,
)
from support.raw_server import raw_server

ONE = (script.Request(), script.Send(json_answer()))


def keys_file(folder: Path, *entries: dict[str, Any]) -> str:
    """Each entry gives the key itself as ``secret``."""
    path = folder / "keys.yaml"
    hashed = [{**entry, "sha256": hashlib.sha256(entry["secret"].encode()).hexdigest()} for entry in entries]
    path.write_text(json.dumps({"keys": [{k: v for k, v in entry.items() if k != "secret"} for entry in hashed]}))
    return str(path)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


# keys


async def test_only_known_keys_come_in(tmp_path: Path) -> None:
    keys = keys_file(tmp_path, {"name": "a", "secret": "sk-a"})
    async with raw_server(ONE) as server, running(setup_of(pool(server.port), keys_file=keys)) as run:
        none, wrong, right = [
            await run.ask(ask_for(), headers=headers) for headers in ({}, bearer("sk-b"), bearer("sk-a"))
        ]
        assert (none.status, none.code) == (401, "missing_api_key")
        assert (wrong.status, wrong.code) == (401, "invalid_api_key")
        assert right.status == 200
        assert (await run.ask(path="/v1/models", method="GET")).status == 401
        assert (await run.ask(path="/health", method="GET")).status == 200
    assert b"sk-a" not in server.connections[0].requests[0]


async def test_a_refused_connection_goes_on_with_a_right_key(tmp_path: Path) -> None:
    keys = keys_file(tmp_path, {"name": "a", "secret": "sk-a"})
    async with (
        raw_server(ONE) as server,
        running(setup_of(pool(server.port), keys_file=keys)) as run,
        Client(run.port) as client,
    ):
        statuses = [(await client.ask(ask_for(), headers=bearer(key))).status for key in ("no", "sk-a", "no")]
    assert statuses == [401, 200, 401]


async def test_a_key_may_be_kept_to_its_models(tmp_path: Path) -> None:
    keys = keys_file(tmp_path, {"name": "a", "secret": "sk-a", "models": ["other"]})
    routes = (RouteSetup(name=MODEL, tiers=(POOL,)), RouteSetup(name="other", tiers=(POOL,)))
    async with running(Setup(pools=(pool(1),), routes=routes, keys_file=keys)) as run:
        forbidden = await run.ask(ask_for(), headers=bearer("sk-a"))
        unknown = await run.ask(ask_for(model="nope"), headers=bearer("sk-a"))
        models = await run.ask(path="/v1/models", method="GET", headers=bearer("sk-a"))
        hidden = await run.ask(path=f"/v1/models/{MODEL}", method="GET", headers=bearer("sk-a"))
    assert (forbidden.status, forbidden.code) == (403, "model_not_allowed")
    assert "other" in unknown.json["error"]["message"]
    assert MODEL not in unknown.json["error"]["message"]
    assert [model["id"] for model in models.json["data"]] == ["other"]
    assert hidden.status == 404


async def test_a_key_may_be_kept_to_some_requests_at_once(tmp_path: Path) -> None:
    keys = keys_file(tmp_path, {"name": "a", "secret": "sk-a", "max_inflight": 1})
    slow = (script.Request(), script.Wait(0.1), script.Send(json_answer()))
    async with (
        raw_server(slow) as server,
        running(setup_of(pool(server.port), keys_file=keys)) as run,
        under_way(run.ask(ask_for(), headers=bearer("sk-a"))) as first,
    ):
        await until(lambda: server.connections and server.connections[0].requests)
        second = await run.ask(ask_for(), headers=bearer("sk-a"))
        assert (second.status, second.code, second.headers["retry-after"]) == (429, "too_many_requests", "1")
        assert (await first).status == 200
        await run.idle()


async def test_keys_are_read_again_and_keep_their_counts(tmp_path: Path) -> None:
    keys = keys_file(tmp_path, {"name": "a", "secret": "sk-a"}, {"name": "b", "secret": "sk-b", "max_inflight": 1})
    slow = (script.Request(), script.Wait(0.2), script.Send(json_answer()))
    async with raw_server(slow * 2) as server:
        setup = setup_of(pool(server.port), keys_file=keys)
        async with running(setup) as run, Client(run.port) as client:
            assert (await client.ask(path="/v1/models", method="GET", headers=bearer("sk-a"))).status == 200
            async with under_way(run.ask(ask_for(), headers=bearer("sk-b"))):
                await until(lambda: server.connections and server.connections[0].requests)
                keys_file(tmp_path, {"name": "b", "secret": "sk-b", "max_inflight": 1})
                run.gateway.reconfigure(setup)
                assert (await client.ask(path="/v1/models", method="GET", headers=bearer("sk-a"))).status == 401
                assert (await run.ask(ask_for(), headers=bearer("sk-b"))).status == 429
            assert (await run.ask(ask_for(), headers=bearer("sk-b"))).status == 200


@pytest.mark.parametrize(
    "content",
    ["", "keys: 3", "keys: [{name: a}]", "keys: [{name: a, sha256: abc}]", "keys: [{name: a, sha256: 'é'}]", "{"],
)
def test_a_bad_keys_file_is_told_and_shows_no_hash(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"keys\.yaml"):
        Gateway(setup_of(pool(1), keys_file=str(path)), None)


# lanes


@pytest.mark.parametrize(
    ("lane", "header", "status"),
    [("normal", None, 503), ("low", None, 200), ("low", "normal", 503), ("normal", "low", 200), (None, "LOW", 200)],
)
async def test_low_only_endpoints_take_low_requests(
    tmp_path: Path, lane: str | None, header: str | None, status: int
) -> None:
    entry = {"name": "a", "secret": "sk-a"} | ({} if lane is None else {"lane": lane})
    headers = bearer("sk-a") | ({} if header is None else {"X-Request-Priority": header})
    async with raw_server(ONE) as server:
        known = snapshot(view(server.port, low_only=True), view(1, max_inflight=0))
        setup = setup_of(pool(server.port, 1), keys_file=keys_file(tmp_path, entry))
        async with running(setup, known) as run:
            assert (await run.ask(ask_for(), headers=headers)).status == status


async def test_a_limited_key_cannot_name_two_models(tmp_path: Path) -> None:
    """An engine that reads the first of two fields would serve what we have not allowed."""
    keys = keys_file(tmp_path, {"name": "a", "secret": "sk-a", "models": [MODEL]})
    body = b'{"model": "forbidden", "messages": [], "model": "%b"}' % MODEL.encode()
    async with raw_server(ONE) as server, running(setup_of(pool(server.port), keys_file=keys)) as run:
        reply = await run.ask(body, headers=bearer("sk-a"))
        assert reply.status == 200
        assert b"forbidden" not in server.connections[0].requests[0]


async def test_a_pool_that_is_not_asked_for_usage_does_not_get_the_body_of_one_that_is() -> None:
    broken = (script.Request(), script.Send(json_answer({"error": "down"}, status="500 Internal Server Error")))
    async with raw_server(broken) as first, raw_server(broken) as second:
        one, other = endpoint(first.port, model="theirs"), endpoint(second.port, model="theirs")
        pools = (
            PoolSetup(name=PoolName("a"), endpoints=(one,)),
            PoolSetup(name=PoolName("b"), endpoints=(other,), ask_usage=False),
        )
        async with running(setup_of(*pools)) as run:
            await run.ask(ask_for(stream=True))
        assert b"include_usage" in first.connections[0].requests[0]
        assert b"include_usage" not in second.connections[0].requests[0]


# models and health


async def test_the_list_of_models_is_stable() -> None:
    names = ["zeta", "alpha", "mid"]
    routes = tuple(RouteSetup(name=name, tiers=(POOL,)) for name in names)
    async with running(Setup(pools=(pool(1),), routes=routes)) as run:
        first = await run.ask(path="/v1/models", method="GET")
        again = await run.ask(path="/v1/models", method="GET")
        same = await run.ask(path="/v1/models", method="GET", headers={"If-None-Match": first.headers["etag"]})
        any_will_do = await run.ask(path="/v1/models", method="GET", headers={"If-None-Match": "*"})
        one = await run.ask(path="/v1/models/alpha", method="GET")
    assert [model["id"] for model in first.json["data"]] == names
    assert (first.body, first.headers["etag"]) == (again.body, again.headers["etag"])
    assert (same.status, same.body) == (304, b"")
    assert any_will_do.status == 304
    assert one.json == {"id": "alpha", "object": "model", "created": 0, "owned_by": "pulsegate"}


async def test_liveness_says_so() -> None:
    async with running(setup_of(pool(1))) as run:
        reply = await run.ask(path="/health", method="GET")
    assert reply.json["status"] == "ok"
    assert reply.json["uptime_s"] >= 0
    assert reply.json["checked_at"].endswith("+00:00")


async def test_readiness_follows_the_snapshot() -> None:
    async with running(setup_of(pool(1), pool(2, name="other")), snapshot(view(1))) as run:

        async def status() -> tuple[int, str]:
            reply = await run.ask(path="/health/ready", method="GET")
            return reply.status, reply.json["status"]

        assert await status() == (200, "ready")
        run.gateway.follow(snapshot(ejected(1), version=2, down=True))
        assert await status() == (200, "degraded")
        run.gateway.follow(snapshot(ejected(2), version=3, name="other", down=True))
        assert await status() == (503, "not_ready")


# the access log


async def test_one_line_for_each_request(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    setup = {"access_log": str(log), "keys_file": keys_file(tmp_path, {"name": 'team "a"', "secret": "sk"})}
    async with (
        raw_server((script.Request(), script.Close()), ONE) as bad,
        raw_server(ONE) as server,
        running(setup_of(pool(bad.port), pool(server.port, name="other"), **setup)) as run,
    ):
        await run.ask(ask_for(), headers=bearer("sk") | {"X-Request-ID": "one", "X-Request-Priority": "low"})
        await run.idle()
    [line] = [json.loads(line) for line in log.read_text().splitlines()]
    assert line.pop("ts") > 1_700_000_000
    assert 0 < line.pop("ttft_s") <= line.pop("duration_s") < 2
    assert line == {
        "id": "one",
        "path": "/v1/chat/completions",
        "status": 200,
        "model": MODEL,
        "endpoint": f"e{server.port}",
        "attempts": 2,
        "lane": "low",
        "key": 'team "a"',
        "stream": False,
        "prompt_tokens": 3,
        "completion_tokens": 1,
        "cause": "closed",
        "trouble": "closed",
    }


async def test_a_line_for_each_request_that_no_endpoint_heard_of(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    keys = keys_file(tmp_path, {"name": "a", "secret": "sk", "models": []})
    async with running(setup_of(pool(1), access_log=str(log), keys_file=keys)) as run, Client(run.port) as client:
        await client.ask(path="/health", method="GET")
        await client.ask(ask_for())
        await client.ask(ask_for(), headers=bearer("sk"))
        await client.ask(path="/v1/models", method="GET", headers=bearer("sk"))
        await client.ask(path='/"x', method="PUT")
        async with Client(run.port) as odd:
            await odd.raw(b"nonsense\r\n\r\n")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["status"], line["path"], line.get("key"), line.get("code")) for line in lines] == [
        (401, "/v1/chat/completions", None, "missing_api_key"),
        (403, "/v1/chat/completions", "a", "model_not_allowed"),
        (200, "/v1/models", "a", None),
        (404, '/"x', None, "unknown_url"),
        (400, "", None, "bad_request"),
    ]


# what control hears


async def test_tokens_failures_and_figures_are_reported() -> None:
    stream = (script.Request(), script.Send(stream_answer("a", "b", usage=True)))
    async with raw_server(stream) as server, running(setup_of(pool(server.port))) as run:
        await run.ask(ask_for(stream=True))
        await until(lambda: run.heard.total("tokens") == 6)
        await until(lambda: run.heard.latest is not None and run.heard.latest.routes[0].requests == {200: 1})
    figures = run.heard.latest
    assert figures is not None
    assert (figures.routes[0].prompt_tokens, figures.routes[0].completion_tokens) == (3, 2)
    assert sum(figures.own.counts) == sum(figures.endpoints[0].ttft.counts) == 1
    assert (figures.in_flight, figures.endpoints[0].inflight) == (0, 0)


async def test_users_who_wait_too_long_are_a_reason_to_probe() -> None:
    steps = (script.Request(), script.Wait(0.5), script.Send(json_answer()))
    async with raw_server(steps) as server, running(setup_of(pool(server.port, late_after_s=0.1))) as run:
        async with under_way(run.ask(ask_for())):
            await until(lambda: run.heard.total("stalls") == 1)
        assert run.heard.total("failures") == 0


# reconfiguring and draining


async def test_a_new_setup_takes_over_and_a_bad_one_does_not() -> None:
    async with raw_server(ONE * 2) as old, raw_server(ONE) as new:
        async with running(setup_of(pool(old.port))) as run:
            assert (await run.ask(ask_for())).headers["x-pulsegate-endpoint"] == f"e{old.port}"
            with pytest.raises(ValueError, match="no pool"):
                run.gateway.reconfigure(Setup(pools=(), routes=(RouteSetup(name=MODEL, tiers=(POOL,)),)))
            assert (await run.ask(ask_for())).headers["x-pulsegate-endpoint"] == f"e{old.port}"
            assert len(old.connections) == 1
            run.gateway.reconfigure(setup_of(pool(new.port), response_headers=False))
            reply = await run.ask(ask_for())
            assert reply.status == 200
            assert "x-pulsegate-endpoint" not in reply.headers
            await old.all_closed()
        assert len(new.connections) == 1


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        (Setup(pools=(), routes=(RouteSetup(name="a", tiers=(POOL,)),)), "no pool"),
        (Setup(pools=(), routes=(RouteSetup(name="a", tiers=()),)), "names no pool"),
        (Setup(pools=(pool(1), pool(1, name="b")), routes=()), "twice"),
        (setup_of(pool(1), access_log="/no/such/folder/log"), "access log"),
    ],
)
def test_setups_that_contradict_themselves(setup: Setup, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Gateway(setup, None)


async def test_a_drain_lets_requests_end_and_closes_idle_connections() -> None:
    slow = (script.Request(), script.Wait(0.15), script.Send(json_answer()))
    async with (
        raw_server(slow) as server,
        running(setup_of(pool(server.port))) as run,
        Client(run.port) as idle,
        Client(run.port) as busy,
    ):
        await idle.ask(path="/health", method="GET")
        async with under_way(busy.ask(ask_for())) as asking:
            await until(lambda: server.connections and server.connections[0].requests)
            assert await run.gateway.drain(2) == 0
            reply = await asking
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        assert await idle.rest() == b""
        assert await busy.rest() == b""
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", run.port)


async def test_a_drain_cuts_off_who_takes_too_long() -> None:
    async with raw_server((script.Request(), script.Hang())) as server, running(setup_of(pool(server.port))) as run:
        async with under_way(run.ask(ask_for())) as asking:
            await until(lambda: server.connections and server.connections[0].requests)
            assert await run.gateway.drain(0.05) == 1
            assert (await asking).status == 0
        await server.all_closed()


# sessions


async def ask_many(run: Running, **how: Any) -> set[str]:
    return {(await run.ask(**how)).headers["x-pulsegate-endpoint"] for _ in range(12)}


async def test_sessions_stay_where_their_cache_is() -> None:
    async with raw_server(ONE * 50) as a, raw_server(ONE * 50) as b, raw_server(ONE * 50) as c:
        ports = (a.port, b.port, c.port)
        async with running(setup_of(pool(*ports), affinity_header="X-Session", affinity_user=True)) as run:
            by_header = await ask_many(run, body=ask_for(), headers={"X-Session": "s1"})
            by_user = await ask_many(run, body=ask_for(user="u1"))
            spread = await ask_many(run, body=ask_for())
            assert len(by_header) == len(by_user) == 1
            assert len(spread) > 1
            [home] = by_header
            views = [ejected(port) if f"e{port}" == home else view(port) for port in ports]
            run.gateway.follow(snapshot(*views))
            assert home not in await ask_many(run, body=ask_for(), headers={"X-Session": "s1"})


async def test_the_next_pool_serves_when_the_first_is_down() -> None:
    async with raw_server(ONE) as spare:
        pools = (pool(1), PoolSetup(name=PoolName("spare"), endpoints=pool(spare.port).endpoints))
        async with running(setup_of(*pools), snapshot(ejected(1), down=True)) as run:
            reply = await run.ask(ask_for())
            assert (reply.status, reply.headers["x-pulsegate-attempts"]) == (200, "1")


# model names


async def test_the_name_that_the_prober_found_goes_to_the_endpoint() -> None:
    async with raw_server(ONE * 4) as server, running(setup_of(pool(server.port))) as run:
        await run.ask(ask_for())
        run.gateway.follow(snapshot(view(server.port, served_model="org/small-v2")))
        await run.ask(ask_for())
        run.gateway.follow(snapshot(view(server.port, served_model="org/small-v3"), version=2))
        await run.ask(ask_for())
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in server.connections[0].requests]
    assert [body["model"] for body in bodies] == [MODEL, "org/small-v2", "org/small-v3"]


async def test_the_configured_name_stands() -> None:
    async with raw_server(ONE) as server:
        named = PoolSetup(name=POOL, endpoints=(endpoint(server.port, model="mine"),))
        async with running(setup_of(named), snapshot(view(server.port, served_model="found"))) as run:
            await run.ask(ask_for())
    assert b'"model":"mine"' in server.connections[0].requests[0]
