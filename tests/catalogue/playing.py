"""Plays the whole catalogue at once: a simulated engine per case, one real control process over them all.

Everything is real: the control process as a process of its own, sockets, the admin API. Only the times are shorter than
in production, so that hours of failures take seconds.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalogue.cases import Action, Case, Traffic
from pulsegate.sim import EngineConfig, Load, Script, SimServer, Spread, read_script
from support.http_client import request
from support.sim_client import SimClient, ask

SUPPORT_IN = Path(__file__).parents[1]
READY_BY_S = 30.0
WATCH_S = 16.0
PATIENCE_S = 45.0  # a machine that is busy with other things is slower, not wrong
LOOK_EVERY_S = 0.2
MOST_LAG_S = 0.1
SOUND = Load(ttft=Spread(median_s=0.01), itl_s=0.002)
PROBE = {
    "interval": "1s",
    "healthy_ttft": "400ms",
    "congested_ttft": "500ms",
    "timeout": "800ms",
    "frozen_after": "1s",
    "deep_interval": "2400ms",
    "deep_timeout": "2s",
    "busy_interval": "1s",
}
EJECTION = {"hold_off": "200ms", "hold_off_max": "1s", "slow_start": "200ms"}


@dataclass(frozen=True)
class Look:
    """One look at an endpoint, ``at`` seconds after the faults began."""

    at: float
    state: str
    reason: str
    ejected: bool
    detail: str


@dataclass
class Story:
    """What happened to the endpoint of one case."""

    sound_before: bool
    begun: str = ""  # ISO 8601 by the control process's clock; all times are since then
    looks: list[Look] = field(default_factory=list)
    transitions: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def states(self) -> set[str]:
        """All states that it was in since the faults began, seen or told of."""
        moves = [move for move in self.transitions if move["at"] >= self.begun]
        return {look.state for look in self.looks} | {state for move in moves for state in (move["old"], move["new"])}

    @property
    def last(self) -> Look:
        return self.looks[-1]

    def wrongs(self, case: Case) -> list[str]:
        """What is not as it should be, in a few words each."""
        expect, last = case.expect, self.last
        wrongs = [] if case.from_start or self.sound_before else ["it was never healthy"]
        if last.state not in expect.states:
            wrongs.append(f"it is {last.state}, not {' or '.join(expect.states)}")
        if expect.reasons and last.reason not in expect.reasons:
            wrongs.append(f"for the reason {last.reason}, not {' or '.join(expect.reasons)}")
        if expect.ejected is not None and self.out is not expect.ejected:
            wrongs.append("it is out of routing" if self.out else "it gets traffic")
        wrongs += [f"it never was {state}" for state in expect.passes if state not in self.states]
        wrongs += [f"it was {state}" for state in expect.never if state in self.states]
        counted = ((name, self.counters.get(name, 0), most) for name, most in expect.at_most.items())
        return wrongs + [f"{name} is {count}, more than {most}" for name, count, most in counted if count > most]

    @property
    def out(self) -> bool:
        """Whether it gets no traffic: ejected, or not in a state that is routed to."""
        return self.last.ejected or self.last.state not in {"healthy", "degraded"}

    def told(self) -> str:
        """The story in a few lines, for a failed assertion."""
        lines = [f"{move['at'][14:23]} {move['old']} -> {move['new']}({move['reason']}) {move['detail']}"
                 for move in self.transitions]  # fmt: skip
        return "\n".join([*lines, f"last: {self.last}", f"counters: {self.counters}"])


@dataclass
class Played:
    """All stories, how long the control process took to say that it lives itself, and how late our own loop was."""

    stories: dict[str, Story]
    own_health_s: list[float] = field(default_factory=list)
    worst_lag_s: float = 0.0

    @property
    def disturbed(self) -> bool:
        """The simulated engines could not keep their times: the machine was busy with other things."""
        return self.worst_lag_s > MOST_LAG_S

    def failed(self, cases: Sequence[Case]) -> list[Case]:
        """The cases that did not come out as they should."""
        return [case for case in cases if self.stories[case.id].wrongs(case)]


async def play(cases: Sequence[Case], directory: Path) -> Played:
    """Play all cases and come back with their stories."""
    homes = _homes(cases)
    configs = [
        EngineConfig(
            engine=case.engine, load=SOUND, **({"script": _script(case)} if case.from_start and ill else {})
        )
        for case, ill in homes
    ]  # fmt: skip
    async with SimServer(configs, ports=True) as sim:
        config = directory / "catalogue.json"  # JSON is YAML
        config.write_text(json.dumps(_configuration(homes, sim)))
        async with _control(config) as admin:
            sound = await _wait_until_sound(admin, cases)
            async with asyncio.TaskGroup() as group:
                users = [group.create_task(each) for each in _faults(homes, sim)]
                played = Played({case.id: Story(case.id in sound) for case in cases})
                ticking = group.create_task(_tick(played))
                await _begin(admin, cases, played)
                await _watch(admin, cases, played)
                for task in (*users, ticking):
                    task.cancel()
            await _last_words(admin, homes, sim, played)
    return played


def _script(case: Case) -> Script:
    return read_script(dict(case.script))


def _homes(cases: Sequence[Case]) -> list[tuple[Case, bool]]:
    """Which case each engine belongs to, and whether that engine is the ill one."""
    return [(case, n == 0 or case.everywhere) for case in cases for n in range(case.peers + 1)]


def _configuration(homes: Sequence[tuple[Case, bool]], sim: SimServer) -> dict[str, Any]:
    models: dict[str, dict[str, Any]] = {}
    for number, (case, _) in enumerate(homes):
        model = models.setdefault(case.id, {"name": case.id, "endpoints": []})
        order = len(model["endpoints"])
        name = case.id if order == 0 else f"{case.id}-peer{order}"
        model["endpoints"].append({"url": sim.url(number), "engine": case.speak, "model": "sim", "id": name})
    return {"admin": {"listen": "127.0.0.1:0"}, "probe": PROBE, "ejection": EJECTION, "models": list(models.values())}


@contextlib.asynccontextmanager
async def _control(config: Path) -> AsyncGenerator[str]:
    """The control process; yields the address of its admin API."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.control_process", str(config), cwd=SUPPORT_IN, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    try:
        assert process.stdout is not None
        said = await process.stdout.readline()
        assert said, "the control process did not start; it says why on stderr"
        yield json.loads(said)["admin"]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _rows(admin: str) -> Mapping[str, dict[str, Any]]:
    return {row["id"]: row for row in (await request(admin, "/api/endpoints")).json["endpoints"]}


