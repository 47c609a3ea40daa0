"""Requests through Pulsegate and through others, side by side: ``make bench`` or ``python -m bench.gateway [--quick]``.

All stand before the same two backends (``bench/backend.py``) in one run. Rounds are interleaved, so that a noisy minute
hits everybody; figures are medians of the rounds. CPU is that of a gateway's whole process tree. The load generator and
the backends share the machine with the gateway, so requests per second mean little on few cores; CPU per request does
not depend on that.

Exit code 1 when a target is missed.
"""

import argparse
import contextlib
import math
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench import ttft
from bench.bench_table import Target, print_table, print_targets
from bench.house import folder, machine
from bench.memory import JSON_BODY, clients_mib, fleet_mib, growth_mib
from bench.peers import STARTS, NotInstalledError, Running, pulsegate
from bench.processes import Process, cpu_us, free_ports
from bench.wrk import require_wrk, wrk

STREAM_BODY = {**JSON_BODY, "max_tokens": 64, "stream": True}
CHUNKS, GAP_MS = 64, 20
STREAMS = 200
CONNECTIONS = 16
JSON_ONLY = ("LiteLLM",)  # 200 streams, or half of them, are many times what it can carry: figures would mean nothing
TTFT_ONLY = ("Pulsegate, 2 workers",)  # the native routers have a thread per core, one worker is one thread
ALWAYS = ("direct", "Pulsegate", *TTFT_ONLY)
STREAM_S = CHUNKS * GAP_MS / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long it all takes."""

    rounds: int = 3
    json_s: int = 4
    streams_s: int = 8  # little more than six streams of 1.28 s: what is cut off at the end is paid for and not counted
    ttft_s: float = 8.0
    requests: int = 200_000
    endpoints: int = 100
    clients: int = 10_000
    settle_s: float = 20.0


QUICK = Effort(rounds=1, json_s=2, streams_s=4, ttft_s=4.0, requests=20_000, settle_s=3.0)


class JsonRound(NamedTuple):
    per_s: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    errors: float


class StreamRound(NamedTuple):
    per_s: float
    cpu_us: float
    errors: float


class TtftRound(NamedTuple):
    p50_ms: float
    p99_ms: float
    unanswered: float


@dataclass(slots=True)
class Rounds:
    """All that was measured of one gateway."""

    json: list[JsonRound] = field(default_factory=list)
    streams: list[StreamRound] = field(default_factory=list)
    ttft: list[TtftRound] = field(default_factory=list)


def _cpu(gateway: Running) -> float:
    return 0.0 if gateway.process is None else cpu_us(gateway.process.pid)


def json_round(gateway: Running, effort: Effort) -> JsonRound:
    before = _cpu(gateway)
    load = wrk(gateway.url, JSON_BODY, _headers(gateway), connections=CONNECTIONS, seconds=effort.json_s)
    spent = (_cpu(gateway) - before) / max(1, load.requests)
    return JsonRound(load.per_s, spent, load.p50_ms, load.p99_ms, load.errors)


def stream_round(gateway: Running, effort: Effort) -> StreamRound:
    before = _cpu(gateway)
    load = wrk(gateway.url, STREAM_BODY, _headers(gateway), connections=STREAMS, seconds=effort.streams_s)
    spent = (_cpu(gateway) - before) / max(1, load.requests)
    return StreamRound(load.per_s, spent, load.errors)


def ttft_round(gateway: Running, effort: Effort) -> TtftRound:
    rate_per_s = STREAMS / STREAM_S / 2
    headers = _headers(gateway)
    waits = ttft.measure(
        gateway.url, STREAM_BODY, headers, rate_per_s=rate_per_s, seconds=effort.ttft_s, most=2 * STREAMS
    )
    return TtftRound(waits.p50_ms, waits.p99_ms, waits.unanswered)


def _headers(gateway: Running) -> dict[str, str]:
    return {"Content-Type": "application/json", **gateway.headers}


@contextlib.contextmanager
def backends(path: Path) -> Generator[list[int]]:
    first = free_ports(2)
    ports = [first, first + 1]
    with contextlib.ExitStack() as stack:
        for port in ports:
            command = [sys.executable, "-m", "bench.backend", str(port)]
            command += ["--gap-ms", str(GAP_MS), "--chunks", str(CHUNKS)]
            process = stack.enter_context(Process(command, path / f"backend-{port}.log"))
            process.await_port(port)
        yield ports


@contextlib.contextmanager
def gateways(path: Path, ports: Sequence[int], names: Sequence[str]) -> Generator[list[Running]]:
    """Those that can be had here, all running; each has answered a request of each kind."""
    with contextlib.ExitStack() as stack:
        running = []
        for name in names:
            try:
                gateway = STARTS[name](path, ports)
            except (NotInstalledError, RuntimeError) as exc:
                print(f"{name} is left out: {exc}", file=sys.stderr)
                continue
            if gateway.process is not None:
                stack.callback(gateway.process.stop)
            running.append(gateway)
        time.sleep(5)  # first probes, health checks and whatever else belongs to a start
        yield [each for each in running if _answers(each)]


def _answers(gateway: Running) -> bool:
    for body in (JSON_BODY,) if gateway.name in JSON_ONLY else (JSON_BODY, STREAM_BODY):
        for _ in range(20):  # some need a while to find their servers
            load = wrk(gateway.url, body, _headers(gateway), connections=2, seconds=2 if "stream" in body else 1)
            if load.requests and not load.errors:
                break
        else:
            print(f"{gateway.name} is left out: it answers with errors ({load})", file=sys.stderr)
            if gateway.process is not None:
                print(gateway.process.tail(), file=sys.stderr)
            return False
    return True


def side_by_side(running: Sequence[Running], effort: Effort) -> dict[str, Rounds]:
    """Every gateway once per round and kind; who begins changes, so that nobody always follows the same neighbour."""
    found = {gateway.name: Rounds() for gateway in running}
    for number in range(effort.rounds):
        first = number % len(running)
        for gateway in (*running[first:], *running[:first]):
            print(f"round {number + 1}: {gateway.name}", file=sys.stderr, flush=True)
            rounds = found[gateway.name]
            if gateway.name not in TTFT_ONLY:
                rounds.json.append(json_round(gateway, effort))
            if gateway.name not in (*JSON_ONLY, *TTFT_ONLY):
                rounds.streams.append(stream_round(gateway, effort))
            if gateway.name not in JSON_ONLY:
                rounds.ttft.append(ttft_round(gateway, effort))
    return found


_Row = TypeVar("_Row", JsonRound, StreamRound, TtftRound)


def median(kind: type[_Row], rows: Sequence[_Row]) -> _Row:
    if not rows:
        return kind(*(math.nan for _ in kind._fields))
    return kind(*(statistics.median(column) for column in zip(*rows, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Medians of one gateway."""

    json: JsonRound
    streams: StreamRound
    ttft: TtftRound


