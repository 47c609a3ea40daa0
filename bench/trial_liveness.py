"""How soon liveness answers while every upstream is a black hole, and while the gateway is saturated.

    python bench/trial_liveness.py            # about 25 s; prints p50 and p99 in milliseconds

A real ``pulsegate serve`` with one worker; clients, engine and service share this machine's cores.
"""

import asyncio
import http.client
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from support.gateways import Client
from support.service import chat, configured, engines, started

ASKS, PAUSE_S, LOAD = 400, 0.01, 64


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


async def main() -> None:
    with tempfile.TemporaryDirectory() as name, socket.create_server(("127.0.0.1", 0), backlog=128) as hole:
        url = f"http://127.0.0.1:{hole.getsockname()[1]}"  # accepts by its backlog and never reads
        await measure(configured(url), Path(name), "every upstream is a black hole", 16, wait_ready=False)
        async with engines() as server:
            await measure(configured(server.url()), Path(name), f"{LOAD} streams at once", LOAD, wait_ready=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(liveness(int(sys.argv[1]))))
    else:
        asyncio.run(main())
