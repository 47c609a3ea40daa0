"""Plays the whole catalogue at once: a simulated engine per case, one real control process over them all.

Everything is real: ``pulsegate serve`` as a process of its own, sockets, the admin API. Only the times are shorter than
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
from pulsegate.sim import EngineConfig, Load, SimServer, Spread
from support.http_client import request
from support.sim_client import SimClient, ask

READY_BY_S = 20.0
WATCH_S = 14.0
LOOK_EVERY_S = 0.1
SOUND = Load(ttft=Spread(median_s=0.01), itl_s=0.002)
PROBE = {
    "interval": "800ms",
    "healthy_ttft": "250ms",
    "congested_ttft": "350ms",
    "timeout": "500ms",
    "frozen_after": "1s",
    "deep_interval": "1600ms",
    "deep_timeout": "1500ms",
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
    looks: list[Look] = field(default_factory=list)
    transitions: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)

    @property
    def states(self) -> set[str]:
        """All states that it was in since the faults began."""
        return {look.state for look in self.looks}

    @property
    def last(self) -> Look:
        return self.looks[-1]

    def told(self) -> str:
        """The story in a few lines, for a failed assertion."""
        lines = [f"{move['at'][14:23]} {move['old']} -> {move['new']}({move['reason']}) {move['detail']}"
                 for move in self.transitions]  # fmt: skip
        return "\n".join([*lines, f"last: {self.last}", f"counters: {self.counters}"])


@dataclass
class Played:
    """All stories, and how long the control process took to say that it lives itself."""

    stories: dict[str, Story]
    own_health_s: list[float]


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
                played = Played({case.id: Story(case.id in sound) for case in cases}, [])
                await _watch(admin, played)
                for user in users:
                    user.cancel()
            await _last_words(admin, homes, sim, played)
    return played


def _script(case: Case):
    from pulsegate.sim import read_script  # noqa: PLC0415 - only where a case is ill from its start

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
        sys.executable, "-m", "pulsegate", "serve", "-c", str(config), stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.TaskGroup() as group:
            while "admin" not in (line := json.loads(await process.stdout.readline())):
                pass
            drain = group.create_task(_drain(process.stdout))
            yield line["admin"]
            drain.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _drain(stream: asyncio.StreamReader) -> None:
    while await stream.readline():
        pass


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
                await client.drink(WATCH_S)


async def _watch(admin: str, played: Played) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while (at := loop.time() - begun) < WATCH_S:
        rows = await _rows(admin)
        for name, story in played.stories.items():
            row = rows[name]
            story.looks.append(Look(at, row["state"], row["reason"], row["ejected"], row["detail"]))
        asked = loop.time()
        assert (await request(admin, "/health")).status == 200
        played.own_health_s.append(loop.time() - asked)
        await asyncio.sleep(LOOK_EVERY_S)


async def _last_words(admin: str, homes: Sequence[tuple[Case, bool]], sim: SimServer, played: Played) -> None:
    told: set[str] = set()
    for number, (case, _) in enumerate(homes):
        if case.id in told:
            continue
        told.add(case.id)
        story = played.stories[case.id]
        story.transitions = (await request(admin, f"/api/endpoints/{case.id}")).json["transitions"]
        story.counters = sim.engine(number).counters.as_dict()
