"""Kill -9 under load: ``make trial-ledger`` or ``python -m bench.trial_ledger [--kills 200] [--seed 1]``.

Clients ask a self-hosted model through ``pulsegate serve`` with two workers; each request has an id of its own. At
random moments a worker, serving or just starting, or the control process is killed; the control process is started
again at once. At the end:

missing   requests that were answered whole and are not in the ledger: must be 0
twice     requests that are there more than once: must be 0
torn      lines that are no records after ``pulsegate ledger repair``: must be 0
gave up   control processes that ended without having been killed: must be 0

Exit code 1 when one of these is violated.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

import h11
import uvloop

from bench.house import Served, folder, machine, sims
from bench.processes import Process, free_ports, tree
from pulsegate.ledger.lines import ENTRIES
from pulsegate.ledger.reading import chunks, decoded
from pulsegate.ledger.repairing import repair
from pulsegate.ledger.segments import segments
from pulsegate.ledger.verifying import verify

CLIENTS, WORKERS = 16, 2
PAUSE_S = (0.0, 3.0)  # between two kills: starting takes a worker about a second
CONTROL_SHARE = 0.3
GAVE_UP = "gave up"
PATIENCE_S = 30.0  # for a worker to kill; meanwhile the control process dies in whatever state it is


async def _ask(port: int, name: str, *, stream: bool) -> bool:
    """Whether the answer came whole: a body with its proper end, and status 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    http = h11.Connection(h11.CLIENT)
    try:
        body = json.dumps(
            {"model": "m", "stream": stream, "max_tokens": 4, "messages": [{"role": "user", "content": name}]}
        ).encode()
        fields = [("host", "g"), ("x-request-id", name), ("content-length", str(len(body)))]
        fields.append(("content-type", "application/json"))
        writer.write(http.send(h11.Request(method="POST", target="/v1/chat/completions", headers=fields)) or b"")
        writer.write(http.send(h11.Data(data=body)) or b"")
        http.send(h11.EndOfMessage())
        status, told = 0, b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                told += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status == 200 and b'"error"' not in told
            elif isinstance(event, h11.ConnectionClosed):
                return False
    finally:
        writer.transport.abort()


async def _client(port: int, who: int, ending: asyncio.Event, whole: list[str], counted: Counter[str]) -> None:
    number = 0
    while not ending.is_set():
        number += 1
        name = f"c{who}-{number}"
        try:
            async with asyncio.timeout(10):
                good = await _ask(port, name, stream=number % 2 == 0)
        except (OSError, TimeoutError, h11.RemoteProtocolError) as exc:
            counted[type(exc).__name__] += 1
            await asyncio.sleep(0.01)
            continue
        counted["whole" if good else "broken"] += 1
        if good:
            whole.append(name)


class _House:
    """``pulsegate serve`` on fixed ports, so that it comes back where it was."""

    def __init__(self, path: Path, config: dict) -> None:
        self._path, self._lives = path, 0
        self._file = path / "pulsegate.yaml"
        self._file.write_text(json.dumps(config))
        self.process = self._start()
        Served(self.process).await_states({"e0": "healthy", "e1": "healthy"})

    def _start(self) -> Process:
        self._lives += 1
        command = [sys.executable, "-m", "pulsegate", "serve", "-c", str(self._file), "--log", "json"]
        return Process(command, self._path / f"serve-{self._lives}.log")

    def kill(self, chance: Random) -> str:
        """Kill somebody; says whom, or that the control process had ended by itself."""
        if self.process.ended:
            self.process = self._start()
            return GAVE_UP
        workers = [] if chance.random() < CONTROL_SHARE else self._workers()
        if workers:
            os.kill(chance.choice(workers), signal.SIGKILL)
            return "killed worker"
        self.process.signal(signal.SIGKILL)
        while not self.process.ended:
            time.sleep(0.001)
        self.process = self._start()
        return "killed control"

    def _workers(self) -> list[int]:
        """Of the control process that lives: one that has just taken over has none yet."""
        deadline = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < deadline and not self.process.ended:
            if workers := [pid for pid in tree(self.process.pid) if pid != self.process.pid]:
                return workers
            time.sleep(0.02)
        return []


async def _torment(house: _House, kills: int, chance: Random, counted: Counter[str]) -> None:
    for _ in range(kills):
        await asyncio.sleep(chance.uniform(*PAUSE_S))
        try:
            counted[await asyncio.to_thread(house.kill, chance)] += 1
        except ProcessLookupError:
            counted["nobody to kill"] += 1


async def _trial(house: _House, port: int, kills: int, chance: Random) -> tuple[list[str], Counter[str]]:
    ending, whole, counted = asyncio.Event(), list[str](), Counter[str]()
    async with asyncio.TaskGroup() as group:
        for who in range(CLIENTS):
            group.create_task(_client(port, who, ending, whole, counted))
        await _torment(house, kills, chance, counted)
        await asyncio.sleep(1)
        ending.set()
    return whole, counted


def _booked(ledger: Path) -> Iterable[str]:
    for path in segments(ledger):
        for chunk in chunks(path):
            for entry in decoded(chunk.data, ENTRIES)[0]:
                if entry.kind == "request" and entry.status == 200 and entry.usage == "reported":
                    yield entry.request_id


def run(kills: int, seed: int) -> bool:
    with folder() as path, sims(path, 2, "--ttft", "5ms", "--itl", "1ms") as engines:
        ledger, port = path / "ledger.jsonl", free_ports(2)
        rows = [{"id": f"e{n}", "url": e.url, "engine": e.engine, "model": e.model} for n, e in enumerate(engines)]
        config = {
            "gateway": {"listen": f"127.0.0.1:{port}", "workers": WORKERS},
            "admin": {"listen": f"127.0.0.1:{port + 1}"},
            "models": [{"name": "m", "endpoints": rows}],
            "costs": {"ledger": str(ledger), "rotate_size": "1MiB"},
        }
        house = _House(path, config)
        try:
            whole, counted = uvloop.run(_trial(house, port, kills, Random(seed)))
        finally:
            house.process.stop(20)
        time.sleep(3)  # orphans of a killed control process end, too
        return _report(ledger, whole, counted)


def _report(ledger: Path, whole: list[str], counted: Counter[str]) -> bool:
    before = verify(ledger)
    repaired = repair(ledger, time.time())  # noqa: TID251 - a measurement reads clocks
    after = verify(ledger)
    booked = Counter(_booked(ledger))
    missing = [name for name in whole if not booked[name]]
    twice = [name for name in whole if booked[name] > 1]
    print(f"seen      {dict(counted)}")
    print(f"ledger    {before.lines} lines in {before.files} files, {before.torn} torn, {len(repaired)} files repaired")
    print(f"answered  {len(whole)}")
    print(f"missing   {len(missing)} {missing[:5] or ''}")
    print(f"twice     {len(twice) + after.twice}")
    print(f"torn      {after.torn + after.unended}")
    print(f"gave up   {counted[GAVE_UP]}")
    return not missing and not twice and after.is_sound and not counted[GAVE_UP]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}; {args.kills} kills, seed {args.seed}")
    good = run(args.kills, args.seed)
    print("ok" if good else "violated")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
