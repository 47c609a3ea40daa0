"""Does anybody notice when a server dies? ``make trial-freeze`` or ``python -m bench.trial_freeze [--quick] [--real]``.

A whole ``pulsegate serve`` stands before two engines in processes of their own; clients send requests at a steady rate;
one engine (or both) is frozen, killed or slowed down and mended again. One row per case:

failed     requests that were lost although they had no token yet, or that ended without a word
cut        streams that had a token when the engine died and were ended by an error event
rescued    requests that needed more than one attempt
latest     the longest time to a first token (without streaming: to the answer)
last sent  when the last request was sent to the dead engine, after its death
longest    the longest time from request to end

Exit code 1 when a rule is broken. ``--real`` takes two llama.cpp engines at a rate that they can bear.
"""

import argparse
import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, replace
from pathlib import Path

import uvloop

from bench.client import Seen, ask, pour
from bench.freeze_cases import CASES, Case, Trouble
from bench.freeze_verdict import Course, Verdict, judge
from bench.house import Engine, Served, SimEngine, folder, machine, pool, serving, sims
from bench.real_engine import real_engines

POOL, SPARE = "m", "spare"
SLOW_SCRIPT = "{load: {ttft: 400ms}}"
WATCH_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often requests come, and how long it goes well, badly, and well again."""

    rate_per_s: float = 20.0
    before_s: float = 8.0
    trouble_s: float = 20.0
    after_s: float = 12.0

    @property
    def whole_s(self) -> float:
        return self.before_s + self.trouble_s + self.after_s


FULL = Pace()
QUICK = Pace(before_s=3.0, trouble_s=12.0, after_s=6.0)
REAL = Pace(rate_per_s=2.0)


@contextlib.contextmanager
def _engines(case: Case, path: Path, *, real: bool) -> Generator[tuple[dict[str, Engine], dict[str, Engine]]]:
    """The pool's engines and the fallback's, by id."""
    if real:
        with real_engines(2) as engines:
            yield {f"e{n}": engine for n, engine in enumerate(engines)}, {}
        return
    options = ("--itl", f"{case.itl_ms}ms", "--slots", "256")
    with sims(path, 3 if case.fallback else 2, *options) as engines:
        rows: dict[str, Engine] = {f"e{n}": engine for n, engine in enumerate(engines)}
        yield {id_: rows[id_] for id_ in ("e0", "e1")}, {id_: rows[id_] for id_ in rows if id_ == "e2"}


def _config(case: Case, engines: dict[str, Engine], spare: dict[str, Engine], *, real: bool) -> dict[str, object]:
    """Defaults, but for how long a silent stream may last and what counts as fast on a shared core."""
    more: dict[str, object] = {"fallbacks": [SPARE]} if spare else {}
    models = [pool(POOL, engines, **more), *([pool(SPARE, spare)] if spare else [])]
    probe = {"healthy_ttft": "500ms", "congested_ttft": "600ms"} if real else {}
    return {"gateway": {"itl_deadline": case.itl_deadline}, "probe": probe, "models": models}


def _strike(case: Case, engine: Engine) -> None:
    match case.trouble:
        case Trouble.FREEZE:
            engine.freeze()
        case Trouble.KILL:
            engine.end(signal.SIGKILL)
        case Trouble.TERM:
            engine.end(signal.SIGTERM)
        case Trouble.SLOW:
            assert isinstance(engine, SimEngine)
            engine.script(SLOW_SCRIPT)


def _mend(case: Case, engine: Engine) -> None:
    match case.trouble:
        case Trouble.FREEZE:
            engine.thaw()
        case Trouble.KILL | Trouble.TERM:
            engine.start()
        case Trouble.SLOW:
            assert isinstance(engine, SimEngine)
            engine.script("[]")


class _Watch:
    """When users' requests last reached an engine, by its own count."""

    def __init__(self, engine: SimEngine) -> None:
        self._engine = engine
        self._count = -1
        self.last_at: float | None = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asked_at = loop.time()
            counters = (await asyncio.to_thread(self._engine.status))["engines"][0]["counters"]
            count = counters["generations"] - counters["probes"]
            if count != self._count:
                self._count, self.last_at = count, asked_at
            await asyncio.sleep(WATCH_S)


