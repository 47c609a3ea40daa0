"""The admin API over real sockets, with the real board and prober over fake engines."""

import asyncio
import contextlib
import io
import re
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from random import Random

import msgspec
import pytest

from pulsegate.app import Control, ListenError, Parts, run_control
from pulsegate.config.loading import Config, parse
from pulsegate.control.clock import SystemClock
from pulsegate.export.logs import LogFormat, open_log
from support.fake_engine import CUDA, FAST, FakeEngine, FakeFactory
from support.http_client import connect, read_head, request

YAML = """
admin: {listen: '127.0.0.1:0'}
probe: {interval: 200ms, healthy_ttft: 100ms, congested_ttft: 110ms, timeout: 150ms, deep_interval: 1h}
models:
  - name: sound
    endpoints: [{url: 'http://127.0.0.1:1/a'}, {url: 'unix:/run/eng/b.sock', api_key: sk-very-secret}]
  - name: broken
    endpoints: [{url: 'http://127.0.0.1:3'}]
"""
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00")


def config_of(text: str = YAML) -> Config:
    return parse(text.encode(), Path("test.yaml"), {})


@contextlib.asynccontextmanager
async def running(text: str = YAML, out: io.StringIO | None = None) -> AsyncGenerator[Control]:
    clock = SystemClock()
    factory = FakeFactory(lambda spec: FakeEngine(lambda _at: CUDA if spec.pool == "broken" else FAST))
    parts = Parts(
        log=open_log(clock, LogFormat.JSON, out or io.StringIO()), clock=clock, rng=Random(1), open_engine=factory
    )
    async with run_control(config_of(text), parts) as control:
        yield control


async def eventually(control: Control, endpoint: str, state: str) -> None:
    """Until the endpoint is in that state; the events say when to look again."""
    async with asyncio.timeout(10):
        version = -1
        while str(control.desk.status(endpoint).state) != state:
            version = (await control.snapshots.newer_than(version)).version


async def settled(control: Control) -> tuple[str, str, str]:
    a, b, c = control.desk.ids()
    await eventually(control, a, "healthy")
    await eventually(control, b, "healthy")
    await eventually(control, c, "unhealthy")
    return a, b, c


def encoded(endpoint: str) -> str:
    return "".join(char if char.isalnum() else f"%{ord(char):02X}" for char in endpoint)


async def test_health_says_that_the_process_lives() -> None:
    async with running() as control:
        for path in ("/health", "/livez"):
            answer = await request(control.url, path)
            assert (answer.status, answer.json["status"]) == (200, "ok")
            assert ISO.fullmatch(answer.json["checked_at"])
            assert answer.json["uptime_s"] >= 0


async def test_readiness_tells_ready_degraded_and_not_ready_apart() -> None:
    async with running() as control:
        before = await request(control.url, "/health/ready")
        await settled(control)
        after = await request(control.url, "/readyz")
    assert (before.status, before.json["status"]) == (503, "not_ready")
    assert (after.status, after.json["status"]) == (200, "degraded")
    assert after.json["pools"] == {"sound": "up", "broken": "down"}
    assert after.json["reasons"] == ["pool broken serves nobody"]


async def test_the_list_has_the_promised_fields_and_no_secret() -> None:
    async with running() as control:
        a, b, c = await settled(control)
        answer = await request(control.url, "/api/endpoints")
        rows = {row["id"]: row for row in answer.json["endpoints"]}
    assert list(rows) == [a, b, c]
    assert b"secret" not in answer.body
    promised = [
        "id",
        "model",
        "url",
        "engine",
        "state",
        "reason",
        "since",
        "weight",
        "ttft_ms",
        "inflight",
        "incarnation",
        "last_probe_at",
    ]
    assert all(name in rows[a] for name in promised)
    assert (rows[a]["state"], rows[a]["model"], rows[a]["ejected"]) == ("healthy", "sound", False)
    assert (rows[c]["state"], rows[c]["reason"], rows[c]["weight"]) == ("unhealthy", "cuda", 0)
    assert ISO.fullmatch(rows[a]["since"])
    assert ISO.fullmatch(rows[a]["last_probe_at"])
    assert 40 <= rows[a]["ttft_ms"] <= 60


async def test_one_endpoint_shows_its_last_probes_and_transitions_however_its_id_is_written() -> None:
    async with running() as control:
        _, b, c = await settled(control)
        for path in (encoded(b), b):
            shown = await request(control.url, f"/api/endpoints/{path}")
            assert (shown.status, shown.json["id"]) == (200, b)
        assert b"secret" not in shown.body
        probe = shown.json["last_probes"][-1]
        assert (probe["outcome"], probe["text"], probe["fault"]) == ("token", "4", None)
        assert probe["phases_ms"]["first_token"] == 50.0
        assert shown.json["transitions"][-1]["new"] == "healthy"
        broken = (await request(control.url, f"/api/endpoints/{encoded(c)}")).json
        assert broken["last_probes"][-1]["fault"]["kind"] == "cuda"


async def test_the_verdict_is_a_status_code() -> None:
    async with running() as control:
        a, _, c = await settled(control)
        good = await request(control.url, f"/api/endpoints/{encoded(a)}/verdict")
        bad = await request(control.url, f"/api/endpoints/{encoded(c)}/verdict")
    assert (good.status, good.json["verdict"]) == (200, "healthy")
    assert (bad.status, bad.json["verdict"], bad.json["reason"]) == (503, "unhealthy", "cuda")


