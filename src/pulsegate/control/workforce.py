"""Keeps the workers of the data plane alive, tells them what to serve, and hears what they saw.

Each worker is a process of its own with one end of a socket pair; all accept on the same listening socket, which stays
with the control process, so that a worker that dies loses no connection but its own. A worker that dies is started
again, at once the first time, then ever more slowly.
"""

import asyncio
import contextlib
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import assert_never

from pulsegate.control.holding import Holding
from pulsegate.control.line import Line
from pulsegate.control.link import (
    Admission,
    Allowance,
    Drained,
    DrainNow,
    Figures,
    Forgone,
    LedgerState,
    LinkError,
    MayPay,
    Message,
    Money,
    NewOutlook,
    NewSetup,
    NewSnapshot,
    Paid,
    PingAsked,
    PingOver,
    Providers,
    Ready,
    Refused,
    Traffic,
)
from pulsegate.control.ports import Cashier, Clock, Hire, Hired, ProviderWatcher, WorkforceObserver
from pulsegate.core.events import Event
from pulsegate.core.snapshot import Snapshot

FIRST_DELAY_S = 0.1
LAST_DELAY_S = 5.0
PROVEN_AFTER_S = 10.0  # a worker that lived so long was a good one: its successor starts at once
END_GRACE_S = 3.0  # beyond the drain timeout, before a worker is killed
_KILLED = frozenset({-signal.SIGKILL, -signal.SIGTERM})  # by the machine or a person: not for what it is to serve


@dataclass(frozen=True, slots=True, kw_only=True)
class Hiring:
    """How to start workers, how many, and how long they may take to end."""

    hire: Hire
    count: int
    drain_timeout_s: float