async def _wait_until_sound(admin: str, cases: Sequence[Case]) -> set[str]:
    """The cases that were healthy before anything went wrong."""
    waiting = {case.id for case in cases if not case.from_start}
    sound: set[str] = set()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_BY_S):
            while waiting:
                rows = await _rows(admin)
                now = {name for name in waiting if rows[name]["state"] == "healthy"}
                sound |= now
                waiting -= now
                await asyncio.sleep(LOOK_EVERY_S)
    return sound


def _faults(homes: Sequence[tuple[Case, bool]], sim: SimServer):
    """What users and the wicked do from now on."""
    for number, (case, ill) in enumerate(homes):
        if not ill:
            continue
        if not case.from_start:
            sim.engine(number).set_script(dict(case.script))
        for action in case.actions:
            yield _act(sim.admin_url, number, action)
        for traffic in case.traffic:
            for _ in range(traffic.streams):
                yield _use(sim.url(number), traffic)


async def _act(admin: str, number: int, action: Action) -> None:
    await asyncio.sleep(action.after_s)
    answer = await ask(admin, f"/_sim/e{number}/{action.do}?{action.query}", b"")
    assert answer.status == 200, answer.raw


async def _use(url: str, traffic: Traffic) -> None:
    """One user with so many requests, one after another, each read to its end or until the play is over."""
    body = {"prompt": "x" * traffic.prompt_chars, "max_tokens": traffic.max_tokens, "stream": True}
    for _ in range(traffic.times):
        with contextlib.suppress(OSError):
            async with SimClient(url) as client:
                client.send("POST", "/v1/completions", json.dumps(body).encode())
                await client.drink(PATIENCE_S)


async def _tick(played: Played) -> None:
    """Notice when our own loop is late, and with it every simulated engine."""
    loop, every_s = asyncio.get_running_loop(), 0.02
    while True:
        due = loop.time() + every_s
        await asyncio.sleep(every_s)
        played.worst_lag_s = max(played.worst_lag_s, loop.time() - due)


async def _begin(admin: str, cases: Sequence[Case], played: Played) -> None:
    """Remember when it began; what is ill from its start has begun already."""
    now = (await request(admin, "/health")).json["checked_at"]
    for case in cases:
        played.stories[case.id].begun = "" if case.from_start else now


async def _watch(admin: str, cases: Sequence[Case], played: Played) -> None:
    """Look for a while, and a while longer as long as some case has not come to its end."""
    loop, over = asyncio.get_running_loop(), False
    begun = loop.time()
    while not over:
        at = loop.time() - begun
        rows = await _rows(admin)
        for name, story in played.stories.items():
            row = rows[name]
            story.looks.append(Look(at, row["state"], row["reason"], row["ejected"], row["detail"]))
        asked = loop.time()
        assert (await request(admin, "/health")).status == 200
        played.own_health_s.append(loop.time() - asked)
        if at >= WATCH_S:
            await _ask_what_was_missed(admin, played.failed(cases), played)
            over = at >= PATIENCE_S or not played.failed(cases)
        await asyncio.sleep(LOOK_EVERY_S)


async def _ask_what_was_missed(admin: str, cases: Sequence[Case], played: Played) -> None:
    """States that lasted for less than the time between two looks."""
    for case in cases:
        told = await request(admin, f"/api/endpoints/{case.id}")
        played.stories[case.id].transitions = told.json["transitions"]


async def _last_words(admin: str, homes: Sequence[tuple[Case, bool]], sim: SimServer, played: Played) -> None:
    first = {case.id: (case, number) for number, (case, _) in reversed(list(enumerate(homes)))}
    await _ask_what_was_missed(admin, [case for case, _ in first.values()], played)
    for case, number in first.values():
        played.stories[case.id].counters = sim.engine(number).counters.as_dict()
