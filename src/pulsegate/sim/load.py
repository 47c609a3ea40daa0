"""How much an engine can do at once and how long it takes: slots, a queue, the time to a token, freezing.

Waiting is written as generators that yield seconds (:data:`FOREVER` means: until somebody resumes us), which an
:class:`~pulsegate.sim.exchange.Exchange` drives with the loop's timers. So ten thousand waiting requests are no tasks.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

FOREVER = math.inf


class Job(Protocol):
    """Somebody who waits."""

    def resume_soon(self) -> None:
        """Go on in the loop's next round."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A duration: fixed, or log-normal around its median when ``sigma`` is above 0."""

    median_s: float
    sigma: float = 0.0

    def draw(self, rng: random.Random) -> float:
        """One sample in seconds."""
        return self.median_s * math.exp(rng.gauss(0.0, self.sigma)) if self.sigma else self.median_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load model of one engine; times in seconds, per data-parallel rank where it says so.

    ``slots``: generations at once, per rank. ``queue``: how many more may wait, per rank; None for no limit.
    ``shared_tokens_per_s``: the rank's throughput is divided by its running generations; then ``itl_s`` is unused.
    ``prefill_tokens_per_s`` lengthens the first token with the prompt. ``comment_every_s``: an SSE comment whenever a
    stream has been silent that long. ``hold_after_abort_s``: a slot stays taken that long after its client left.
    ``web_threads``: HTTP requests at once, health paths included. ``keep_alive_s``: idle connections are closed.
    ``priorities``: a lower ``priority`` in the request is served first. ``reply_tokens``: length when nobody says.
    """

    slots: int = 16
    queue: int | None = None
    ttft: Spread = Spread(median_s=0.02)
    itl_s: float = 0.005
    shared_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    comment_every_s: float | None = None
    comment: str = "keep-alive"
    hold_after_abort_s: float = 0.0
    web_threads: int | None = None
    keep_alive_s: float | None = None
    priorities: bool = False
    max_model_len: int = 32768
    reply_tokens: int = 16


DEFAULT_LOAD = Load()


@dataclass(slots=True, eq=False)
class _Waiter:
    job: Job
    granted: bool = False
    left: bool = False


class Slots:
    """Places to be taken, and the queue before them. Closed while frozen: nobody gets in."""

    __slots__ = ("_heap", "_order", "capacity", "closed", "taken", "waiting")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.closed = False
        self.taken = 0
        self.waiting = 0
        self._heap: list[tuple[int, int, _Waiter]] = []
        self._order = count()

    def take_now(self) -> bool:
        """Take a place if one is free and nobody waits for it."""
        if self.closed or self.waiting or self.taken >= self.capacity:
            return False
        self.taken += 1
        return True

    def take(self, job: Job, priority: int = 0) -> Iterator[float]:
        """Wait for a place; afterwards it is ours until :meth:`release`."""
        if self.take_now():
            return
        waiter = _Waiter(job)
        heapq.heappush(self._heap, (priority, next(self._order), waiter))
        self.waiting += 1
        try:
            while not waiter.granted:
                yield FOREVER
        except GeneratorExit:
            if waiter.granted:
                self.release()
            else:
                waiter.left = True
                self.waiting -= 1
            raise

    def release(self) -> None:
        """Give a place back; the next one in the queue gets it."""
        self.taken -= 1
        self.pump()

    def pump(self) -> None:
        """Let in whom there is room for."""
        while self._heap and not self.closed and self.taken < self.capacity:
            waiter = heapq.heappop(self._heap)[2]
            if waiter.left:
                continue
            waiter.granted = True
            self.waiting -= 1
            self.taken += 1
            waiter.job.resume_soon()


@dataclass(slots=True)
class Tally:
    """What one rank has done since it started: the counters behind ``/metrics``."""

    prompt_tokens: int = 0
    tokens: int = 0
    steps: int = 0
    finished: int = 0
    aborted: int = 0
    rejected: int = 0
    ttft_s: float = 0.0
    finished_tokens: int = 0  # of requests that are done: llama.cpp counts only those


@dataclass(frozen=True, slots=True)
class Gauges:
    """What one rank is doing now."""

    running: int
    waiting: int
    kv_usage: float


@dataclass(slots=True)
class Rank:
    """One data-parallel rank: its slots, counters and whether its engine loop stands still."""

    index: int
    slots: Slots
    tally: Tally = field(default_factory=Tally)
    frozen: bool = False
    _parked: list[Job] = field(default_factory=list[Job])
    _gauges_at_freeze: Gauges | None = None

    def gauges(self) -> Gauges:
        """What the web process publishes: while the engine loop stands still, what it last heard from it."""
        return self._gauges_at_freeze or self._live_gauges()

    def _live_gauges(self) -> Gauges:
        taken = self.slots.taken
        return Gauges(running=taken, waiting=self.slots.waiting, kv_usage=round(0.6 * taken / self.slots.capacity, 4))

    def park(self, job: Job) -> None:
        """Keep a job whose next step is the engine's until it is thawed."""
        self._parked.append(job)

    def freeze(self) -> None:
        """The engine loop stops between two steps."""
        if not self.frozen:
            self._gauges_at_freeze = self._live_gauges()
            self.frozen = self.slots.closed = True

    def thaw(self) -> None:
        """It goes on as if nothing had been."""
        self.frozen = self.slots.closed = False
        self._gauges_at_freeze = None
        parked, self._parked = self._parked, []
        for job in parked:
            job.resume_soon()
        self.slots.pump()
