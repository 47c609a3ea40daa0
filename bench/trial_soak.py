"""A bad day in ten minutes: ``make trial-soak`` or ``python -m bench.trial_soak [--minutes 10] [--seed 1]``.

Mixed load (streams, whole answers, short and long, clients that leave early) on 20 simulated endpoints, a few of which
are always ill in a way drawn at random and get well again. Afterwards everybody is made well and quiet returns:

failed      requests lost although they had no token yet, or without a word: must be 0
cut         streams that had tokens and were ended by an error event: their engine broke under them
in flight   what the gateway still counts as under way: must be 0
descriptors how many more files and sockets the worker holds than before the load: must be few
growth      of the memory of all processes, from the first fifth of the time to the end

Exit code 1 when one of these is violated.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import uvloop

from bench.client import End, Seen, ask
from bench.house import Served, call, folder, machine, serving
from bench.processes import Process, rss_mib, tree

ENGINES, RATE_PER_S = 20, 25.0
ILL_AT_ONCE = 4
LEAVES_EARLY = 0.03
QUIET_S = 20.0  # idle connections are closed after 4 s, an ejected endpoint is held for 10 s
MAX_GROWTH_MIB = 15.0
MAX_DESCRIPTORS = 4

FAULTS: dict[str, tuple[str, str, str]] = {
    "frozen": ("POST", "freeze", ""),
    "killed": ("POST", "kill", ""),
    "dead engine": ("POST", "break", ""),
    "refusing": ("POST", "refuse?for=10s", ""),
    "deaf": ("POST", "deaf?for=10s", ""),
    "slow": ("PUT", "script", "{load: {ttft: 600ms}}"),
    "hangs after the head": ("PUT", "script", "[{do: [head, hang]}]"),
    "resets in mid-stream": ("PUT", "script", "[{match: {every: 3}, do: [{generate: {tokens: 2}}, reset]}]"),
    "errors inside a stream": ("PUT", "script", "[{do: [role, {error: EngineCore encountered an issue.}, done]}]"),
    "500": ("PUT", "script", "[{match: {every: 2}, do: [{respond: 500}]}]"),
    "full": ("PUT", "script", "[{do: [{refuse: busy}]}]"),
}
CURES = (("PUT", "script", "[]"), ("POST", "thaw", ""), ("POST", "start", ""), ("POST", "reset", ""))


@dataclass(slots=True)
class Patients:
    """The engines that are ill now, and what was done to whom."""

    admin: str
    names: list[str]
    chance: Random
    counted: Counter[str]

    async def torment(self, seconds: float) -> None:
        """Always a few are ill, each for 5 to 20 s."""
        loop = asyncio.get_running_loop()
        over_at, ill = loop.time() + seconds, dict[str, float]()
        while loop.time() < over_at:
            for name in [name for name, until in ill.items() if until <= loop.time()]:
                del ill[name]
                await self.cure(name)
            if len(ill) < ILL_AT_ONCE:
                name = self.chance.choice([name for name in self.names if name not in ill])
                fault = self.chance.choice(list(FAULTS))
                self.counted[fault] += 1
                await self._order(name, *FAULTS[fault])
                ill[name] = loop.time() + self.chance.uniform(5, 20)
            await asyncio.sleep(self.chance.uniform(0.5, 2.0))
        for name in self.names:
            await self.cure(name)

    async def cure(self, name: str) -> None:
        for order in CURES:
            await self._order(name, *order)

    async def _order(self, name: str, method: str, path: str, body: str) -> None:
        await asyncio.to_thread(call, f"{self.admin}/_sim/{name}/{path}", method, body)


async def _load(url: str, seconds: float, chance: Random) -> tuple[list[Seen], int]:
    """Everybody who stayed to the end, and how many left early."""
    loop, stayed, left = asyncio.get_running_loop(), list[Seen](), 0
    begun = loop.time()

    async def one(body: dict) -> None:
        stayed.append(await ask(url, body))

    async def impatient(body: dict) -> None:
        nonlocal left
        await ask(url, body, patience_s=0.1)
        left += 1

    async with asyncio.TaskGroup() as group:
        for number in range(round(RATE_PER_S * seconds)):
            await asyncio.sleep(begun + number / RATE_PER_S - loop.time())
            message = {"role": "user", "content": f"Story {number}, please."}
            body = {"model": "m", "stream": chance.random() < 0.7, "max_tokens": chance.choice((1, 8, 32, 128))}
            send = impatient if chance.random() < LEAVES_EARLY else one
            group.create_task(send({**body, "messages": [message]}))
    return stayed, left


def _descriptors(served: Served) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in tree(served.process.pid))


async def _day(served: Served, patients: Patients, seconds: float) -> tuple[list[Seen], int, float]:
    """Answers, how many clients left early, and the memory when it had warmed up."""
    async with asyncio.TaskGroup() as group:
        load = group.create_task(_load(served.gateway, seconds, Random(patients.chance.random())))
        group.create_task(patients.torment(seconds))
        await asyncio.sleep(seconds / 5)
        warm_mib = rss_mib(served.process.pid)
    stayed, left = load.result()
    return stayed, left, warm_mib


def _failed(seen: Seen) -> bool:
    had_token = seen.first_token_at is not None
    return seen.end is not End.WHOLE and not (had_token and seen.end is End.ERROR_EVENT)


def run(seconds: float, seed: int) -> bool:
    with folder() as path:
        command = [sys.executable, "-m", "pulsegate", "sim", "--ports", "--port", "0", "--count", str(ENGINES)]
        command += ["--itl", "10ms", "--slots", "64"]
        with Process(command, path / "sim.log") as sim:
            told = sim.line('"engines"')
            rows = [{"id": one["name"], "url": one["url"], "engine": "vllm", "model": "sim"} for one in told["engines"]]
            names = [row["id"] for row in rows]
            patients = Patients(admin=told["admin"], names=names, chance=Random(seed), counted=Counter())
            with serving(path, {"models": [{"name": "m", "endpoints": rows}]}) as served:
                served.await_states(dict.fromkeys(names, "healthy"))
                before = _descriptors(served)
                day = uvloop.run(_day(served, patients, seconds))
                time.sleep(QUIET_S)
                return _report(served, patients, day, before)


def _report(served: Served, patients: Patients, day: tuple[list[Seen], int, float], before: int) -> bool:
    stayed, left, warm_mib = day
    lost = [seen for seen in stayed if _failed(seen)]
    kinds = Counter(f"{seen.end} {seen.status or ''} {seen.error[:90]}".strip() for seen in lost)
    in_flight = sum(row["inflight"] for row in served.endpoints())
    more = _descriptors(served) - before
    grown_mib = rss_mib(served.process.pid) - warm_mib
    waits_s = sorted(seen.ttft_s for seen in stayed if seen.ttft_s is not None)
    print(f"faults       {sum(patients.counted.values())}: {dict(patients.counted)}")
    print(f"requests     {len(stayed)} to the end, {left} clients left early")
    print(f"rescued      {sum(seen.attempts > 1 for seen in stayed)}")
    print(f"first token  p50 {1000 * waits_s[len(waits_s) // 2]:.0f} ms, latest {waits_s[-1]:.2f} s")
    print(f"cut          {sum(seen.end is End.ERROR_EVENT and not _failed(seen) for seen in stayed)}")
    print(f"failed       {len(lost)} {dict(kinds) if kinds else ''}")
    print(f"in flight    {in_flight}")
    print(f"descriptors  {more:+d}")
    print(f"growth       {grown_mib:+.1f} MiB (from {warm_mib:.0f})")
    return not lost and in_flight == 0 and more <= MAX_DESCRIPTORS and grown_mib <= MAX_GROWTH_MIB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"{time.strftime('%Y-%m-%d')}, {machine()}; {args.minutes:g} min at {RATE_PER_S:g}/s, seed {args.seed}")
    good = run(60 * args.minutes, args.seed)
    print("ok" if good else "violated")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