def medians(found: dict[str, Rounds]) -> dict[str, Figures]:
    return {
        name: Figures(
            json=median(JsonRound, rounds.json),
            streams=median(StreamRound, rounds.streams),
            ttft=median(TtftRound, rounds.ttft),
        )
        for name, rounds in found.items()
    }


def show(figures: dict[str, Figures], effort: Effort) -> None:
    """The table, with how each compares with Pulsegate."""
    ours, rows = figures["Pulsegate"], []
    for name, row in figures.items():
        added = [now - base for now, base in zip(row.ttft, figures["direct"].ttft, strict=True)]
        weighed = name != "direct"
        errors = (row.json.errors, row.streams.errors, row.ttft.unanswered)
        rows.append(
            (
                name,
                f"{row.json.per_s:,.0f}",
                f"{row.json.cpu_us:,.1f}" if weighed else "-",
                f"{row.json.cpu_us / ours.json.cpu_us:.2f}" if weighed else "-",
                f"{row.json.p50_ms:.2f}",
                f"{row.json.p99_ms:.2f}",
                f"{row.streams.per_s:,.0f}",
                f"{row.streams.cpu_us:,.0f}" if weighed else "-",
                f"{row.streams.cpu_us / ours.streams.cpu_us:.2f}" if weighed else "-",
                f"{added[0]:.2f}" if weighed else "-",
                f"{added[1]:.2f}" if weighed else "-",
                f"{sum(0 if math.isnan(count) else count for count in errors):.0f}",
            )
        )
    print(
        f"\nMedians of {effort.rounds}. JSON: {CONNECTIONS} connections. Streams: {STREAMS} at once, {CHUNKS} chunks "
        f"{GAP_MS} ms apart. Added time to first token: at half of that load. CPU in us; x: times Pulsegate's.\n"
    )
    head = ("", "JSON/s", "CPU", "x", "p50 ms", "p99 ms", "streams/s", "CPU", "x", "+p50 ms", "+p99 ms", "errors")
    print_table(head, [["-" if cell == "nan" else cell for cell in row] for row in rows])


NATIVE = ("sglang-router", "vllm-router")


