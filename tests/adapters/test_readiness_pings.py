"""Readiness of a real service with hosted providers, on both ports, and how often providers are pinged for it."""

import asyncio
import hashlib
import json
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import yaml

from support.fake_providers import error, fake_provider, page
from support.fake_server import HANG as SILENCE
from support.gateways import Client, Reply, ask_for, until
from support.http_client import request
from support.service import Service, started

READY = "/health/ready"
PINGED = READY + "?ping=1"


def document(chain: dict[str, str], **more: object) -> dict[str, object]:
    """``chat`` by deepseek, then by zhipu; nothing is pinged unless somebody asks."""
    providers = [
        {"name": name, "base_url": url, "api_key": f"sk-{name}", "ping_interval": "off"} for name, url in chain.items()
    ]
    models = [{"name": "chat", "provider": "deepseek", "fallbacks": ["glm"]}, {"name": "glm", "provider": "zhipu"}]
    gateway = {"listen": "127.0.0.1:0", **dict(more.pop("gateway", {}))}  # type: ignore[call-overload] - a mapping
    return {"gateway": gateway, "admin": {"listen": "127.0.0.1:0"}, "providers": providers, "models": models, **more}


async def ready(run: Service, path: str = READY, headers: dict[str, str] | None = None) -> Reply:
    return await run.ask(path=path, method="GET", headers=headers)


async def test_what_is_known_and_what_a_ping_finds_on_both_ports(tmp_path):
    async with AsyncExitStack() as stack:
        deepseek = await stack.enter_async_context(fake_provider("deepseek"))
        zhipu = await stack.enter_async_context(fake_provider("zhipu"))
        run = stack.enter_context(started(tmp_path, document({"deepseek": deepseek.base_url, "zhipu": zhipu.base_url})))
        await run.serving()
        told = await ready(run)
        assert (told.status, told.json["status"]) == (200, "ready")
        assert [one["status"] for one in told.json["providers"]] == ["unknown", "unknown"]
        assert deepseek.pings + zhipu.pings == 0
        told = await ready(run, PINGED)
        assert [(one["name"], one["configured"], one["status"]) for one in told.json["providers"]] == [
            ("deepseek", True, "up"),
            ("zhipu", True, "up"),
        ]
        assert all(one["checked_at"].endswith("+00:00") for one in told.json["providers"])
        assert (deepseek.pings, zhipu.pings) == (1, 1)
        deepseek.answer = error(402, message="Insufficient Balance")
        assert (await run.ask(ask_for(model="chat"))).status == 200
        told = await ready(run)
        assert (told.status, told.json["status"]) == (200, "degraded")
        assert told.json["detail"] == "provider deepseek is down: billing"
        assert told.json["models"] == [
            {"name": "chat", "status": "degraded", "served_by": "glm"},
            {"name": "glm", "status": "up", "served_by": "glm"},
        ]
        assert told.json["cost"]["status"] == "open"

        async with asyncio.timeout(3):
            while not await run.metric("pulsegate_provider_attempts_total"):  # noqa: ASYNC110 - told once a second
                await asyncio.sleep(0.02)
        attempts = "pulsegate_provider_attempts_total"
        assert await run.metric(attempts, provider="deepseek", outcome="billing") == 1
        assert await run.metric(attempts, provider="zhipu", outcome="ok") == await run.metric(attempts) - 1 == 1
        assert await run.metric("pulsegate_provider_state", provider="deepseek", state="down") == 1
        assert await run.metric("pulsegate_provider_keys_resting", provider="deepseek", reason="billing") == 1
        assert await run.metric("pulsegate_provider_keys_resting") == 1

        async def admin_says() -> dict[str, object]:
            return json.loads((await request(run.admin, READY)).body)

        async with asyncio.timeout(3):
            while (await admin_says())["detail"] != told.json["detail"]:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.02)


