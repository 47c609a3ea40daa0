"""One worker process: serves what the control process sets up, follows its snapshots, reports what it saw.

When the control process is gone the worker goes on serving by its last snapshot (fail static) until a new control
process has taken its address over, or until nobody has asked for anything for a minute.
"""

import asyncio
import contextlib
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import assert_never

import msgspec
import uvloop

from pulsegate.control.clock import SystemClock, iso8601
from pulsegate.control.collector import calm_collector
from pulsegate.control.ledger import Ledger
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
from pulsegate.control.succession import QUIET_S, Quiet, succeeded
from pulsegate.core.errors import InvariantError
from pulsegate.core.events import TrafficSeen
from pulsegate.core.figures import WorkerFigures
from pulsegate.core.provider_status import ProviderSeen
from pulsegate.core.snapshot import Snapshot
from pulsegate.gateway.books import Books
from pulsegate.gateway.server import Gateway
from pulsegate.gateway.setup import LedgerSetup, Setup

GC_THRESHOLD = 50_000  # objects: requests make hardly any cycles, so the collector may look seldom
EXIT_REFUSED = 3  # the first setup cannot be served


OpenLedger = Callable[[LedgerSetup], Ledger]


def main(listener_fd: int, line_fd: int, open_ledger: OpenLedger | None = None) -> int:
    """Run until told to drain, or until SIGTERM. Returns the exit status.

    Args:
        listener_fd: the listening socket.
        line_fd: the line to the control process.
        open_ledger: opens the ledger that a setup names; None: nothing is written down.
    """
    listener = socket.socket(fileno=listener_fd)
    line_socket = socket.socket(fileno=line_fd)
    for sock in (listener, line_socket):
        sock.setblocking(False)  # noqa: FBT003 - the socket API
    _allow_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(Worker(listener, open_ledger).run(line_socket))


