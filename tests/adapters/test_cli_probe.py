"""``pulsegate probe`` against simulated engines on real sockets."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from pulsegate.cli import run
from pulsegate.sim import EngineConfig, Load, SimServer, Spread
from support.certificates import Authority

FAST = Load(ttft=Spread(median_s=0.005), itl_s=0.001)


@asynccontextmanager
async def server(script=None, **config):
    async with SimServer([EngineConfig(**{"load": FAST, **config})]) as sim:
        if script is not None:
            sim.engine().set_script({"rules": [{"match": {"path": "gen"}, "do": script}]})
        yield sim


async def probe(*arguments):
    return await asyncio.to_thread(run, ["probe", *arguments])


async def found(capsys, *arguments):
    code = await probe(*arguments, "--json")
    return code, json.loads(capsys.readouterr().out)


async def test_a_healthy_server_with_all_its_phases(capsys):
    async with server() as sim:
        code, told = await found(capsys, sim.url())
    assert code == 0
    assert (told["verdict"], told["reason"], told["url"]) == ("healthy", "ok", sim.url())
    assert told["engine"] == {"name": "vllm", "model": "sim", "evidence": 'owned_by "vllm" in /v1/models'}
    assert told["thresholds_ms"] == {"healthy_ttft": 200, "congested_ttft": 300, "timeout": 800}
    assert len(told["probes"]) == 3
    phases = told["probes"][0]["phases_ms"]
    assert phases["connect"] <= phases["send"] <= phases["first_byte"] <= phases["first_token"] <= phases["end"]
    assert told["probes"][1]["reused_connection"] is True
    assert told["ttft_ms"] >= 5


@pytest.mark.parametrize(
    ("script", "code", "verdict", "reason"),
    [
        ([{"sleep": "250ms"}, {"generate": {}}], 1, "degraded", "slow"),
        (["head", "hang"], 2, "unhealthy", "timeout"),
        ([{"respond": {"status": 500, "json": {"error": "CUDA error: device-side assert"}}}], 2, "unhealthy", "cuda"),
        ([{"respond": {"status": 401, "json": {"error": "no such key"}}}], 3, "misconfigured", "auth"),
        ([{"respond": {"status": 429, "json": {"error": "too many"}}}], 1, "degraded", "busy"),
        ([{"respond": {"status": 503, "json": {"error": {"message": "Loading model"}}}}], 3, "unknown", "loading"),
    ],
)  # fmt: skip
async def test_verdicts_and_exit_codes(capsys, script, code, verdict, reason):
    async with server(script) as sim:
        exit_code, told = await found(capsys, sim.url(), "--engine", "vllm")
    assert (exit_code, told["verdict"], told["reason"]) == (code, verdict, reason)


async def test_nothing_listens(capsys):
    async with server() as sim:
        url = sim.url()
    code, told = await found(capsys, url)
    assert (code, told["verdict"], told["reason"], told["engine"]) == (2, "unhealthy", "refused", None)


async def test_what_people_see(capsys):
    async with server() as sim:
        assert await probe(sim.url(), "--count", "1") == 0
    first, engine, head, row, last = capsys.readouterr().out.splitlines()
    assert first == f"{sim.url()}  (healthy up to 200ms, congested from 300ms, timeout 800ms)"
    assert engine == 'engine  vllm, serving sim (owned_by "vllm" in /v1/models)'
    assert " ".join(head.split()) == "# kind dns connect tls send first byte first token end ms"
    assert row.split()[:3] == ["1", "micro", "-"]
    assert "  token ' " in row
    assert last.startswith("HEALTHY: 1 of 1 probes brought a token, ")


async def test_why_it_is_not_healthy_is_said(capsys):
    async with server([{"respond": {"status": 401, "json": {"error": {"message": "no such key"}}}}]) as sim:
        assert await probe(sim.url()) == 3
    assert (
        capsys.readouterr().out.splitlines()[-1] == "MISCONFIGURED (auth): 0 of 1 probes brought a token; no such key"
    )


async def test_the_key_comes_from_the_environment_and_is_not_shown(capsys, monkeypatch):
    monkeypatch.setenv("THE_KEY", "sk-do-not-show")
    async with server(api_key="sk-do-not-show") as sim:
        assert await probe(sim.url()) == 3
        assert await probe(sim.url(), "--api-key-env", "THE_KEY") == 0
        assert await probe(sim.url(), "--header", "Authorization: Bearer sk-do-not-show") == 0
    told = capsys.readouterr()
    assert "do-not-show" not in told.out + told.err


async def test_a_private_authority(capsys, tmp_path):
    authority = Authority(tmp_path)
    context = authority.issue("server").server_context()
    async with SimServer([EngineConfig(load=FAST)], tls=context) as sim:
        code, told = await found(capsys, sim.url())
        assert (code, told["reason"]) == (2, "tls")
        code, told = await found(capsys, sim.url(), "--ca-file", str(authority.ca_file))
        assert (code, told["verdict"]) == (0, "healthy")
        assert told["probes"][0]["phases_ms"]["tls"] > 0
        assert await probe(sim.url(), "--insecure") == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ftp://a"], "URL: `ftp://a` has the scheme ftp (use http:// or https:// or unix:/path/to.sock)"),
        (["http://a", "--timeout", "5"], "--timeout: `5` has no unit (write 5s or 5ms)"),
        (["http://a", "--engine", "vlm"], "--engine: `vlm` is not one of the choices (did you mean `vllm`?"),
        (["http://a", "--healthy-ttft", "2s"], "--timeout: is 800ms and must be more than `congested_ttft`, 2s"),
        (["http://a", "--header", "X"], "--header: write it as 'Name: value'"),
        (["http://a", "--header", "a b: c"], "--header: holds something that is not a header name"),
        (["https://a", "--ca-file", "/no/such.pem"], "--ca-file: `/no/such.pem` cannot be read"),
        (["http://a", "--api-key-env", "NO_SUCH_KEY"], "the environment variable NO_SUCH_KEY is not set"),
        (["http://a", "--expect", "("], "--expect: `(` is not a regular expression"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments, told, capsys):
    assert run(["probe", *arguments]) == 3
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error


def test_a_refused_address_is_not_asked_twice(capsys):
    assert run(["probe", "http://no-such-host.invalid", "--count", "1", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["reason"] == "unreachable"