async def test_hammering_pings_each_provider_once_in_five_seconds(tmp_path):
    async with AsyncExitStack() as stack:
        deepseek = await stack.enter_async_context(fake_provider("deepseek"))
        zhipu = await stack.enter_async_context(fake_provider("zhipu"))
        run = stack.enter_context(started(tmp_path, document({"deepseek": deepseek.base_url, "zhipu": zhipu.base_url})))
        await run.serving()

        async def hammer(times: int) -> None:
            async with Client(run.port) as client:
                for _ in range(times):
                    assert (await client.ask(path=PINGED, method="GET")).status == 200

        async with asyncio.timeout(4.5), asyncio.TaskGroup() as tasks:
            for _ in range(20):
                tasks.create_task(hammer(25))
            for _ in range(20):
                tasks.create_task(request(run.admin, PINGED))
        assert (deepseek.pings, zhipu.pings) == (1, 1)


async def test_when_nobody_answers_pings_and_nobody_has_a_key(tmp_path):
    async with AsyncExitStack() as stack:
        deepseek = await stack.enter_async_context(fake_provider("deepseek"))
        zhipu = await stack.enter_async_context(fake_provider("zhipu"))
        deepseek.models, zhipu.models = SILENCE, SILENCE
        config = document({"deepseek": deepseek.base_url, "zhipu": zhipu.base_url})
        run = stack.enter_context(started(tmp_path, config))
        await run.serving()
        began = asyncio.get_running_loop().time()
        told = await ready(run, PINGED)
        assert 1.9 < asyncio.get_running_loop().time() - began < 4.0  # both at once, two seconds
        assert (told.status, told.json["status"]) == (503, "not_ready")
        assert told.json["detail"].count("it does not answer pings") == 2
        alive = await run.ask(path="/health", method="GET")
        assert (alive.status, set(alive.json)) == (200, {"status", "uptime_s", "checked_at"})
        zhipu.models = page({"error": {"message": "no"}}, 404)  # no list, but it answers
        await asyncio.sleep(5.1)
        told = await ready(run, PINGED)
        assert (told.status, told.json["status"]) == (200, "degraded")


async def test_a_preset_without_a_key_is_not_configured(tmp_path):
    models = [{"name": "chat", "provider": "deepseek"}]
    config = {
        "gateway": {"listen": "127.0.0.1:0"},
        "admin": {"listen": "127.0.0.1:0"},
        "models": models,
        "providers": [{"name": "deepseek"}],
    }
    with started(tmp_path, config) as run:
        await run.serving()
        told = await ready(run)
        assert (told.status, told.json["status"]) == (503, "not_ready")
        assert told.json["providers"][0]["configured"] is False
        assert (await run.ask(ask_for(model="chat"))).status == 503


@pytest.mark.parametrize("path", [READY, "/readyz"])
async def test_on_the_gateways_port_a_ping_needs_a_key_when_there_are_keys(tmp_path, path):
    keys = tmp_path / "keys.yaml"
    keys.write_text(yaml.safe_dump({"keys": [{"name": "k", "sha256": hashlib.sha256(b"secret").hexdigest()}]}))
    async with AsyncExitStack() as stack:
        deepseek = await stack.enter_async_context(fake_provider("deepseek"))
        zhipu = await stack.enter_async_context(fake_provider("zhipu"))
        config = document({"deepseek": deepseek.base_url, "zhipu": zhipu.base_url}, gateway={"keys_file": str(keys)})
        run = stack.enter_context(started(Path(tmp_path), config))
        await run.serving()
        assert (await ready(run, path)).status == 200
        assert (await ready(run, f"{path}?ping=1")).status == 401
        assert deepseek.pings == 0
        assert (await ready(run, f"{path}?ping=1", {"Authorization": "Bearer secret"})).status == 200
        assert deepseek.pings == 1
        assert (await ready(run, "/livez")).status == 200


async def test_who_leaves_before_the_ping_is_over_is_forgotten(tmp_path):
    async with AsyncExitStack() as stack:
        deepseek = await stack.enter_async_context(fake_provider("deepseek"))
        zhipu = await stack.enter_async_context(fake_provider("zhipu"))
        deepseek.models = SILENCE
        run = stack.enter_context(started(tmp_path, document({"deepseek": deepseek.base_url, "zhipu": zhipu.base_url})))
        await run.serving()
        async with Client(run.port) as client:
            client.writer.write(b"GET /health/ready?ping=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: deepseek.pings == 1)
        told = await ready(run, PINGED)  # waits for the same round
        assert told.json["providers"][0]["status"] == "down"
        assert deepseek.pings == 1
