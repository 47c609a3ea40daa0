"""Busy is load, not illness: ``make trial-busy`` or ``python -m bench.trial_busy [--minutes 5]``.

Four simulated engines with few slots and a long queue get 70, 95 and 120 % of what they can serve, once through a whole
``pulsegate serve`` and once through its data plane alone, which knows nothing of health (plain least-request). Arrivals
and lengths are the same ones in both runs. What health knows must not make it worse:

requests/s  answers per second while requests came
p99         99th percentile of the time to the first token
swing       standard deviation of an engine's share of the requests over windows of 5 s, the worst engine's: a pool
            that pushes its load around in circles has a high one
changes     changes of state or reason; unhealthy: verdicts, each of them wrong

Exit code 1 when something is worse than without health by more than noise, or anybody was called unhealthy.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import statistics
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import uvloop

from bench.bench_table import print_table
from bench.client import End, Seen, ask, quantile
from bench.house import SimEngine, folder, machine, pool, serving, sims
from bench.processes import Process

ENGINES, SLOTS = 4, 8
ITL_MS, TTFT_MS = 20, 20
SHORTEST, LONGEST = 16, 80  # tokens
CAPACITY_PER_S = ENGINES * SLOTS / ((TTFT_MS + ITL_MS * (SHORTEST + LONGEST - 2) / 2) / 1000)
LOADS = (0.7, 0.95, 1.2)
WINDOW_S = 5.0
NOISE = 1.1  # two runs of the same differ by so much
SWING_NOISE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    at_s: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    per_s: float
    p50_s: float
    p99_s: float
    swing: float
    failed: int
    changes: int
    unhealthy: int


def arrivals(load: float, seconds: float) -> list[Arrival]:
    """Poisson, the same for the same arguments."""
    chance, at_s, found = Random(f"{load} {seconds}"), 0.0, []
    while (at_s := at_s + chance.expovariate(load * CAPACITY_PER_S)) < seconds:
        found.append(Arrival(at_s=at_s, tokens=chance.randint(SHORTEST, LONGEST)))
    return found


@contextlib.contextmanager
def _gateway(path: Path, engines: list[SimEngine], *, health: bool) -> Generator[str]:
    rows = {f"e{n}": engine for n, engine in enumerate(engines)}
    config = {"gateway": {"ttft_deadline": "10m"}, "models": [pool("m", rows)]}
    if health:
        with serving(path, config) as served:
            served.await_states(dict.fromkeys(rows, "healthy"))
            yield served.gateway
        return
    file = path / "plain.yaml"
    file.write_text(json.dumps(config))
    with Process([sys.executable, "-m", "bench.plain_gateway", str(file)], path / "plain.log") as process:
        yield process.line('"gateway"')["gateway"]


async def _pour(url: str, plan: list[Arrival]) -> list[Seen]:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, arrival in enumerate(plan):
            await asyncio.sleep(begun + arrival.at_s - loop.time())
            message = {"role": "user", "content": f"Story {number}, please."}
            body = {"model": "m", "stream": True, "max_tokens": arrival.tokens, "messages": [message]}
            tasks.append(group.create_task(ask(url, body, patience_s=600)))
    return [task.result() for task in tasks]


def run(load: float, seconds: float, *, health: bool) -> Outcome:
    plan = arrivals(load, seconds)
    options = ("--slots", str(SLOTS), "--itl", f"{ITL_MS}ms", "--ttft", f"{TTFT_MS}ms")
    with folder() as path, sims(path, ENGINES, *options) as engines, _gateway(path, engines, health=health) as url:
        seen = uvloop.run(_pour(url, plan))
        log = path / "serve.log"
        changes = [line for line in log.read_text().splitlines() if "endpoint changed" in line] if health else []
    began_at = min(each.sent_at for each in seen)
    in_time = sum(each.end is End.WHOLE and each.ended_at <= began_at + seconds for each in seen)
    waits_s = [each.ttft_s for each in seen if each.ttft_s is not None]
    return Outcome(
        per_s=in_time / seconds,
        p50_s=quantile(waits_s, 0.5),
        p99_s=quantile(waits_s, 0.99),
        swing=_swing(seen, began_at),
        failed=sum(each.end is not End.WHOLE for each in seen),
        changes=sum('"old": "warming"' not in line for line in changes),
        unhealthy=sum('"new": "unhealthy"' in line for line in changes),
    )


def _swing(seen: list[Seen], began_at: float) -> float:
    windows: dict[int, list[str]] = {}
    for each in seen:
        windows.setdefault(int((each.sent_at - began_at) / WINDOW_S), []).append(each.endpoint)
    shares = [[w.count(f"e{n}") / len(w) for w in windows.values()] for n in range(ENGINES)]
    return max(statistics.pstdev(one) for one in shares)


def broken(with_health: Outcome, plain: Outcome) -> list[str]:
    found = []
    if with_health.per_s * NOISE < plain.per_s:
        found.append("fewer answers")
    if with_health.p99_s > plain.p99_s * NOISE + 0.1:
        found.append("later first tokens")
    if with_health.swing > plain.swing * NOISE + SWING_NOISE:
        found.append("oscillates")
    if with_health.unhealthy:
        found.append("called busy engines unhealthy")
    if with_health.failed > plain.failed:
        found.append("failed requests")
    return found


def _row(load: float, name: str, found: Outcome, said: str) -> tuple[str, ...]:
    return (
        f"{load:.0%} {name}",
        f"{found.per_s:.1f}",
        f"{found.p50_s:.2f} s",
        f"{found.p99_s:.2f} s",
        f"{found.swing:.3f}",
        str(found.failed),
        str(found.changes),
        str(found.unhealthy),
        said,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5.0, help="for each of the six runs")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}; capacity {CAPACITY_PER_S:.1f}/s, {args.minutes:g} min each\n")
    rows, good = [], True
    for load in LOADS:
        plain = run(load, 60 * args.minutes, health=False)
        with_health = run(load, 60 * args.minutes, health=True)
        complaints = broken(with_health, plain)
        good = good and not complaints
        rows += [
            _row(load, "least request", plain, ""),
            _row(load, "health", with_health, ", ".join(complaints) or "ok"),
        ]
        print(f"{load:.0%} done", file=sys.stderr, flush=True)
    print_table(("load", "requests/s", "p50", "p99", "swing", "failed", "changes", "unhealthy", ""), rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
