"""What probing costs and how punctual it is: ``make bench-prober`` or ``python -m bench.prober [--quick]``.

Simulated engines run in processes of their own, some of them hung, slow or broken. The real control process (prober,
board, metrics, admin port, logs) runs in one process and is watched for a while after everything has settled.

Per row: probes begun per second, lateness of their start (p50, p99), CPU of the whole process per probe, its peak
memory, and how many endpoints were judged wrongly at the end. "h11" is what a bare h11 client needs for the same
exchanges, right before: compare with it before blaming the prober or the machine. Exit code 1 when a limit is exceeded.
"""

import argparse
import asyncio
import cProfile
import json
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from random import Random
from urllib.request import Request, urlopen

import uvloop

from bench.yardstick import cost_us
from pulsegate.app import GC_THRESHOLD, Parts, run_control
from pulsegate.config import load
from pulsegate.control.clock import SystemClock
from pulsegate.control.collector import calm_collector
from pulsegate.control.desk import Desk
from pulsegate.core.health import State
from pulsegate.export.logs import LogFormat, open_log

MAX_P99_MS = 100.0
MAX_CPU_US = 250.0
MAX_RSS_MIB = 300.0
WARM_UP_LIMIT_S = 60.0  # by then three good probes and a deep one must have made everybody healthy
SETTLE_S = 12.0  # faults, ejections
WELL = "well"  # what the measured process says when everybody is healthy
ROWS = ((500, 3.0, 1), (2000, 3.0, 3), (5000, 5.0, 1))
SIM_PROCESSES = 2
YARDSTICK_S = 5.0
# Without the garbage collector: its pauses make a thousand engines slow at once, and the prober would rightly say so.
SIM = "import gc, sys; gc.disable(); from pulsegate.cli import run; sys.exit(run(sys.argv[1:]))"
FAULTY_EVERY = 100  # of a hundred endpoints one hangs, one gets slow, one breaks


@dataclass(frozen=True, kw_only=True)
class Row:
    endpoints: int
    interval_s: float
    probes_per_s: float
    late_p50_ms: float
    late_p99_ms: float
    cpu_us_per_probe: float
    cpu_share: float
    peak_rss_mib: float
    wrong: int
    local: int
    h11_us: float = 0.0

    @property
    def ok(self) -> bool:
        return (
            self.late_p99_ms <= MAX_P99_MS
            and self.cpu_us_per_probe <= MAX_CPU_US
            and self.peak_rss_mib <= MAX_RSS_MIB
            and self.wrong == 0
        )


# The simulated fleet.


@dataclass(frozen=True, kw_only=True)
class Fault:
    verdict: str
    method: str
    path: str
    body: str = ""


FAULTS = (
    Fault(verdict="unhealthy", method="POST", path="freeze"),
    Fault(verdict="degraded", method="PUT", path="script", body="{load: {ttft: 400ms}}"),
    Fault(
        verdict="unhealthy", method="PUT", path="script", body="{rules: [{match: {path: gen}, do: [{refuse: dead}]}]}"
    ),
)


class Fleet:
    def __init__(self, count: int) -> None:
        share = [count // SIM_PROCESSES + (1 if n < count % SIM_PROCESSES else 0) for n in range(SIM_PROCESSES)]
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", SIM, "sim", "--port", "0", "--count", str(n), "--model", "m"],
                stdout=subprocess.PIPE,
                text=True,
            )
            for n in share
        ]
        self.urls: list[str] = []
        self._orders: list[tuple[str, Fault]] = []
        self.expected: dict[str, str] = {}
        for process in self._processes:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            for number, engine in enumerate(told["engines"]):
                self._add(told["admin"], engine, number)

    def _add(self, admin: str, engine: dict[str, str], number: int) -> None:
        self.urls.append(engine["url"])
        self.expected[engine["url"]] = "healthy"
        if number % FAULTY_EVERY < len(FAULTS):
            fault = FAULTS[number % FAULTY_EVERY]
            self.expected[engine["url"]] = fault.verdict
            self._orders.append((f"{admin}/_sim/{engine['name']}/{fault.path}", fault))

    def go_wrong(self) -> None:
        """Everybody has been well so far: an engine that never gave a token would only be starting."""
        for url, fault in self._orders:
            with urlopen(Request(url, data=fault.body.encode(), method=fault.method)) as answer:
                answer.read()

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(10)


# The measured process.


class Stopwatch:
    """A ``ProbeObserver`` that keeps how late each probe began."""

    def __init__(self) -> None:
        self.late_s: list[float] = []
        self.local = 0

    def watching(self, fleet) -> None:
        del fleet

    def probed(self, report) -> None:
        self.late_s.append(report.late_s)
        self.local += report.outcome == "local"

    def counted(self, spec, counters) -> None:
        del spec, counters


def measure(config_file: Path, expected: dict[str, str], interval_s: float, seconds: float, profile: str | None) -> Row:
    config = load(config_file, {})
    watch, clock = Stopwatch(), SystemClock()
    log = open_log(clock, LogFormat.JSON, sys.stderr)
    parts = Parts(log=log, clock=clock, rng=Random(1), probe_observers=(watch,))

    async def run() -> Row:
        async with run_control(config, parts) as control:
            calm_collector(GC_THRESHOLD)
            await _warm_up(control.desk)
            print(WELL, flush=True)
            await asyncio.sleep(SETTLE_S)
            watch.late_s.clear()
            watch.local = 0
            profiler = _profiler(profile)
            cpu_s, wall_s = time.process_time(), time.perf_counter()
            await asyncio.sleep(seconds)
            cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
            late_ms = sorted(1000 * one for one in watch.late_s)
            if profiler is not None:
                profiler.disable()
                profiler.dump_stats(profile)
            wrong = [s for s in control.desk.statuses() if s.state.value != expected[s.url]]
            for status in wrong[:10]:
                print(
                    "wrong:", status.id, status.state, status.reason, status.detail, "not", expected[status.url],
                    file=sys.stderr,
                )  # fmt: skip
            return Row(
                endpoints=len(expected),
                interval_s=interval_s,
                probes_per_s=len(late_ms) / wall_s,
                late_p50_ms=late_ms[len(late_ms) // 2],
                late_p99_ms=late_ms[int(len(late_ms) * 0.99)],
                cpu_us_per_probe=1e6 * cpu_s / len(late_ms),
                cpu_share=cpu_s / wall_s,
                peak_rss_mib=_peak_rss_mib(),
                wrong=len(wrong),
                local=watch.local,
            )

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())