@contextlib.asynccontextmanager
async def _watching(case: Case, victims: dict[str, Engine]) -> AsyncGenerator[list[_Watch]]:
    """Only a frozen engine can be asked."""
    sims_ = [engine for engine in victims.values() if isinstance(engine, SimEngine)]
    watches = [_Watch(engine) for engine in sims_] if case.trouble is Trouble.FREEZE else []
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch.run()) for watch in watches]
        yield watches
        for task in tasks:
            task.cancel()


async def _play(case: Case, pace: Pace, served: Served, victims: dict[str, Engine]) -> Course:
    loop = asyncio.get_running_loop()
    url = served.gateway
    body = {"model": POOL, "stream": case.stream, "max_tokens": case.tokens}

    def send(number: int) -> "asyncio.Future[Seen]":
        return ask(url, {**body, "messages": [{"role": "user", "content": f"Story {number}, please."}]})  # type: ignore[return-value]

    async with asyncio.TaskGroup() as group:
        pouring = group.create_task(pour(pace.rate_per_s, pace.whole_s, send))
        await asyncio.sleep(pace.before_s)
        if case.trouble is not Trouble.SLOW:
            for engine in victims.values():
                await asyncio.to_thread(_strike, case, engine)
        began_at = loop.time()
        async with _watching(case, victims) as watches:
            await asyncio.sleep(pace.trouble_s)
        over_at = loop.time()
        for engine in victims.values():
            await asyncio.to_thread(_mend, case, engine)
    seen = pouring.result()
    if watches:
        last_at = max((watch.last_at or 0.0) for watch in watches)
    else:
        retried = [one.sent_at for one in seen if one.attempts > 1 and began_at <= one.sent_at < over_at]
        last_at = max(retried, default=0.0)
    last_sent_s = max(0.0, last_at - began_at) if case.trouble is not Trouble.SLOW else None
    return Course(seen=seen, began_at=began_at, over_at=over_at, last_sent_s=last_sent_s, victims=tuple(victims))


def run(case: Case, pace: Pace, *, real: bool) -> Verdict:
    if real:
        case = replace(case, tokens=8, itl_ms=60)
    with folder() as path, _engines(case, path, real=real) as (engines, spare):
        config = _config(case, engines, spare, real=real)
        victims = dict(list(engines.items())[: case.victims])
        with serving(path, config) as served:
            served.await_states(dict.fromkeys((*engines, *spare), "healthy"))
            if case.trouble is Trouble.SLOW:  # how soon slowness is seen is not the question here
                for engine in victims.values():
                    _strike(case, engine)
                served.await_states(dict.fromkeys(victims, "degraded"))
            return judge(case, uvloop.run(_play(case, pace, served, victims)))


HEAD = (
    f"{'case':<36} {'requests':>8} {'failed':>6} {'cut':>4} {'rescued':>7} {'p50':>7} {'latest':>7} {'last sent':>9} "
    f"{'longest':>8}"
)


def show(row: Verdict) -> str:
    last = "-" if row.last_sent_s is None else f"{row.last_sent_s:.1f} s"
    return (
        f"{row.case:<36} {row.requests:>8} {row.failed:>6} {row.cut:>4} {row.rescued:>7} {row.ttft_p50_ms:>4.0f} ms "
        f"{row.latest_s:>5.2f} s {last:>9} {row.hung_s:>6.1f} s  {'; '.join(row.broken) or 'ok'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="21 s per case instead of 40")
    parser.add_argument("--real", action="store_true", help="two llama.cpp engines")
    parser.add_argument("--only", help="cases whose name begins so")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    pace = QUICK if args.quick else FULL
    if args.real:
        pace = replace(pace, rate_per_s=REAL.rate_per_s)
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}; {pace.rate_per_s:g} requests/s, {pace.trouble_s:g} s of trouble")
    print(HEAD)
    good = True
    for case in CASES:
        if (args.real and not case.real) or not case.name.startswith(args.only or ""):
            continue
        row = run(case, pace, real=args.real)
        print(show(row), flush=True)
        good = good and not row.broken
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
