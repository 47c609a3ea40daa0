"""Several gateways, one probe: ``make trial-replicas`` or ``python -m bench.trial_replicas [--replicas 1,3,10,20]``.

Sixty simulated endpoints in this process, a redis-server, and so many ``pulsegate serve`` that share their probes. For
each number of replicas and each mode:

mean       probes per endpoint and interval while nothing happens: at most 1.05
most       probes that any endpoint got within one interval, through joins, leaves, kill -9 and SIGSTOP: at most 2
take-over  from a kill -9 to the first probe of each endpoint that the dead one had (p50, p99): at most two intervals
unprobed   the longest time that any endpoint went without a probe
heard      from the first replica that tells of a verdict to each other one (p50, p99): at most 250 ms

Then Redis is killed for a minute under three replicas that serve users, and comes back empty: no request may fail, and
the rate of all probes together must stay what it was.

Exit code 1 when one of these is violated. Needs redis-server.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

import uvloop

from bench.client import End, Seen, ask
from bench.house import Served, call, folder, machine
from bench.processes import Process, free_ports
from pulsegate.sim import EngineConfig, Load, SimServer, Spread

ENDPOINTS, INTERVAL_S = 60, 3.0
WINDOW_S = INTERVAL_S * 0.9  # jitter brings two neighbours that near
LOOK_EVERY_S = 0.02
TROUBLE_EVERY_S = 15.0
STOPPED_S = 6.0
MAX_MEAN, MAX_MOST, MAX_TAKE_OVER_S, MAX_HEARD_MS = 1.05, 2, 2 * INTERVAL_S, 250.0
BROKEN = "[{match: {path: gen}, do: [{error: 'CUDA error: an illegal memory access'}]}]"
VERDICTS = 24  # endpoints that are broken and mended to see how news travels


@dataclass(slots=True)
class Watch:
    """When each endpoint was probed, seen by the endpoint."""

    sim: SimServer
    times: list[list[float]] = field(default_factory=lambda: [[] for _ in range(ENDPOINTS)])

    async def run(self) -> None:
        known = [0] * ENDPOINTS
        while True:
            now = time.perf_counter()
            for number, engine in enumerate(self.sim.engines):
                known[number] = min(known[number], engine.counters.probes)  # a new script counts anew
                while known[number] < engine.counters.probes:
                    known[number] += 1
                    self.times[number].append(now)
            await asyncio.sleep(LOOK_EVERY_S)

    def mean(self, since: float, until: float) -> float:
        """Probes per endpoint and interval."""
        count = sum(since <= at < until for times in self.times for at in times)
        return count / ENDPOINTS / ((until - since) / INTERVAL_S)

    def most(self, since: float, until: float) -> int:
        """The most that one endpoint got within an interval that begins with a probe."""
        kept = [[at for at in times if since <= at < until] for times in self.times]
        return max((sum(at <= one < at + WINDOW_S for one in times) for times in kept for at in times), default=0)

    def longest_gap(self, since: float, until: float) -> float:
        """Without a probe."""
        gaps = (
            after - before
            for times in self.times
            for before, after in pairwise(times)
            if since <= before and after < until
        )
        return max(gaps, default=0.0)

    def first_after(self, number: int, at: float) -> float | None:
        return next((one for one in self.times[number] if one > at), None)


@dataclass(slots=True)
class House:
    """Replicas that can be started, ended, killed and stopped."""

    path: Path
    redis_port: int
    urls: list[str]
    mode: str
    running: dict[str, tuple[Process, Served]] = field(default_factory=dict)
    started: int = 0

    async def start(self) -> str:
        self.started += 1
        name = f"g{self.started}"
        free = {"listen": "127.0.0.1:0"}
        config = {
            "admin": free,
            "gateway": free,
            "probe": {
                "interval": f"{INTERVAL_S:g}s",
                "healthy_ttft": "400ms",
                "congested_ttft": "600ms",
                "timeout": "1s",
            },
            "models": [
                {
                    "name": "m",
                    "endpoints": [
                        {"id": f"e{n:02}", "url": url, "engine": "vllm", "model": "m"}
                        for n, url in enumerate(self.urls)
                    ],
                }
            ],
            "coordination": {"backend": "redis", "url": f"redis://127.0.0.1:{self.redis_port}", "mode": self.mode},
        }
        file = self.path / f"{name}.yaml"
        file.write_text(json.dumps(config))
        process = Process(
            [sys.executable, "-m", "pulsegate", "serve", "-c", str(file), "--log", "json"], self.path / f"{name}.log"
        )
        self.running[name] = process, await asyncio.to_thread(Served, process)
        return name

    async def all_healthy(self, patience_s: float = 90.0) -> None:
        wanted = {f"e{n:02}": "healthy" for n in range(ENDPOINTS)}
        for _, served in self.running.values():
            await asyncio.to_thread(served.await_states, wanted, patience_s)

    async def owned_by(self, name: str) -> list[int]:
        """Which endpoints this replica probes."""
        _, served = self.running[name]
        told = await asyncio.to_thread(call, f"{served.admin}/api/coordination")
        rows = await asyncio.to_thread(served.endpoints)
        return [int(row["id"][1:]) for row in rows if row["owner"] == told["member"]]

    async def end(self, name: str, number: signal.Signals) -> None:
        process, _ = self.running.pop(name)
        process.signal(number)
        await asyncio.to_thread(process.stop)

    async def stop_all(self) -> None:
        for name in list(self.running):
            await self.end(name, signal.SIGTERM)


class Redis:
    """A redis-server that keeps nothing on disk."""

    def __init__(self, path: Path, port: int) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            sys.exit("redis-server is needed: apt-get install redis-server")
        self._command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        self._path, self._port = path, port
        self._process: Process | None = None

    async def start(self) -> None:
        self._process = Process(self._command, self._path / "redis.log")
        await asyncio.to_thread(self._process.await_port, self._port)

    def kill(self) -> None:
        if self._process is not None:
            self._process.signal(signal.SIGKILL)
            self._process.stop()
            self._process = None


async def trouble(house: House, watch: Watch, seconds: float, chance: Random) -> list[float]:
    """Joins, leaves, kills and stops; how long each endpoint of a killed replica waited for its next probe."""
    waits: list[float] = []
    until = time.perf_counter() + seconds
    kinds = ("join", "kill", "stop", "leave")
    number = 0
    while time.perf_counter() + TROUBLE_EVERY_S < until:
        kind = kinds[number % len(kinds)]
        number += 1
        names = list(house.running)
        victim = names[0] if house.mode == "leader" else chance.choice(names)
        if kind == "join":
            await house.start()
        elif kind == "leave" and len(names) > 1:
            await house.end(victim, signal.SIGTERM)
            await house.start()
        elif kind == "kill" and len(names) > 1:
            owned = await house.owned_by(victim)
            died_at = time.perf_counter()
            await house.end(victim, signal.SIGKILL)
            await asyncio.sleep(3 * INTERVAL_S)
            waits += [again - died_at for n in owned if (again := watch.first_after(n, died_at)) is not None]
            await house.start()
        elif kind == "stop" and len(names) > 1:
            house.running[victim][0].signal(signal.SIGSTOP)
            await asyncio.sleep(STOPPED_S)
            house.running[victim][0].signal(signal.SIGCONT)
        await asyncio.sleep(TROUBLE_EVERY_S)
    return waits


async def news(house: House, sim: SimServer) -> list[float]:
    """How much later than the first each replica tells of a verdict, in ms."""
    seen: dict[str, dict[str, float]] = {}

    async def listen(name: str, admin: str) -> None:
        host, port = admin.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /api/events HTTP/1.1\r\nHost: sim\r\n\r\n")
        while line := await reader.readline():
            if line.startswith(b"data:") and b'"unhealthy"' in line and b'"cuda"' in line:
                said = json.loads(line[5:])
                seen.setdefault(said["endpoint"], {}).setdefault(name, time.perf_counter())

    async with asyncio.TaskGroup() as group:
        listeners = [group.create_task(listen(name, served.admin)) for name, (_, served) in house.running.items()]
        await asyncio.sleep(0.5)
        for number in range(VERDICTS):
            sim.engine(number).set_script(BROKEN)
            await asyncio.sleep(0.3)
        await asyncio.sleep(2 * INTERVAL_S)
        for one in listeners:
            one.cancel()
    for number in range(VERDICTS):
        sim.engine(number).set_script("[]")
    return [
        1000 * (at - min(by_replica.values())) for by_replica in seen.values() for at in sorted(by_replica.values())[1:]
    ]


def quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


HEAD = "mode    replicas  mean  most  take-over p50   p99  unprobed  heard p50    p99"


@contextlib.asynccontextmanager
async def stage(count: int, mode: str) -> AsyncIterator[tuple[House, Watch, Redis]]:
    """So many replicas over sixty engines, all healthy."""
    config = EngineConfig(engine="vllm", model="m", load=Load(ttft=Spread(median_s=0.005)))
    with folder() as path:
        async with SimServer([config] * ENDPOINTS, ports=True) as sim, asyncio.TaskGroup() as group:
            port = free_ports(1)
            house, watch = House(path, port, [sim.url(n) for n in range(ENDPOINTS)], mode), Watch(sim)
            watching, store = group.create_task(watch.run()), Redis(path, port)
            try:
                await store.start()
                for _ in range(count):
                    await house.start()
                await house.all_healthy()
                await asyncio.sleep(2 * INTERVAL_S)
                yield house, watch, store
            finally:
                watching.cancel()
                await house.stop_all()
                store.kill()


async def run_row(mode: str, count: int, seconds: float, chance: Random) -> bool:
    async with stage(count, mode) as (house, watch, _):
        calm_from = time.perf_counter()
        await asyncio.sleep(seconds / 3)
        calm_until = time.perf_counter()
        heard = await news(house, watch.sim) if count > 1 else []
        await house.all_healthy()
        rough_from = time.perf_counter()
        waits = await trouble(house, watch, seconds * 2 / 3, chance)
        rough_until = time.perf_counter()
    mean, most = watch.mean(calm_from, calm_until), watch.most(rough_from, rough_until)
    gaps = watch.longest_gap(calm_from, calm_until), watch.longest_gap(rough_from, rough_until)
    taken, told = quantile(waits, 0.99), quantile(heard, 0.99)
    ok = mean <= MAX_MEAN and most <= MAX_MOST and taken <= MAX_TAKE_OVER_S and told <= MAX_HEARD_MS
    print(
        f"{mode:<8}{count:>8}  {mean:>4.2f}  {most:>4}  {quantile(waits, 0.5):>11.2f} s {taken:>4.1f}  "
        f"{gaps[0]:>3.1f}/{gaps[1]:>3.1f}  {quantile(heard, 0.5):>6.0f} ms {told:>6.0f}"
        f"{'' if ok else '  over a limit'}",
        flush=True,
    )
    return ok


async def use(house: House, seconds: float) -> list[Seen]:
    """Users ask all replicas in turn, ten times a second."""
    asked: list[asyncio.Task[Seen]] = []
    until = time.perf_counter() + seconds
    body = {"model": "m", "max_tokens": 8, "stream": True, "messages": [{"role": "user", "content": "count"}]}
    async with asyncio.TaskGroup() as group:
        while time.perf_counter() < until:
            for _, served in house.running.values():
                asked.append(group.create_task(ask(f"{served.gateway}/v1/chat/completions", body)))
                await asyncio.sleep(0.1)
    return [one.result() for one in asked]


async def run_outage(seconds: float) -> bool:
    async with stage(3, "shard") as (house, watch, store), asyncio.TaskGroup() as group:
        using = group.create_task(use(house, 3 * seconds + 2))
        marks = [time.perf_counter()]
        await asyncio.sleep(seconds)
        store.kill()
        marks.append(time.perf_counter())
        await asyncio.sleep(seconds / 2)
        readiness = [call(f"{served.admin}/health/ready")["status"] for _, served in house.running.values()]
        await asyncio.sleep(seconds / 2)
        await store.start()
        marks.append(time.perf_counter())
        await asyncio.sleep(seconds)
        marks.append(time.perf_counter())
        seen = await using
    failed = [one for one in seen if one.end is not End.WHOLE]
    before, meanwhile, after = (watch.mean(since, until) for since, until in pairwise(marks))
    storm = watch.mean(marks[2], marks[2] + 2 * INTERVAL_S)
    print(
        f"Redis away for {seconds:g} s: {len(seen)} requests, {len(failed)} failed. Probes per endpoint and interval: "
        f"{before:.2f} before, {meanwhile:.2f} meanwhile, {after:.2f} after, {storm:.2f} in the first two intervals. "
        f"Readiness meanwhile: {', '.join(readiness)}"
    )
    return not failed and max(before, meanwhile, after) <= 1.15 and storm <= 1.5 and set(readiness) == {"degraded"}


async def run(modes: list[str], counts: list[int], minutes: float) -> bool:
    chance = Random(1)
    good = True
    print(machine())
    print(HEAD)
    for mode in modes:
        for count in counts:
            good = await run_row(mode, count, 60 * minutes, chance) and good
    return await run_outage(min(60.0, 60 * minutes)) and good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", default="1,3,10,20")
    parser.add_argument("--modes", default="shard,leader")
    parser.add_argument("--minutes", type=float, default=5.0, help="for each number of replicas")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        good = runner.run(run(args.modes.split(","), [int(one) for one in args.replicas.split(",")], args.minutes))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