class Worker:
    """Between the line to the control process and the gateway. Is the gateway's ``Sink``, and its books' ``Teller``."""

    def __init__(self, listener: socket.socket, open_ledger: OpenLedger | None = None) -> None:
        self._open_ledger = open_ledger
        self._allowance = Allowance(None)
        self._listener = listener
        self._line = Line(heard=self._heard, lost=self._alone)
        self._gateway: Gateway | None = None
        self._snapshot: Snapshot | None = None
        self._outlook: NewOutlook | None = None
        self._first_setup: asyncio.Future[Setup] | None = None
        self._later_setups: list[Setup] = []  # came while the first was taken over
        self._end: asyncio.Future[float | None] | None = None
        self._orphaned = asyncio.Event()
        self._quiet = Quiet()

    async def run(self, line_socket: socket.socket) -> int:
        """Serve; returns the exit status."""
        loop = asyncio.get_running_loop()
        first_setup = self._first_setup = loop.create_future()
        end = self._end = loop.create_future()
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # decided by the control process
        loop.add_signal_handler(signal.SIGTERM, self._drain, None)
        await loop.create_unix_connection(lambda: self._line, sock=line_socket)
        await asyncio.wait([first_setup, end], return_when=asyncio.FIRST_COMPLETED)
        if not first_setup.done():
            return 0
        setup = first_setup.result()
        try:
            open_books = None if self._open_ledger is None else self._books
            gateway = Gateway(setup, self._snapshot, self, open_books=open_books)
        except ValueError as exc:
            self._line.say(Refused(str(exc)))
            return EXIT_REFUSED
        async with gateway.open(self._listener), asyncio.TaskGroup() as tasks:
            self._gateway = gateway
            if self._snapshot is not None:
                gateway.follow(self._snapshot)
            if self._outlook is not None:
                gateway.look_out(self._outlook)
            calm_collector(GC_THRESHOLD)
            self._line.say(Ready())
            for later in self._later_setups:
                self._take_over(gateway, later)
            waiting = tasks.create_task(self._await_successor())
            timeout_s = await end
            waiting.cancel()
            cut = await gateway.drain(gateway.drain_timeout_s if timeout_s is None else timeout_s)
        self._line.say(Drained(cut))
        self._line.close()
        return 0

    async def _await_successor(self) -> None:
        await self._orphaned.wait()
        _tell("the control process is gone: this worker goes on by what it knew last")
        await succeeded(self._listener)
        _tell("a new control process serves: this worker lets its requests end")
        self._drain(None)

    def traffic(self, seen: Sequence[TrafficSeen]) -> None:
        """Sink: to the control process."""
        self._line.say(Traffic(list(seen)))

    def figures(self, figures: WorkerFigures) -> None:
        """Sink: to the control process; without one they tell whether anybody still needs us."""
        if not self._orphaned.is_set():
            self._line.say(Figures(figures))
        elif self._quiet.seconds(figures, asyncio.get_running_loop().time()) >= QUIET_S:
            self._drain(0.0)

    def providers(self, seen: Sequence[ProviderSeen]) -> None:
        """Sink: to the control process."""
        self._line.say(Providers(list(seen)))

    def ask_ping(self, ask: int) -> bool:
        """Sink: the control process pings for all of us."""
        if self._orphaned.is_set():
            return False
        self._line.say(PingAsked(ask))
        return True

    def _heard(self, message: Message) -> None:
        match message:
            case NewSetup():
                self._set_up(message.setup)
            case NewSnapshot():
                self._snapshot = message.snapshot
                if self._gateway is not None:
                    self._gateway.follow(message.snapshot)
            case Admission() | Allowance():
                self._heard_of_money(message)
            case NewOutlook() | PingOver():
                self._heard_of_providers(message)
            case DrainNow():
                self._drain(message.timeout_s)
            case Ready() | Refused() | Traffic() | Figures() | Drained() | Providers() | PingAsked():
                raise LinkError(f"the control process sent {type(message).__name__}")
            case MayPay() | Paid() | Forgone() | LedgerState():
                raise LinkError(f"the control process sent {type(message).__name__}")
            case _:
                assert_never(message)

    def _heard_of_money(self, message: Admission | Allowance) -> None:
        books = self._books_now
        if isinstance(message, Allowance):
            self._allowance = message
            if books is not None:
                books.allow(message.cny)
        elif books is not None:
            books.answered(message)

    def _heard_of_providers(self, message: NewOutlook | PingOver) -> None:
        if isinstance(message, NewOutlook):
            self._outlook = message
            if self._gateway is not None:
                self._gateway.look_out(message)
        elif self._gateway is not None:
            self._gateway.ping_over(message.ask)

    def may_pay(self, ask: int, provider: str, client: str | None, upper_cny: Decimal) -> None:
        """Teller: to the control process."""
        self._line.say(MayPay(ask, provider, client, upper_cny))

    def paid(self, ask: int, op: str, attempt: int, cny: Decimal) -> None:
        """Teller: to the control process."""
        self._line.say(Paid(ask, op, attempt, cny))

    def forgone(self, ask: int) -> None:
        """Teller: to the control process."""
        self._line.say(Forgone(ask))

    def ledger_state(self, problem: str | None) -> None:
        """Teller: to the control process."""
        self._line.say(LedgerState(problem))

    def _books(self, setup: LedgerSetup, wall_of: Callable[[float], float]) -> Books:
        if self._open_ledger is None:
            raise InvariantError("books are opened without a ledger")
        books = Books(setup, self._open_ledger(setup), self, wall_of)
        books.allow(self._allowance.cny)
        if self._orphaned.is_set():
            books.alone()
        return books

    @property
    def _books_now(self) -> Books | None:
        return None if self._gateway is None else self._gateway.books

    def _set_up(self, encoded: bytes) -> None:
        setup = msgspec.msgpack.decode(encoded, type=Setup)
        if self._gateway is not None:
            self._take_over(self._gateway, setup)
        elif self._first_setup is not None and not self._first_setup.done():
            self._first_setup.set_result(setup)
        else:
            self._later_setups.append(setup)

    def _take_over(self, gateway: Gateway, setup: Setup) -> None:
        try:
            gateway.reconfigure(setup)
        except ValueError as exc:
            self._line.say(Refused(str(exc)))
        else:
            self._line.say(Ready())

    def _drain(self, timeout_s: float | None) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(timeout_s)

    def _alone(self) -> None:
        """The control process is gone. Before the first setup there is nothing to serve; later the show goes on."""
        if self._gateway is None:
            self._drain(0.0)
        self._orphaned.set()
        if self._books_now is not None:
            self._books_now.alone()


def _tell(event: str) -> None:
    """One line on standard error, in the shape of the control process's own."""
    line = {"event": event, "pid": os.getpid(), "level": "warning", "at": iso8601(SystemClock().wall())}
    with contextlib.suppress(OSError):  # who read it may be gone, too
        os.write(sys.stderr.fileno(), msgspec.json.encode(line) + b"\n")


def _allow_files() -> None:
    """As many open files as the machine lets us have: each request holds two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
