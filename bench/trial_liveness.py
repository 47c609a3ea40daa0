"""How soon liveness answers while every upstream is a black hole, and while the gateway is saturated. How often hosted
providers are pinged while ``/health/ready?ping=1`` is asked for without a pause.

    python bench/trial_liveness.py            # about 40 s; prints p50 and p99 in milliseconds

A real ``pulsegate serve`` with one worker; clients, engine and service share this machine's cores.
"""

import asyncio
import http.client
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from support.fake_providers import BASES, fake_provider
from support.gateways import Client
from support.service import chat, configured, engines, started

ASKS, PAUSE_S, LOAD = 400, 0.01, 64
PING_CLIENTS, PING_S = 20, 12


def liveness(port: int) -> list[float]:
    """Milliseconds of many calls of ``/health``, one after the other on one connection."""
    took: list[float] = []
    client = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(ASKS):
        began = time.perf_counter()
        client.request("GET", "/health")
        reply = client.getresponse()
        reply.read()
        took.append((time.perf_counter() - began) * 1000)
        assert reply.status == 200
        time.sleep(PAUSE_S)
    return took


def show(what: str, took: list[float]) -> None:
    took.sort()
    print(f"{what}: p50 {median(took):.2f} ms, p99 {took[int(0.99 * len(took))]:.2f} ms, worst {took[-1]:.2f} ms")


async def ask_for_ever(port: int, *, tokens: int) -> None:
    while True:
        async with Client(port) as client:
            try:
                while True:
                    if (await client.ask(chat(tokens=tokens, stream=True))).status != 200:
                        await asyncio.sleep(0.05)
            except (TimeoutError, ConnectionError):
                pass


async def measure(document: dict, folder: Path, what: str, load: int, *, wait_ready: bool) -> None:
    with started(folder, document) as run:
        await (run.ready() if wait_ready else run.serving())
        async with asyncio.TaskGroup() as tasks:
            busy = [tasks.create_task(ask_for_ever(run.port, tokens=64)) for _ in range(load)]
            await asyncio.sleep(2)
            # asked by a process of its own: ours is busy with being the clients
            asking = [sys.executable, __file__, str(run.port)]
            told = await asyncio.to_thread(subprocess.run, asking, capture_output=True, check=True)
            show(f"{what}, gateway port", json.loads(told.stdout))
            for task in busy:
                task.cancel()


async def hammer(folder: Path) -> None:
    """Ask for pings by many connections for some seconds, and look at what two providers saw of it."""
    loop, seen, asked = asyncio.get_running_loop(), {name: list[float]() for name in ("deepseek", "zhipu")}, 0

    async def ask(port: int) -> None:
        nonlocal asked
        async with Client(port) as client:
            while loop.time() < ends_at:
                assert (await client.ask(path="/health/ready?ping=1", method="GET")).status == 200
                asked += 1

    async with fake_provider("deepseek") as one, fake_provider("zhipu") as two:
        for fake in (one, two):
            listed, times = fake.models, seen[fake.name]
            route = f"GET {BASES[fake.name]}/models"
            fake.server.routes[route] = lambda _, listed=listed, times=times: times.append(loop.time()) or listed
        with started(folder, pinged({one.name: one.base_url, two.name: two.base_url})) as run:
            await run.serving()
            ends_at = loop.time() + PING_S
            async with asyncio.TaskGroup() as tasks:
                for _ in range(PING_CLIENTS):
                    tasks.create_task(ask(run.port))
    for name, times in seen.items():
        apart_s = min((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)
        print(
            f"?ping=1 {asked / PING_S:,.0f} times a second for {PING_S} s: {name} pinged {len(times)} times, ", end=""
        )
        print(f"{apart_s:.2f} s apart at least")


def pinged(providers: dict[str, str]) -> dict[str, object]:
    """Providers that nobody pings unless he is asked to."""
    rows = [{"name": name, "base_url": url, "api_key": "sk", "ping_interval": "off"} for name, url in providers.items()]
    models = [{"name": name, "provider": name} for name in providers]
    anywhere = {"listen": "127.0.0.1:0"}
    return {"gateway": anywhere, "admin": anywhere, "providers": rows, "models": models}


async def main() -> None:
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0), backlog=128) as hole:
        url = f"http://127.0.0.1:{hole.getsockname()[1]}"  # accepts by its backlog and never reads
        await measure(configured(url), Path(name), "every upstream is a black hole", 16, wait_ready=False)
        async with engines() as server:
            await measure(configured(server.url()), Path(name), f"{LOAD} streams at once", LOAD, wait_ready=True)
        await hammer(Path(name))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(liveness(int(sys.argv[1]))))
    else:
        asyncio.run(main())