class Workforce:
    """A ``Publisher`` that hands the latest snapshot to every worker.

    Args:
        hiring: what to start, and how many.
        setup: the data plane's encoding of what to serve.
        tell: takes the evidence of users' requests.
        observer: is told of workers that come, go and complain, and of their figures.
        clock: how old workers become.
        cashier: answers what workers ask and tell about money.
        watcher: takes what workers know of hosted providers.

    Attributes:
        cut: how many requests were cut off when workers ended because they had to; of one that was killed, as many as
            it last said that it had.
    """

    def __init__(
        self,
        hiring: Hiring,
        setup: bytes,
        *,
        tell: Callable[[Event], None],
        observer: WorkforceObserver,
        clock: Clock,
        cashier: Cashier | None = None,
        watcher: ProviderWatcher | None = None,
    ) -> None:
        self._hiring = hiring
        self._setup = setup
        self._tell = tell
        self._observer = observer
        self._watcher = watcher
        self._clock = clock
        self._cashier = cashier
        self._allowance: Allowance | None = None
        self.cut = 0
        self._under_way: dict[int, int] = {}
        self._lines: dict[int, Line] = {}
        self._holding = Holding()
        self._unanswered: dict[int, deque[bytes]] = {}  # by worker: setups that it has said nothing about yet
        self._proven: bytes | None = None  # a setup that a worker serves by
        self._snapshot: Snapshot | None = None
        self._outlook: NewOutlook | None = None
        self._settled = asyncio.Event()
        self._problem: str | None = None
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Keep ``count`` workers alive until ``drain`` was called and they have ended. Cancelled: kills them."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._hiring.count):
                group.create_task(self._keep(number))

    async def ready(self) -> None:
        """Returns as soon as one worker serves.

        Raises:
            ValueError: none can, because of the first setup or at all; the message says why.
        """
        await self._settled.wait()
        if self._problem is not None:
            raise ValueError(self._problem)

    def offer(self, snapshot: Snapshot) -> None:
        """Hand over the latest routing table."""
        self._snapshot = snapshot
        for line in self._lines.values():
            line.offer(snapshot)

    def allow(self, cny: Decimal | None) -> None:
        """What all workers together may spend without us, should we be gone; None: as much as they like."""
        share = None if cny is None else cny / self._hiring.count
        allowance = Allowance(share)
        if allowance == self._allowance:
            return
        self._allowance = allowance
        for line in self._lines.values():
            line.say(allowance)

    def inform(self, outlook: NewOutlook) -> None:
        """Tell what is known of providers and money, if it has changed."""
        if outlook == self._outlook:
            return
        self._outlook = outlook
        for line in self._lines.values():
            line.say(outlook)

    def reconfigure(self, setup: bytes) -> None:
        """Serve this from now on."""
        self._setup = setup
        for number in self._lines:
            self._set_up(number)

    def drain(self) -> None:
        """Let every worker finish what it has and end; ``run`` returns then."""
        self._ending.set()
        for line in self._lines.values():
            line.say(DrainNow(self._hiring.drain_timeout_s))

    def _set_up(self, number: int) -> None:
        self._unanswered[number].append(self._setup)
        self._lines[number].say(NewSetup(self._setup))

    async def _keep(self, number: int) -> None:
        delay_s = 0.0
        while not await self._ends_within(delay_s):
            began = self._clock.now()
            try:
                status = await self._employ(number)
            except OSError as exc:
                self._fail(f"a worker cannot be started: {exc}")
                self._observer.worker_not_started(number, str(exc))
                delay_s = LAST_DELAY_S
                continue
            if self._ending.is_set():
                return
            lived_s = self._clock.now() - began
            delay_s = 0.0 if lived_s >= PROVEN_AFTER_S else min(max(delay_s * 2, FIRST_DELAY_S), LAST_DELAY_S)
            if status not in _KILLED:
                self._fail(f"a worker ended with status {status} before it served")
            self._observer.worker_died(number, status, lived_s)

    async def _ends_within(self, delay_s: float) -> bool:
        """Wait that long; whether we were told to drain."""
        if delay_s > 0.0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._ending.wait()
        return self._ending.is_set()

    def _fail(self, problem: str) -> None:
        """Tell whoever waits for the first worker that there is none; later ones are our business alone."""
        if not self._settled.is_set():
            self._problem = problem
            self._settled.set()

    async def _employ(self, number: int) -> int:
        """One worker's life; returns its exit status (negative: the signal that ended it)."""
        hired = await self._hiring.hire(lambda message: self._heard(number, message))
        try:
            self._lines[number] = hired.line
            self._unanswered[number] = deque()
            self._set_up(number)
            if self._snapshot is not None:
                hired.line.say(NewSnapshot(self._snapshot))
            if self._allowance is not None:
                hired.line.say(self._allowance)
            if self._outlook is not None:
                hired.line.say(self._outlook)
            if self._ending.is_set():
                hired.line.say(DrainNow(self._hiring.drain_timeout_s))
            return await _outlast(hired)
        finally:
            self._lines.pop(number, None)
            hired.line.close()
            left = self._under_way.pop(number, 0)
            if self._ending.is_set():
                self.cut += left
            for seen in self._holding.without(number, self._clock.now()):
                self._tell(seen)
            if self._cashier is not None:
                self._cashier.gone(number)
            self._observer.worker_gone(number)
            if self._watcher is not None:
                self._watcher.forget(number)

    def _heard(self, number: int, message: Message) -> None:
        match message:
            case Ready():
                self._proven = self._unanswered[number].popleft()
                self._settled.set()
                self._observer.worker_ready(number)
            case Refused():
                refused = self._unanswered[number].popleft()
                self._fail(message.problem)
                if self._proven is not None and refused is self._setup:
                    self._setup = self._proven  # so that a worker that is started anew serves
                self._observer.worker_refused(number, message.problem)
            case Traffic():
                for seen in message.seen:
                    self._tell(self._holding.summed(number, seen))
            case Drained():
                self._under_way[number] = message.cut
            case Figures():
                self._under_way[number] = message.figures.in_flight
                self._observer.worker_counted(number, message.figures)
            case MayPay() | Paid() | Forgone() | LedgerState():
                self._heard_of_money(number, message)
            case Providers() | PingAsked():
                self._heard_of_providers(number, message)
            case NewSetup() | NewSnapshot() | DrainNow() | Admission() | Allowance() | NewOutlook() | PingOver():
                raise LinkError(f"a worker sent {type(message).__name__}")
            case _:
                assert_never(message)

    def _heard_of_money(self, number: int, message: Money) -> None:
        admission = None if self._cashier is None else self._cashier.heard(number, message)
        if admission is not None:
            self._lines[number].say(admission)

    def _heard_of_providers(self, number: int, message: Providers | PingAsked) -> None:
        watcher = self._watcher
        if isinstance(message, Providers):
            if watcher is not None:
                watcher.heard(number, message.seen)
            return
        over = partial(self._say, number, PingOver(message.ask))
        if watcher is None:
            over()
        else:
            watcher.when_fresh(over)

    def _say(self, number: int, message: Message) -> None:
        line = self._lines.get(number)
        if line is not None:
            line.say(message)


async def _outlast(hired: Hired) -> int:
    """Wait for the worker's end; after a cancellation it is killed, so that none outlives us by our own doing."""
    try:
        return await hired.wait()
    except asyncio.CancelledError:
        hired.kill()
        await hired.wait()
        raise
