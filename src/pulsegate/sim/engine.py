"""One simulated inference server: its phase, ranks, flags, counters and script. No sockets, no bytes."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from itertools import count
from typing import Protocol

from pulsegate.sim.dialects import Dialect, WhileLoading, dialect
from pulsegate.sim.grammar import read_script
from pulsegate.sim.load import DEFAULT_LOAD, Load, Rank, Slots
from pulsegate.sim.matching import RuleBook
from pulsegate.sim.script import SOUND, Script

EPOCH = 1_767_225_600  # the simulator's clock shows 2026-01-01 plus the loop's time: it needs no real date


class Phase(StrEnum):
    """Where an engine is in its life."""

    READY = "ready"
    LOADING = "loading"
    ASLEEP = "asleep"  # put to sleep on purpose
    DEAD = "dead"  # the engine behind the web server is gone
    DOWN = "down"  # the process is gone: nothing listens


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What to simulate. ``ranks``: data-parallel ranks, each with its own slots."""

    engine: str = "vllm"
    model: str = "sim"
    load: Load = DEFAULT_LOAD
    ranks: int = 1
    api_key: str | None = field(default=None, repr=False)
    script: Script = SOUND
    seed: int = 0


@dataclass(slots=True)
class Counters:
    """What was seen since the engine was made; restarts do not clear them."""

    requests: int = 0
    generations: int = 0
    probes: int = 0
    open: int = 0
    open_max: int = 0
    probes_open: int = 0
    probes_open_max: int = 0
    finished: int = 0
    aborted: int = 0
    probes_aborted: int = 0
    refused: int = 0
    tokens: int = 0
    connections: int = 0
    connections_open: int = 0
    connections_open_max: int = 0
    starts: int = 1

    def as_dict(self) -> dict[str, int]:
        """All counters by name."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


class Timers(Protocol):
    """The part of an event loop that an engine needs."""

    def time(self) -> float:
        """Monotonic seconds."""
        ...

    def call_later(self, delay: float, callback: Callable[[], object], /) -> object:
        """Call back after that long."""
        ...


class Door(Protocol):
    """What an engine can do to its connections and its port."""

    def refuse(self) -> None:
        """The port refuses from now on."""
        ...

    def deafen(self) -> None:
        """Connections are no longer accepted; the backlog fills up."""
        ...

    def open(self) -> None:
        """Accept connections."""
        ...

    def reset_all(self) -> None:
        """Reset every open connection of this engine."""
        ...


class SimEngine:
    """One simulated server; the HTTP side asks it what to do and tells it what happened."""

    def __init__(self, name: str, config: EngineConfig, timers: Timers) -> None:
        self.name = name
        self.config = config
        self.dialect: Dialect = dialect(config.engine)
        self.timers = timers
        self.counters = Counters()
        self.rng = random.Random(f"{config.seed}/{name}")  # noqa: S311 - repeatable noise, no secrets
        self.door: Door | None = None
        self.load = config.load
        self.flags: set[str] = set()
        self.ids = count(1)
        self._turn = count()
        self._life = 0
        self._begin(config.script)

    def __repr__(self) -> str:
        return f"SimEngine({self.name}, {self.config.engine}, {self.phase}, {self.counters})"

    # --- its script -------------------------------------------------------------------------------------------

    def set_script(self, source: Script | Mapping[str, object] | str) -> None:
        """Follow a script (parsed, as data, or as YAML text) from now on; running requests go on as they began.

        Raises:
            ScriptError: it cannot be understood.
        """
        self.script = script = source if isinstance(source, Script) else read_script(source)
        self.load = replace(self.config.load, **script.load)
        self.flags = set(script.flags)
        self.book = RuleBook(script.rules, self.timers.time())
        for rank in self.ranks:
            rank.slots.capacity = self.load.slots
            rank.slots.pump()
        if self.load.web_threads is not None:
            self.web.capacity = self.load.web_threads

    def _begin(self, script: Script) -> None:
        """A new process: new counters of its own, new ranks."""
        self.started_at = self.timers.time()
        self.phase = Phase.READY
        self.ranks = [Rank(index, Slots(self.config.load.slots)) for index in range(self.config.ranks)]
        self.web = Slots(self.load.web_threads or 1)
        self.steps_told = 0
        self.set_script(script)

    # --- its life ---------------------------------------------------------------------------------------------

    def come_up(self) -> None:
        """Follow the script's ``start``: refuse, be deaf, load, be ready."""
        start = self.script.start
        if start is None or self.door is None:
            return
        self._life += 1
        if start.refuse_s:
            self.phase = Phase.DOWN
            self.door.refuse()
            self._later(start.refuse_s, self._listen_deaf)
        else:
            self._listen_deaf()

    def _listen_deaf(self) -> None:
        start = self.script.start
        if start is not None and start.deaf_s and self.door is not None:
            self.door.deafen()
            self._later(start.deaf_s, self._listen)
        else:
            self._listen()

    def _listen(self) -> None:
        if self.door is not None:
            self.door.open()
        loading_s = self.script.start.loading_s if self.script.start is not None else 0.0
        self.be_loading(loading_s)

    def be_loading(self, seconds: float) -> None:
        """Load for that long, then be ready."""
        if seconds <= 0:
            self.phase = Phase.READY
            return
        self.phase = Phase.LOADING
        if self.door is not None and self.dialect.while_loading is WhileLoading.REFUSES:
            self.door.refuse()
        self._later(seconds, self._loaded)

    def _loaded(self) -> None:
        if self.phase is Phase.LOADING:
            self.phase = Phase.READY
            if self.door is not None:
                self.door.open()

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do it later, unless this life is over by then."""
        life = self._life
        self.timers.call_later(seconds, lambda: what() if life == self._life else None)

    def crash(self, restart_s: float | None = None, loading_s: float = 0.0) -> None:
        """The process is gone, with its connections; it comes back after ``restart_s``."""
        self._life += 1
        self.phase = Phase.DOWN
        if self.door is not None:
            self.door.refuse()
            self.door.reset_all()
        if restart_s is not None:
            self._later(restart_s, lambda: self.start(loading_s))

    def start(self, loading_s: float = 0.0) -> None:
        """A new process in place of the old one; flags and the script's counts begin anew."""
        self._life += 1
        self._begin(self.script)
        self.counters.starts += 1
        if self.door is not None:
            self.door.open()
        self.be_loading(loading_s)

    def end(self) -> None:
        """Nothing that was planned happens any more."""
        self._life += 1

    def refuse_port(self, for_s: float | None = None) -> None:
        """Refuse new connections; the open ones live on."""
        if self.door is not None:
            self.door.refuse()
            if for_s is not None:
                self._later(for_s, self.door.open)

    def be_deaf(self, for_s: float | None = None) -> None:
        """Accept no new connections."""
        if self.door is not None:
            self.door.deafen()
            if for_s is not None:
                self._later(for_s, self.door.open)

    def freeze(self, rank: int | None = None) -> None:
        """The engine loop of one rank (None: of all) stands still."""
        for each in self._some(rank):
            each.freeze()

    def thaw(self, rank: int | None = None) -> None:
        """It goes on."""
        for each in self._some(rank):
            each.thaw()

    def break_down(self) -> None:
        """The engine behind the web server dies."""
        self.phase = Phase.DEAD

    def set_asleep(self, asleep: bool) -> None:
        """Put to sleep on purpose, or woken."""
        self.phase = Phase.ASLEEP if asleep else Phase.READY

    def reset(self) -> None:
        """Sound again, as if nothing had been: no script, thawed, listening."""
        self._life += 1
        self.thaw()
        self.phase = Phase.READY
        self.set_script(SOUND)
        if self.door is not None:
            self.door.open()

    # --- what it is asked -------------------------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Whether all ranks stand still."""
        return all(rank.frozen for rank in self.ranks)

    def _some(self, rank: int | None) -> list[Rank]:
        return self.ranks if rank is None else [self.ranks[rank]]

    def rank_for(self, pinned: int | None) -> Rank:
        """The rank that was asked for, or the next in turn, as round-robin balancing inside the engine does it."""
        if len(self.ranks) == 1:
            return self.ranks[0]
        if pinned is not None and pinned < len(self.ranks):
            return self.ranks[pinned]
        return self.ranks[next(self._turn) % len(self.ranks)]

    def unix_time(self) -> int:
        """The simulator's date."""
        return EPOCH + int(self.timers.time())

    def rise(self) -> float:
        """By how much scripted counters have grown by themselves."""
        return self.script.metered.rise_per_s * (self.timers.time() - self.book.since)
