"""How fast the ledger is: ``make bench-ledger`` or ``python -m bench.ledger [--lines 1000000]``.

appends   lines a second from one process, fsync every second
summary   ``pulsegate ledger summary`` over all lines: wall time, CPU time, and peak memory of its processes;
          then with the checkpoint of a running gateway
start     how long the cost gate takes to know what was spent, with a checkpoint and without one
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from random import Random
from statistics import median

from bench.house import machine
from pulsegate.control.clock import SystemClock
from pulsegate.control.ledger import Entry
from pulsegate.core.booking import UsageKind
from pulsegate.core.spending import EntryKind
from pulsegate.ledger.segments import checkpoint_file
from pulsegate.ledger.syncing import Fsync
from pulsegate.ledger.tailing import Tail
from pulsegate.ledger.writer import LedgerWriter, WritingRules

MODELS = (("deepseek", "deepseek-chat"), ("zhipu", "glm-4.6"), (None, "qwen3-32b"), ("dashscope", "qwen-plus"))
PREPARED = 10_000


def entry(number: int, chance: Random) -> Entry:
    provider, model = MODELS[number % len(MODELS)]
    cost = None if provider is None else Decimal(chance.randrange(1, 10**8)).scaleb(-9)
    return Entry(
        ts=round(1_796_126_400.0 + number * 0.05, 3),
        op=f"{chance.getrandbits(128):032x}",
        attempt=1,
        request_id=f"{chance.getrandbits(128):032x}",
        kind=EntryKind.REQUEST,
        client=f"team-{number % 7}",
        provider=provider,
        model=model,
        endpoint="e1",
        status=200,
        prompt_tokens=chance.randrange(10, 5000),
        cached_tokens=0,
        completion_tokens=chance.randrange(1, 2000),
        cost=cost,
        currency=None if cost is None else "CNY",
        price_version=None if cost is None else "config: 2/0.5/8 CNY/M",
        usage=UsageKind.REPORTED,
        ttft_ms=123.4,
        duration_ms=2345.6,
    )


def write(path: Path, lines: int) -> tuple[float, float]:
    """Writes them all; lines a second of wall time, and of CPU time."""
    book = LedgerWriter(WritingRules(path=path, fsync=Fsync.INTERVAL), SystemClock())
    chance, wall_s, cpu_s = Random(1), 0.0, 0.0
    for start in range(0, lines, PREPARED):
        prepared = [entry(number, chance) for number in range(start, min(lines, start + PREPARED))]
        wall, cpu = time.perf_counter(), time.process_time()
        for one in prepared:
            book.book(one)
        book.tend()
        wall_s += time.perf_counter() - wall
        cpu_s += time.process_time() - cpu
    book.close()
    return lines / wall_s, lines / cpu_s


def start_s(path: Path) -> tuple[float, float]:
    """By the clock, and of CPU."""
    begun, begun_cpu = time.perf_counter(), time.process_time()
    tail = Tail(path, UTC)
    tail.start()
    tail.take(tail.news())
    spent = time.perf_counter() - begun, time.process_time() - begun_cpu
    tail.save()
    return spent


def summary_s(path: Path) -> tuple[float, float]:
    """By the clock, and of CPU."""
    begun, begun_cpu = time.perf_counter(), children_s()
    command = [sys.executable, "-m", "pulsegate", "ledger", "summary", str(path), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun, children_s() - begun_cpu


def children_s() -> float:
    """CPU that processes which have ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}; {args.lines:,} lines, medians of {args.runs}")
    with tempfile.TemporaryDirectory(prefix="pulsegate-ledger-") as folder:
        path = Path(folder) / "ledger.jsonl"
        wall, cpu = write(path, args.lines)
        each = path.stat().st_size / args.lines
        print(f"appends   {wall:,.0f}/s by the clock, {cpu:,.0f}/s of CPU; {each:.0f} bytes each")
        wall_s, cpu_s = (median(part) for part in zip(*[summary_s(path) for _ in range(args.runs)], strict=True))
        peak_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"summary   {wall_s:.2f} s, {cpu_s:.2f} s of CPU, {peak_mib:.0f} MiB in the largest process")
        without = []
        for _ in range(args.runs):
            checkpoint_file(path).unlink(missing_ok=True)
            without.append(start_s(path))
        kept = [start_s(path) for _ in range(args.runs)]
        known_ms = median(wall for wall, _ in kept) * 1000
        unknown_s, unknown_cpu_s = (median(part) for part in zip(*without, strict=True))
        print(f"start     {known_ms:.1f} ms; {unknown_s:.2f} s without a checkpoint, {unknown_cpu_s:.2f} s of CPU")
        known_s = median(summary_s(path)[0] for _ in range(args.runs))
        print(f"summary   {known_s:.2f} s with a checkpoint")


if __name__ == "__main__":
    main()
