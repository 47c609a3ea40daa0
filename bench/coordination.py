"""How soon others hear, and what it costs a Redis: ``python -m bench.coordination [--replicas 10] [--words 1000]``.

All replicas live in one process and on one event loop, so their own work is part of what is measured.

hearing   from ``tell`` to ``heard`` at each of the others: one value of 300 bytes at a time, every 5 ms
idle      commands a second on the Redis while nobody says anything, and its CPU time
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.house import machine
from pulsegate.control.coordination import View, Words
from pulsegate.coordination.redis import RedisCoordinator
from pulsegate.core.coordination import CoordinationSpec, RedisAddress, RedisSpec
from pulsegate.core.ids import MemberId

VALUE_BYTES = 300
PACE_S = 0.005
IDLE_S = 10.0


class Ear:
    """Implements ``Listener``; notes when each number was heard."""

    def __init__(self, heard_at: list[float], told_at: dict[bytes, float]) -> None:
        self.view = View(0, ())
        self._heard_at = heard_at
        self._told_at = told_at

    def joined(self, view: View, picture: Sequence[bytes]) -> None:  # noqa: ARG002 - the port says so
        self.view = view

    def members_changed(self, view: View) -> None:
        self.view = view

    def heard(self, words: Words) -> None:
        now = time.perf_counter()
        self._heard_at.extend(now - self._told_at[value] for value in words.kept.values())

    def parted(self, why: str) -> None:
        if self.view.members:
            sys.exit(why)


async def measure(redis: RedisSpec, replicas: int, count: int, server_pid: int) -> None:
    delays: list[float] = []
    told_at: dict[bytes, float] = {}
    spec = CoordinationSpec(redis=redis)
    names = [MemberId(f"replica-{number}") for number in range(replicas)]
    coordinators = [RedisCoordinator(redis, spec, name, random.Random(name)) for name in names]
    ears = [Ear(delays, told_at) for _ in coordinators]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(c.run(ear)) for c, ear in zip(coordinators, ears, strict=True)]
        while any(len(ear.view.members) < replicas for ear in ears):  # noqa: ASYNC110 - tens of events, once
            await asyncio.sleep(0.05)
        for number in range(count):
            value = b"%0*d" % (VALUE_BYTES, number)
            author = number % replicas
            told_at[value] = time.perf_counter()
            words = Words(names[author], ears[author].view.epoch, {f"endpoint-{number % 60}": value})
            coordinators[author].tell(words)
            await asyncio.sleep(PACE_S)
        await asyncio.sleep(1.0)
        report_delays(delays, count * (replicas - 1))
        await report_idle(redis, replicas, server_pid)
        for task in tasks:
            task.cancel()


def report_delays(delays: list[float], expected: int) -> None:
    cuts = statistics.quantiles(delays, n=1000)
    p50, p99, p999 = (cuts[index] * 1000 for index in (499, 989, 998))
    print(f"hearing   {len(delays)} of {expected} heard: p50 {p50:.2f} ms, p99 {p99:.2f} ms, p99.9 {p999:.2f} ms")


async def report_idle(redis: RedisSpec, replicas: int, server_pid: int) -> None:
    before, cpu_before, own_before = counters(redis), cpu_s(server_pid), time.process_time()
    await asyncio.sleep(IDLE_S)
    after, cpu_after, own_after = counters(redis), cpu_s(server_pid), time.process_time()
    calls = {name: (after[name] - before.get(name, 0)) / IDLE_S for name in sorted(after)}
    sent = calls.get("evalsha", 0) + calls.get("ping", 0)
    inside = sum(calls.values()) - sent - calls.get("info", 0)
    print(f"idle      {replicas} replicas: {sent:.1f} commands a second sent, {inside:.1f} run by the scripts inside")
    print("          " + ", ".join(f"{name} {rate:.1f}" for name, rate in calls.items() if rate > 0))
    print(
        f"          CPU of redis-server {(cpu_after - cpu_before) / IDLE_S:.2%}, "
        f"of each replica {(own_after - own_before) / IDLE_S / replicas:.2%} of a core"
    )


def counters(redis: RedisSpec) -> dict[str, int]:
    said = subprocess.run(
        ["redis-cli", "-p", str(redis.addresses[0].port), "info", "commandstats"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.partition(":calls=") for line in said.stdout.splitlines() if line.startswith("cmdstat_"))
    return {name.removeprefix("cmdstat_"): int(rest.partition(",")[0]) for name, _, rest in lines}


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=10)
    parser.add_argument("--words", type=int, default=1000)
    args = parser.parse_args()
    if shutil.which("redis-server") is None:
        sys.exit("needs a redis-server: apt-get install redis-server")
    print(machine())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            redis = RedisSpec(addresses=(RedisAddress("127.0.0.1", port),))
            asyncio.run(measure(redis, args.replicas, args.words, server.pid))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


if __name__ == "__main__":
    main()
