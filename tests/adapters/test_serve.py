"""``pulsegate serve`` as a process: start, reload, stop, and what it says when it cannot."""

import asyncio
import contextlib
import json
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pulsegate.sim import EngineConfig, SimServer
from support.http_client import request


class Served:
    """The process, its address and its log."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, lines: list[dict[str, Any]]) -> None:
        self.process = process
        self.url = url
        self.lines = lines

    async def line(self) -> dict[str, Any]:
        """The next line of the log."""
        assert self.process.stdout is not None
        async with asyncio.timeout(15):
            raw = await self.process.stdout.readline()
        assert raw, f"it ended: {self.lines}"
        self.lines.append(json.loads(raw))
        return self.lines[-1]

    async def log(self, event: str) -> dict[str, Any]:
        """The next line about ``event``."""
        while (line := await self.line())["event"] != event:
            pass
        return line

    async def all_healthy(self, count: int) -> None:
        """Until that many endpoints have been told to be healthy, now or before."""
        while len({line["endpoint"] for line in self.lines if line.get("new") == "healthy"}) < count:
            await self.line()

    async def row(self, number: int) -> dict[str, Any]:
        return (await request(self.url, "/api/endpoints")).json["endpoints"][number]


async def start(config: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pulsegate", "serve", "-c", str(config),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


@contextlib.asynccontextmanager
async def serving(config: Path) -> AsyncGenerator[Served]:
    process = await start(config)
    served = Served(process, "", [])
    try:
        served.url = (await served.log("serving"))["admin"]
        yield served
    finally:
        if process.returncode is None:
            process.terminate()  # not killed: its workers would go on without it, as they should
        await process.communicate()


def write(path: Path, urls: list[str], admin: str = "127.0.0.1:0") -> Path:
    endpoints = ", ".join(f"{{url: '{url}', engine: vllm, model: m}}" for url in urls)
    path.write_text(
        f"admin: {{listen: '{admin}'}}\ngateway: {{listen: '127.0.0.1:0'}}\n"
        "probe: {interval: 300ms, healthy_ttft: 100ms, congested_ttft: 150ms, timeout: 250ms}\n"
        f"models:\n  - {{name: m, endpoints: [{endpoints}]}}\n"
    )
    return path


@pytest.fixture
async def sims() -> AsyncGenerator[SimServer]:
    async with SimServer([EngineConfig(engine="vllm", model="m") for _ in range(2)]) as server:
        yield server


async def test_serves_reloads_refuses_a_bad_reload_and_stops_cleanly(tmp_path: Path, sims: SimServer) -> None:
    config = write(tmp_path / "pulsegate.yaml", [sims.url(0)])
    async with serving(config) as served:
        await served.all_healthy(1)
        assert (await served.row(0))["state"] == "healthy"

        config.write_text("models: [{nme: m}]\n")
        served.process.send_signal(signal.SIGHUP)
        refused = await served.log("reload refused, the old configuration stays")
        assert any("nme" in problem for problem in refused["problems"])
        assert (await served.row(0))["state"] == "healthy"

        write(config, [sims.url(0), sims.url(1)], admin="127.0.0.1:9")
        served.process.send_signal(signal.SIGHUP)
        assert (await served.log("reloaded"))["endpoints"] == 2
        assert (await served.log("takes effect at the next start"))["setting"] == "admin.listen"
        assert (await served.row(0))["state"] == "healthy", "what stays keeps its state"

        served.process.send_signal(signal.SIGTERM)
        assert (await served.log("stopping"))["why"] == "SIGTERM"
        assert (await served.log("stopped"))["cut"] == 0
        assert await served.process.wait() == 0
        assert served.process.stderr is not None
        assert await served.process.stderr.read() == b""


async def test_ctrl_c_stops_it(tmp_path: Path, sims: SimServer) -> None:
    async with serving(write(tmp_path / "pulsegate.yaml", [sims.url(0)])) as served:
        served.process.send_signal(signal.SIGINT)
        assert await served.process.wait() == 0


async def test_a_process_that_was_stopped_condemns_nobody_when_it_goes_on(tmp_path: Path, sims: SimServer) -> None:
    async with serving(write(tmp_path / "pulsegate.yaml", [sims.url(0), sims.url(1)])) as served:
        await served.all_healthy(2)
        for _ in range(3):
            served.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(1.5)  # longer than a probe's deadline: this is a real process
            served.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(0.4)
        assert [(await served.row(number))["state"] for number in (0, 1)] == ["healthy", "healthy"]
        assert not [line for line in served.lines if line.get("new") == "unhealthy"]


async def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        process = await start(write(tmp_path / "pulsegate.yaml", ["http://127.0.0.1:1"], admin=address))
        _, said = await process.communicate()
    assert process.returncode == 3
    advice = "the address is in use; stop what listens there or choose another port"
    assert said.decode() == f"pulsegate: admin.listen: cannot listen on {address}: {advice}\n"


async def test_a_bad_configuration_is_explained(tmp_path: Path) -> None:
    config = tmp_path / "pulsegate.yaml"
    config.write_text("modles: []\n")
    process = await start(config)
    _, said = await process.communicate()
    assert process.returncode == 3
    assert "modles" in said.decode()
    assert "Traceback" not in said.decode()


async def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    process = await start(tmp_path / "absent.yaml")
    _, said = await process.communicate()
    assert process.returncode == 3
    assert "does not exist" in said.decode()
