"""A real ``pulsegate serve`` with its workers, on free ports: started, asked, signalled, killed, and what it logs."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from pulsegate.sim import EngineConfig, Load, SimServer, Spread
from support.gateways import Client, Reply, until
from support.http_client import Answer, request

# A loaded machine must not make an endpoint look ill: what is tested here is processes, not verdicts.
PATIENT = {"interval": "2500ms", "healthy_ttft": "1500ms", "congested_ttft": "1800ms", "timeout": "2s"}
PATIENCE_S = 30.0
SERVED = "engine-name"  # what the simulated engines call their model


def engine(**load: Any) -> EngineConfig:
    """An engine that is quick, unless told otherwise."""
    fields: dict[str, Any] = {"slots": 1000, "ttft": Spread(median_s=0.002), "itl_s": 0.002}
    return EngineConfig(engine="vllm", model=SERVED, load=Load(**{**fields, **load}))


def configured(*urls: str, **sections: Any) -> dict[str, Any]:
    """A configuration in which the model ``small`` is served by these endpoints, ``e0``, ``e1``..."""
    endpoints = [{"id": f"e{n}", "url": url, "engine": "vllm"} for n, url in enumerate(urls)]
    document = {"probe": PATIENT, "models": [{"name": "small", "endpoints": endpoints}], **sections}
    document["gateway"] = {"listen": "127.0.0.1:0", **document.get("gateway", {})}
    document["admin"] = {"listen": "127.0.0.1:0", **document.get("admin", {})}
    return document


def chat(*, tokens: int = 4, stream: bool = False, model: str = "small") -> dict[str, Any]:
    messages = [{"role": "user", "content": "count"}]
    return {"model": model, "messages": messages, "max_tokens": tokens, "ignore_eos": True, "stream": stream}


class Service:
    """The process and its two addresses."""

    def __init__(self, folder: Path, document: dict[str, Any], *options: str) -> None:
        self.config = folder / "pulsegate.yaml"
        self.configure(document)
        self._out = folder / f"stdout-{id(self)}"
        self._err = folder / f"stderr-{id(self)}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            leash = ["-m", "pulsegate.embedded.leash", str(os.getpid()), str(int(signal.SIGKILL))]
            command = [sys.executable, *leash, sys.executable, "-m", "pulsegate", "serve", "-c", str(self.config)]
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [*command, *options], stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
            )
        self._left: list[int] = []
        self.port = 0
        self.admin = ""

    def configure(self, document: dict[str, Any]) -> None:
        """Write the configuration file anew."""
        self.config.write_text(yaml.safe_dump(document))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status, None while it runs."""
        return self._process.poll()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its log."""
        return [json.loads(line) for line in self._out.read_text().splitlines() if line.startswith("{")]

    @property
    def errors(self) -> str:
        """What it and its workers wrote to standard error."""
        return self._err.read_text()

    def logged(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    async def log(self, event: str, count: int = 1) -> dict[str, Any]:
        """The line number ``count`` about this event, once it is there."""
        await until(lambda: len(self.logged(event)) >= count or self.status is not None, patience_s=PATIENCE_S)
        assert len(self.logged(event)) >= count, f"no {event!r} in {self.lines}; {self.errors}"
        return self.logged(event)[count - 1]

    async def serving(self) -> None:
        """Until it serves; learns its addresses."""
        line = await self.log("serving")
        self.port = int(urlsplit(line["gateway"]).port or 0)
        self.admin = line["admin"]

    async def ready(self) -> None:
        """Until every endpoint is healthy and the gateway knows."""
        await self.serving()
        async with asyncio.timeout(PATIENCE_S):
            while not await self.is_ready() or {row["state"] for row in await self.endpoints()} != {"healthy"}:  # noqa: ASYNC110 - what is waited for is another process
                await asyncio.sleep(0.05)

    async def is_ready(self) -> bool:
        """What the gateway itself says."""
        reply = await self.ask(path="/health/ready", method="GET")
        return reply.json["status"] == "ready"

    async def ask(self, *args: Any, **how: Any) -> Reply:
        """One request to the gateway on a connection of its own."""
        async with Client(self.port) as client:
            return await client.ask(*args, **how)

    async def ask_admin(self, path: str, method: str = "GET") -> Answer:
        return await request(self.admin, path, method=method)

    async def endpoints(self) -> list[dict[str, Any]]:
        return (await self.ask_admin("/api/endpoints")).json["endpoints"]

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples with this name and these labels."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        lines = (await self.ask_admin("/metrics")).body.decode().splitlines()
        found = [line for line in lines if line.partition(" ")[0].partition("{")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in found if all(label in line for label in wanted))

    def workers(self) -> list[int]:
        """The process ids of its workers that run."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in children.read_text().split() if not is_dead(int(pid))]

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """Ctrl-C: the terminal sends it to the whole foreground process group."""
        os.killpg(self.pid, signal.SIGINT)

    async def ended(self, within_s: float = PATIENCE_S) -> int:
        """Its exit status, once it has ended."""
        await until(lambda: self.status is not None, patience_s=within_s)
        assert self.status is not None
        return self.status

    def kill(self) -> None:
        """``kill -9``: its workers are left alone."""
        if self.status is None:
            self._left += self.workers()
        self._process.kill()
        self._process.wait()

    def clear_away(self) -> None:
        """Kill what is left of it."""
        self.kill()
        for pid in self._left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_dead(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@asynccontextmanager
async def service(folder: Path, document: dict[str, Any], *options: str) -> AsyncIterator[Service]:
    """A service whose endpoints are healthy; whatever is left of it at the end is killed."""
    with started(folder, document, *options) as run:
        await run.ready()
        yield run


@contextlib.contextmanager
def started(folder: Path, document: dict[str, Any], *options: str) -> Iterator[Service]:
    """A service that was started only just."""
    run = Service(folder, document, *options)
    try:
        yield run
    finally:
        run.clear_away()


@asynccontextmanager
async def engines(*configs: EngineConfig) -> AsyncIterator[SimServer]:
    """Simulated engines in this process, each on a port of its own."""
    async with SimServer(configs or [engine()], ports=True) as server:
        yield server
