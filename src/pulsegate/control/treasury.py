"""Keeps the money of a running gateway: follows the ledger as it grows, and answers workers who ask for money.

The control process is the one owner of this truth. Workers write their own lines, because a line must not depend on
another process's being alive; and each paid call asks here first, because only one place can see what all workers are
about to spend. What is in the ledger is read from the files themselves, in a thread: a slow disk holds nobody up.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from threading import Lock
from typing import Final, Generic, assert_never

from pulsegate.control.ledger import Entry, Ledger, LineT, Tail
from pulsegate.control.link import LEDGER_CODE, LIMIT_CODE, Admission, Forgone, LedgerState, MayPay, Money, Paid
from pulsegate.control.ports import Clock, MoneyObserver
from pulsegate.core.cost_gate import (
    AttemptKey,
    CostGate,
    CostPolicy,
    Gate,
    Purse,
    Refusal,
    Scope,
    Spent,
    Standing,
    Ticket,
)
from pulsegate.core.spending import EntryKind, Spending, spending_of
from pulsegate.core.window import Period, period_of

LOOK_S: Final = 0.5
SAVE_S: Final = 10.0
_NOTHING: Final = Decimal()


class Treasury(Generic[LineT]):
    """The ``Cashier`` of a workforce.

    Args:
        tail: of the ledger.
        ledger: where our own lines go (those of probes); written in the same thread as the tail is read in.
        policy: the limits.
        refuses: whether paid calls are refused while the ledger cannot be read or written.

    Attributes:
        lend: is told what workers may spend on their own, should we be gone.
    """

    def __init__(
        self,
        tail: Tail[LineT],
        ledger: Ledger,
        policy: CostPolicy,
        *,
        refuses: bool,
        observer: MoneyObserver,
        clock: Clock,
    ) -> None:
        self._tail = tail
        self._ledger = ledger
        self._policy = policy
        self._gate = CostGate(policy)
        self._refuses = refuses
        self._observer = observer
        self._clock = clock
        self._waiting: list[Entry] = []
        self._rows: list[LineT] = []
        self._reading = Lock()
        self._is_found = self._is_started = False
        self._problem: str | None = None
        self._worker_problems: dict[int, str] = {}
        self._told: dict[Purse, Gate] = {}
        self._told_problem: str | None = None
        self.lend: Callable[[Decimal | None], object] | None = None

    async def start(self) -> None:
        """Learn what was spent. A ledger that cannot be read is trouble, and tried again by ``run``."""
        await self._look()

    async def run(self) -> None:
        """Follow the ledger until cancelled; what is left is written then."""
        try:
            while True:
                for _ in range(round(SAVE_S / LOOK_S)):
                    await self._clock.sleep(LOOK_S)
                    await self._look()
                await asyncio.to_thread(self._tail.save)
        finally:
            self._close()

    def change(self, policy: CostPolicy, *, refuses: bool) -> None:
        """Other limits hold from now on."""
        self._policy, self._refuses = policy, refuses
        self._gate.start(policy, self._tail.groups, self._clock.wall())
        self._announce()

    def book(self, entry: Entry) -> None:
        """Write a line of our own, within the next half second."""
        self._waiting.append(entry)

    @property
    def trouble(self) -> str | None:
        """Why the ledger cannot be written or read by us or by a worker; None when all is well."""
        return self._problem or self._ledger.trouble or next(iter(self._worker_problems.values()), None)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Every limit as it stands."""
        return self._gate.standings(self._clock.wall())

    @property
    def policy(self) -> CostPolicy:
        """The limits."""
        return self._policy

    @property
    def is_refusing(self) -> bool:
        """Whether paid calls are refused for the ledger's sake."""
        return self._refuses and self.trouble is not None

    def spending(self) -> tuple[Period, Spending]:
        """What the ledger shows of this window, half a second old at most."""
        period = period_of(self._policy.window, self._policy.zone, self._clock.wall())
        groups = self._tail.groups.items()
        return period, spending_of((group, sums) for group, sums in groups if period.holds(group.day))

    def allowance(self) -> Decimal | None:
        """What workers may spend without us: what the tightest limit leaves."""
        return min((standing.remaining_cny for standing in self.standings), default=None)

    def heard(self, worker: int, message: Money) -> Admission | None:
        """Cashier: what a worker says."""
        match message:
            case MayPay():
                return self._admit(worker, message)
            case Paid():
                key = AttemptKey(message.op, message.attempt)
                self._gate.paid(Ticket(worker, message.ask), key, message.cny, self._clock.wall())
                self._announce()
            case Forgone():
                self._gate.release(Ticket(worker, message.ask))
            case LedgerState():
                self._worker_problems.pop(worker, None)
                if message.problem is not None:
                    self._worker_problems[worker] = message.problem
                self._announce()
            case _:
                assert_never(message)
        return None

    def gone(self, worker: int) -> None:
        """Cashier: that worker is no more."""
        self._gate.release_all(worker)
        self._worker_problems.pop(worker, None)

    def _admit(self, worker: int, wanted: MayPay) -> Admission:
        if self.is_refusing:
            return Admission(wanted.ask, LEDGER_CODE, "Paid models are not served now: the ledger cannot be kept.")
        wall_s = self._clock.wall()
        ticket = Ticket(worker, wanted.ask)
        refusal = self._gate.reserve(ticket, wanted.provider, wanted.client, wanted.upper_cny, wall_s)
        if refusal is None:
            return Admission(wanted.ask)
        reopens_in_s = None if refusal.reopens_s is None else max(0.0, refusal.reopens_s - wall_s)
        return Admission(wanted.ask, LIMIT_CODE, _told_client(refusal), reopens_in_s)

    async def _look(self) -> None:
        entries, self._waiting = self._waiting, []
        try:
            await asyncio.to_thread(self._read, entries)
        except OSError as exc:
            self._problem = f"the ledger cannot be read: {exc.strerror}"
        else:
            self._problem = None
            self._take()
        self._announce()

    def _read(self, entries: Sequence[Entry]) -> None:
        """In a thread: write what waits, read what is new. The lock is for our end: a thread cannot be cancelled."""
        with self._reading:
            for entry in entries:
                self._ledger.book(entry)
            self._ledger.tend()
            if not self._is_found:
                self._tail.start()
                self._is_found = True
            self._rows += self._tail.news()

    def _take(self) -> None:
        rows, self._rows = self._rows, []
        wall_s = self._clock.wall()
        if not self._is_started:
            self._is_started = True
            self._gate.start(self._policy, self._tail.groups, wall_s)
        for row in rows:
            if row.provider is not None and row.kind == EntryKind.REQUEST:
                cny = row.cost if row.cost is not None and row.currency == "CNY" else _NOTHING
                self._gate.seen(AttemptKey(row.op, row.attempt), Spent(row.provider, row.client, cny), row.ts, wall_s)
        self._tail.take(rows)  # after the gate has seen them: it reads the sums anew when a window begins

    def _announce(self) -> None:
        """Tell of what has changed."""
        for standing in self.standings:
            if self._told.get(standing.purse, Gate.OPEN) is not standing.gate:
                self._told[standing.purse] = standing.gate
                self._observer.gate_moved(standing)
        if self.lend is not None:
            self.lend(self.allowance())
        problem = self.trouble
        if problem != self._told_problem:
            self._told_problem = problem
            self._observer.ledger_troubled(problem)

    def _close(self) -> None:
        """The last lines and the checkpoint; on the way out there is no loop to hold up any more."""
        entries, self._waiting = self._waiting, []
        with suppress(OSError):
            self._read(entries)
            self._take()
        self._tail.save()
        self._ledger.close()


def _told_client(refusal: Refusal) -> str:
    standing = refusal.standing
    whose = {
        Scope.ALL: "The cost limit",
        Scope.PROVIDER: f"The cost limit of provider {standing.purse.name}",
        Scope.KEY: "The cost limit of this API key",
    }[standing.purse.scope]
    left = "" if standing.gate is Gate.CLOSED else f"; {standing.remaining_cny:.2f} CNY are not enough for this request"
    return f"{whose}, {standing.limit_cny:f} CNY, is reached{left}."
