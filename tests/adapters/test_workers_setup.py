"""What workers are told to serve: under which names, with which keys and certificates, before and after a reload."""

import hashlib
import json
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest

from pulsegate.sim import EngineConfig
from support.certificates import Authority
from support.gateways import Client, under_way, until
from support.service import PATIENCE_S, SERVED, chat, configured, engine, engines, service, started


def keys(path: Path, *secrets: str) -> str:
    entries = [{"name": secret, "sha256": hashlib.sha256(secret.encode()).hexdigest()} for secret in secrets]
    path.write_text(json.dumps({"keys": entries}))
    return str(path)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def test_endpoints_that_call_the_model_otherwise_are_asked_in_their_words(tmp_path: Path) -> None:
    configs = [EngineConfig(engine="vllm", model=name) for name in ("org/Small-8B", "small-quantised")]
    async with engines(*configs) as sims:
        document = configured(sims.url(0), sims.url(1))
        document["models"][0]["endpoints"][1].pop("engine")  # found out
        async with service(tmp_path, document) as run:
            replies = [await run.ask(chat()) for _ in range(30)]
            assert {reply.status for reply in replies} == {200}
            assert {reply.headers["x-pulsegate-endpoint"] for reply in replies} == {"e0", "e1"}
            assert [row["served_model"] for row in await run.endpoints()] == ["org/Small-8B", "small-quantised"]


async def test_a_reload_changes_routes_and_fails_no_stream(tmp_path: Path) -> None:
    async with engines(engine(itl_s=0.02), engine()) as sims, service(tmp_path, configured(sims.url(0))) as run:
        workers = run.workers()
        async with under_way(run.ask(chat(tokens=150, stream=True))) as asking:
            await until(lambda: sims.engine(0).counters.open > 0, patience_s=PATIENCE_S)
            other = {"name": "large", "endpoints": [{"id": "l0", "url": sims.url(1), "engine": "vllm"}]}
            run.configure(configured(models=[other]))
            run.signal(signal.SIGHUP)
            await run.log("reloaded")
            await run.ready()
            assert not asking.done()
            reply = await asking
            assert (reply.whole, reply.last_error) == (True, None)
        assert (await run.ask(chat(model="large"))).headers["x-pulsegate-endpoint"] == "l0"
        assert (await run.ask(chat())).code == "model_not_found"
        assert run.workers() == workers


@pytest.mark.parametrize("broken", ["keys", "certificate"])
async def test_what_cannot_be_served_is_told_at_the_start(tmp_path: Path, broken: str) -> None:
    gateway: dict[str, Any]
    if broken == "keys":
        (tmp_path / "keys.yaml").write_text("keys: [{name: a, sha256: nonsense}]")
        gateway, named = {"keys_file": "keys.yaml"}, "keys.yaml"
    else:
        pair = Authority(tmp_path).issue("gateway", password=b"secret")
        gateway, named = {"tls": {"cert_file": str(pair.cert_file), "key_file": str(pair.key_file)}}, "encrypted"
    with started(tmp_path, configured("http://127.0.0.1:9", gateway=gateway)) as run:
        assert await run.ended() == 3
    assert run.errors.startswith("pulsegate: ")
    assert named in run.errors
    assert run.errors.count("\n") == 1


async def test_what_cannot_be_served_is_refused_at_a_reload_and_the_old_stays(tmp_path: Path) -> None:
    keys(tmp_path / "keys.yaml", "sk-a")
    async with engines() as sims, service(tmp_path, configured(sims.url(), gateway={"keys_file": "keys.yaml"})) as run:
        assert (await run.ask(chat())).status == 401
        (tmp_path / "keys.yaml").write_text("keys: 3")
        run.signal(signal.SIGHUP)
        refused = await run.log("reload refused, the old configuration stays")
        assert "keys.yaml" in refused["problems"][0]
        assert (await run.ask(chat(), headers=bearer("sk-a"))).status == 200
        assert [row["state"] for row in await run.endpoints()] == ["healthy"]

        keys(tmp_path / "keys.yaml", "sk-b")
        run.signal(signal.SIGHUP)
        await run.log("worker serves", 2)
        assert (await run.ask(chat(), headers=bearer("sk-a"))).status == 401
        assert (await run.ask(chat(), headers=bearer("sk-b"))).status == 200


async def test_a_new_certificate_is_shown_after_a_reload(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, other = authority.issue("one"), authority.issue("two")
    files = {"cert_file": str(pair.cert_file), "key_file": str(pair.key_file)}
    trust = ssl.create_default_context(cafile=str(authority.ca_file))

    async def shown(port: int) -> str:
        async with Client(port, trust) as client:
            assert (await client.ask(chat())).status == 200
            return str(client.writer.get_extra_info("peercert")["subject"][0][0][1])

    async with engines() as sims:
        with started(tmp_path, configured(sims.url(), gateway={"tls": files})) as run:
            await run.serving()
            await run.log("endpoint changed")
            await until(lambda: any(line.get("new") == "healthy" for line in run.lines), patience_s=PATIENCE_S)
            assert await shown(run.port) == "one"
            pair.cert_file.write_bytes(other.cert_file.read_bytes())
            pair.key_file.write_bytes(other.key_file.read_bytes())
            run.signal(signal.SIGHUP)
            await run.log("worker serves", 2)
            assert await shown(run.port) == "two"


async def test_a_configured_name_is_used_as_it_is(tmp_path: Path) -> None:
    async with engines() as sims:
        document = configured(sims.url())
        document["models"][0]["endpoints"][0]["model"] = SERVED
        async with service(tmp_path, document) as run:
            assert (await run.ask(chat())).status == 200