def speed_targets(figures: dict[str, Figures]) -> list[Target]:
    """Those that compare with others; one that is not there leaves its target open."""
    ours, direct = figures["Pulsegate"], figures["direct"]
    targets = []

    def compare(what: str, wanted: str, other: str, found: Callable[[Figures], tuple[str, bool]]) -> None:
        if other in figures:
            text, met = found(figures[other])
            targets.append(Target(what=what, wanted=wanted, found=text, met=met))
        else:
            targets.append(Target(what=what, wanted=wanted, found="-", met=None, note=f"{other} is missing"))

    def cpu(peer: Figures) -> tuple[str, bool]:
        return f"{ours.json.cpu_us / peer.json.cpu_us:.2f} x", ours.json.cpu_us <= peer.json.cpu_us

    def rate(times: float) -> Callable[[Figures], tuple[str, bool]]:
        return lambda peer: (
            f"{ours.json.per_s / peer.json.per_s:,.2f} x",
            ours.json.per_s >= times * peer.json.per_s,
        )

    compare("JSON, CPU per request", "<= 1.0 x Envoy", "Envoy", cpu)
    compare("JSON, requests/s", ">= 1.0 x Envoy", "Envoy", rate(1))
    compare("JSON, requests/s", ">= 100 x LiteLLM", "LiteLLM", rate(100))
    best = min((name for name in NATIVE if name in figures), key=lambda name: figures[name].streams.cpu_us, default="")
    compare(
        "streams, CPU each",
        "<= 0.8 x the best native router",
        best,
        lambda peer: (
            f"{ours.streams.cpu_us / peer.streams.cpu_us:.2f} x {best}",
            ours.streams.cpu_us <= 0.8 * peer.streams.cpu_us,
        ),
    )
    for index, (name, most_ms) in enumerate((("p50", 0.3), ("p99", 2.0))):
        added_ms = ours.ttft[index] - direct.ttft[index]
        found = f"{added_ms:.2f} ms"
        targets.append(
            Target(what=f"added TTFT, {name}", wanted=f"<= {most_ms} ms", found=found, met=added_ms <= most_ms)
        )
        compare(
            f"added TTFT, {name}",
            "<= sglang-router",
            "sglang-router",
            lambda peer, at=index, added_ms=added_ms: (
                f"{added_ms:.2f} to {peer.ttft[at] - direct.ttft[at]:.2f} ms",
                ours.ttft[at] <= peer.ttft[at],
            ),
        )
    return targets


def memory_targets(path: Path, ports: Sequence[int], effort: Effort) -> list[Target]:
    """What Pulsegate weighs."""
    print("memory", file=sys.stderr, flush=True)
    idle_mib = fleet_mib(path, effort.endpoints, effort.settle_s)
    gateway = pulsegate(path, ports)
    assert gateway.process is not None
    with gateway.process:
        grown_mib, done = growth_mib(gateway, effort.requests)
        clients = clients_mib(gateway, effort.clients)
    return [
        _below(f"memory, {effort.endpoints} endpoints", idle_mib, 120),
        _below(f"memory, {effort.clients:,} idle clients", clients, 300),
        _below(f"memory, growth over {done:,} requests", grown_mib, GROWTH_MIB),
    ]


GROWTH_MIB = 3.0  # allocators keep a page here and there


def _below(what: str, found: float, most: float) -> Target:
    return Target(what=what, wanted=f"<= {most:g} MiB", found=f"{found:.1f} MiB", met=found <= most)


def workers_target(path: Path, ports: Sequence[int], effort: Effort) -> Target:
    """Two workers against one. The load generator and two backends need cores of their own."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    print("workers", file=sys.stderr, flush=True)
    for _ in range(effort.rounds):
        for workers, found in rates.items():
            gateway = pulsegate(path, ports, workers=workers)
            assert gateway.process is not None
            with gateway.process:
                json_round(gateway, QUICK)
                found.append(json_round(gateway, effort).per_s)
    ratio = statistics.median(rates[2]) / statistics.median(rates[1])
    cores = os.cpu_count() or 1
    enough = cores >= CORES_FOR_TWO
    return Target(
        what="two workers, requests/s",
        wanted=">= 1.8 x one",
        found=f"{ratio:.2f} x",
        met=ratio >= 1.8 if enough else None,
        note="" if enough else f"({cores} cores also run the load and the backends)",
    )


CORES_FOR_TWO = 6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", help="these gateways, with commas (direct and Pulsegate are always there)")
    parser.add_argument("--skip", default="", help="parts to leave out, with commas: speed, memory, workers")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    require_wrk()
    effort = QUICK if args.quick else Effort()
    wanted = {*ALWAYS, *(args.only.split(",") if args.only else STARTS)}
    names, skip = [name for name in STARTS if name in wanted], args.skip.split(",")
    load = os.getloadavg()[0]
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}; load before: {load:.1f}", flush=True)
    targets: list[Target] = []
    with folder() as path, backends(path) as ports:
        if "speed" not in skip:
            with gateways(path, ports, names) as running:
                figures = medians(side_by_side(running, effort))
            show(figures, effort)
            targets += speed_targets(figures)
        if "memory" not in skip:
            targets += memory_targets(path, ports, effort)
        if "workers" not in skip:
            targets.append(workers_target(path, ports, effort))
    print()
    return 0 if print_targets(targets) else 1


if __name__ == "__main__":
    sys.exit(main())