async def _warm_up(desk: Desk) -> None:
    """Come back when every endpoint is healthy: a run that begins half-warmed measures something else."""
    until = time.perf_counter() + WARM_UP_LIMIT_S
    while ill := [status for status in desk.statuses() if status.state is not State.HEALTHY]:
        if time.perf_counter() > until:
            first = ill[0]
            sys.exit(
                f"{len(ill)} endpoints are not healthy after {WARM_UP_LIMIT_S:g} s, so nothing was measured; the first "
                f"is {first.id}: {first.state} ({first.reason}) {first.detail}"
            )
        await asyncio.sleep(1.0)


def _profiler(path: str | None):
    if path is None:
        return None
    profiler = cProfile.Profile(time.process_time)  # not the wall clock: others run here too
    profiler.enable()
    return profiler


def _peak_rss_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# The table.


def _config(urls: list[str], interval_s: float) -> str:
    """One pool per hundred endpoints, in YAML's flow style, which is quick to read."""
    lines = ["admin: {listen: '127.0.0.1:0'}", f"probe: {{interval: {interval_s:g}s}}", "models:"]
    for number in range(0, len(urls), 100):
        endpoints = ", ".join(f"{{url: '{url}', engine: vllm, model: m}}" for url in urls[number : number + 100])
        lines.append(f"  - {{name: m{number // 100}, endpoints: [{endpoints}]}}")
    return "\n".join(lines) + "\n"


def _in_child(work, *args):
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args).result()


def run_row(endpoints: int, interval_s: float, seconds: float, profile: str | None = None) -> Row:
    """The sims, then the measured process, which must not inherit what this one has read."""
    fleet = Fleet(endpoints)
    try:
        h11_us = _in_child(cost_us, fleet.urls, interval_s, YARDSTICK_S)
        with tempfile.TemporaryDirectory() as folder:
            config, expected = Path(folder) / "pulsegate.yaml", Path(folder) / "expected.json"
            config.write_text(_config(fleet.urls, interval_s))
            expected.write_text(json.dumps(fleet.expected))
            command = [sys.executable, "-m", "bench.prober", "--measure", folder]
            command += ["--interval", str(interval_s), "--seconds", str(seconds)]
            if profile:
                command += ["--profile", profile]
            log = Path(folder) / "log"
            with (
                log.open("w") as file,
                subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True) as child,
            ):
                if child.stdout is not None and child.stdout.readline().strip() == WELL:
                    fleet.go_wrong()
                out, _ = child.communicate()
            complaints = [line for line in log.read_text().splitlines() if not line.startswith("{")]
            sys.stderr.writelines(f"{line}\n" for line in complaints)
            if child.returncode != 0:
                sys.exit(f"{endpoints} endpoints: the measured process gave up")
            return replace(Row(**json.loads(out)), h11_us=h11_us)
    finally:
        fleet.stop()


def median(rows: list[Row]) -> Row:
    """Field by field; of wrong verdicts the worst."""
    values = {name: statistics.median(asdict(row)[name] for row in rows) for name in asdict(rows[0])}
    return Row(**{**values, "wrong": max(row.wrong for row in rows)})


HEAD = "endpoints  every  runs  probes/s  late p50  late p99  CPU/probe  (h11)   CPU  peak RSS  LOCAL  wrong"


def show(row: Row, runs: int) -> str:
    return (
        f"{row.endpoints:>9}  {row.interval_s:>4g}s  {runs:>4}  {row.probes_per_s:>8.0f}  {row.late_p50_ms:>5.1f} ms  "
        f"{row.late_p99_ms:>5.1f} ms  {row.cpu_us_per_probe:>6.0f} us  {row.h11_us:>4.0f}  {row.cpu_share:>4.0%}  "
        f"{row.peak_rss_mib:>4.0f} MiB  {row.local:>5.0f}  {row.wrong:>5.0f}{'' if row.ok else '  over the limit'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short run per row")
    parser.add_argument("--only", type=int, help="only the row with this many endpoints")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--profile", help="write cProfile statistics of the measured process here")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--interval", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if args.measure:
        folder = Path(args.measure)
        expected = json.loads((folder / "expected.json").read_text())
        row = measure(folder / "pulsegate.yaml", expected, args.interval, args.seconds, args.profile)
        print(json.dumps(asdict(row)))
        return 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    print(f"limits: late p99 {MAX_P99_MS:g} ms, CPU {MAX_CPU_US:g} us per probe, peak RSS {MAX_RSS_MIB:g} MiB, wrong 0")
    print(HEAD)
    good = True
    for endpoints, interval_s, runs in ROWS:
        if args.only not in (None, endpoints):
            continue
        repeats = 1 if args.quick else runs
        seconds = min(args.seconds, 10.0) if args.quick else args.seconds
        row = median([run_row(endpoints, interval_s, seconds, args.profile) for _ in range(repeats)])
        print(show(row, repeats), flush=True)
        good = good and row.ok
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