async def test_drain_and_undrain() -> None:
    async with running() as control:
        a, _, _ = await settled(control)
        drained = await request(control.url, f"/api/endpoints/{encoded(a)}/drain", method="POST")
        assert (drained.status, drained.json["state"], drained.json["weight"]) == (200, "draining", 0)
        given_back = await request(control.url, f"/api/endpoints/{encoded(a)}/undrain", method="POST")
        assert given_back.json["state"] != "draining"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/endpoints/nobody", 404, "unknown_endpoint"),
        ("GET", "/api/endpoints/%00", 404, "unknown_endpoint"),
        ("GET", "/api/endpoints/%FF%FE", 404, "unknown_endpoint"),
        ("POST", "/api/endpoints/nobody/drain", 404, "unknown_endpoint"),
        ("GET", "/api/endpoints/{a}/drain", 405, "method_not_allowed"),
        ("POST", "/api/endpoints/{a}/verdict", 405, "method_not_allowed"),
        ("POST", "/api/endpoints", 405, "method_not_allowed"),
        ("DELETE", "/api/endpoints/{a}", 405, "method_not_allowed"),
        ("GET", "/nothing", 404, "not_found"),
    ],
)
async def test_errors_are_json(method: str, path: str, status: int, code: str) -> None:
    async with running() as control:
        known = encoded(control.desk.ids()[0])
        answer = await request(control.url, path.format(a=known), method=method)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"


async def test_a_page_of_another_site_may_not_drain() -> None:
    async with running() as control:
        path = f"/api/endpoints/{encoded(control.desk.ids()[0])}/drain"
        foreign = await request(control.url, path, method="POST", headers={"origin": "https://evil.test"})
        own = await request(control.url, path, method="POST", headers={"origin": control.url})
    assert (foreign.status, foreign.json["error"]["code"]) == (403, "foreign_origin")
    assert own.status == 200


async def test_metrics_hold_pools_and_endpoints_and_drop_them_with_the_fleet() -> None:
    async with running() as control:
        _, _, c = await settled(control)
        page = (await request(control.url, "/metrics")).body.decode()
        assert f'pulsegate_endpoint_state{{endpoint="{c}",pool="broken",state="unhealthy"}} 1' in page
        assert re.search(r'pulsegate_ejections_detected_total\{pool="broken"\} 1', page)
        assert re.search(r'pulsegate_probes_total\{kind="micro",outcome="fatal",pool="broken"\} [1-9]', page)
        assert "secret" not in page
        smaller = YAML.partition("  - name: broken")[0]
        control.change(config_of(smaller).fleet())
        assert "broken" not in (await request(control.url, "/metrics")).body.decode()


async def test_events_tell_of_a_transition_as_it_happens() -> None:
    async with running() as control:
        a, _, _ = await settled(control)
        reader, writer = await connect(control.url, "/api/events")
        status, headers = await read_head(reader)
        assert (status, headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        await reader.readuntil(b"retry: 2000\n\n")
        await request(control.url, f"/api/endpoints/{encoded(a)}/drain", method="POST")
        frame = (await reader.readuntil(b"event: transition\n") + await reader.readuntil(b"\n\n")).decode()
        event = msgspec.json.decode(frame.partition("data: ")[2].partition("\n")[0])
        assert (event["endpoint"], event["new"]) == (a, "draining")
        writer.close()


async def test_open_event_streams_do_not_hold_up_the_end() -> None:
    async with asyncio.timeout(5):
        async with running() as control:
            reader, writer = await connect(control.url, "/api/events")
            await reader.readuntil(b"retry: 2000\n\n")
        assert await reader.read() is not None
        writer.close()


async def test_a_client_that_leaves_is_forgotten() -> None:
    async with asyncio.timeout(10), running("admin: {listen: '127.0.0.1:0'}") as control:
        before = len(asyncio.all_tasks())
        for _ in range(3):
            reader, writer = await connect(control.url, "/api/events")
            await reader.readuntil(b"retry: 2000\n\n")
            assert len(asyncio.all_tasks()) > before
            writer.close()
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - a real socket: there is no event for its end
                await asyncio.sleep(0.01)


async def test_every_answer_has_a_request_id() -> None:
    async with running() as control:
        own = await request(control.url, "/health", headers={"x-request-id": "mine-1"})
        made = await request(control.url, "/nothing")
    assert own.headers["x-request-id"] == "mine-1"
    assert re.fullmatch("[0-9a-f]{32}", made.headers["x-request-id"])


async def test_a_taken_port_is_named_with_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenError, match=rf"admin\.listen: cannot listen on 127\.0\.0\.1:{port}: .*in use"):
            async with running(YAML.replace("127.0.0.1:0", f"127.0.0.1:{port}")):
                raise AssertionError("it listens although the port is taken")


async def test_nothing_configured_is_not_ready_and_still_alive() -> None:
    async with running("admin: {listen: '127.0.0.1:0'}") as control:
        assert (await request(control.url, "/health")).status == 200
        ready = await request(control.url, "/health/ready")
        assert (ready.status, ready.json["reasons"]) == (
            503,
            ["nothing is configured"],
        )
        assert (await request(control.url, "/api/endpoints")).json == {"endpoints": []}


async def test_secrets_are_in_no_log_line() -> None:
    out = io.StringIO()
    async with running(out=out) as control:
        await settled(control)
    assert "endpoint changed" in out.getvalue()
    assert "secret" not in out.getvalue()
