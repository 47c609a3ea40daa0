"""The Protocols that the control plane needs; adapters implement them, ``app.py`` wires them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from pulsegate.control.coordination import View
from pulsegate.control.line import Line
from pulsegate.control.link import Admission, Message, Money
from pulsegate.control.reports import ProbeReport
from pulsegate.core.cost_gate import Standing
from pulsegate.core.events import Effect
from pulsegate.core.figures import WorkerFigures
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.probe import Counters, ProbeAsk, ProbeResult
from pulsegate.core.provider_status import ProviderSeen
from pulsegate.core.snapshot import Snapshot


class Clock(Protocol):
    """The clocks that there are; read nowhere else."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    def boot(self) -> float:
        """Monotonic seconds that also count the time in which the machine slept."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Come back after that long."""
        ...


class Cancellable(Protocol):
    """Something that was asked for and can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has happened already."""
        ...


class Timers(Protocol):
    """Calls back at a time. Every asyncio event loop is one, and its time line is that of ``Clock.now``."""

    def call_at(self, when: float, callback: Callable[[], object], /) -> Cancellable:
        """Call ``callback`` at ``when`` (monotonic seconds) or, when that is past, at the next turn of the loop."""
        ...


class Engine(Protocol):
    """One endpoint, spoken to in its dialect. Never raises for the peer's faults: they are facts in the result."""

    async def probe(self, ask: ProbeAsk) -> ProbeResult:
        """Take a token. Returns by ``ask.deadline_s`` (or ``end_deadline_s``) plus a few milliseconds."""
        ...

    async def counters(self, deadline_s: float) -> Counters | None:
        """Read the progress counters; None when there are none or they could not be read in time."""
        ...

    async def close(self) -> None:
        """Close what is open."""
        ...


class EngineFactory(Protocol):
    """Opens endpoints. No I/O happens before the first probe."""

    def __call__(self, spec: EndpointSpec) -> Engine:
        """An engine for this endpoint."""
        ...


class Publisher(Protocol):
    """Carries the latest snapshot to the data plane; synchronous, keeps only the latest."""

    def offer(self, snapshot: Snapshot) -> None:
        """Take over this snapshot."""
        ...


class Observer(Protocol):
    """Is told what happened: logs, metrics, event streams. Must be quick and must not raise."""

    def saw(self, effect: Effect) -> None:
        """One effect of the board."""
        ...


class ProbeObserver(Protocol):
    """Is told what the prober does, judged or not: metrics and histories. Must be quick and must not raise."""

    def watching(self, fleet: Fleet) -> None:
        """From now on these endpoints are probed and no others."""
        ...

    def probed(self, report: ProbeReport) -> None:
        """One probe is over."""
        ...

    def counted(self, spec: EndpointSpec, counters: Counters | None) -> None:
        """The counters of a late endpoint were read, or could not be."""
        ...


class CrashObserver(Protocol):
    """Is told of our own mistakes: the one place where an unexpected exception ends up."""

    def crashed(self, what: str, exc: BaseException) -> None:
        """``what`` failed in a way that nobody foresaw; write down the stack."""
        ...


class Hired(Protocol):
    """A worker that was started. ``line`` carries messages to it."""

    @property
    def line(self) -> Line:
        """To talk to it."""
        ...

    async def wait(self) -> int:
        """Its exit status, when it has ended; negative: the signal that ended it."""
        ...

    def kill(self) -> None:
        """End it at once; harmless when it has ended."""
        ...


class Hire(Protocol):
    """Starts workers."""

    async def __call__(self, heard: Callable[[Message], None], /) -> Hired:
        """A new worker; ``heard`` is called with each message from it. Raises OSError when it cannot be started."""
        ...


class Cashier(Protocol):
    """Answers what workers ask and tell about money. Must be quick and must not raise."""

    def heard(self, worker: int, message: Money) -> Admission | None:
        """What a worker says, and what to answer."""
        ...

    def gone(self, worker: int) -> None:
        """This worker's process is over, and all that it said was heard."""
        ...


class MoneyObserver(Protocol):
    """Is told how money and ledger stand, whenever that changes. Must be quick and must not raise."""

    def gate_moved(self, standing: Standing) -> None:
        """A limit has opened, is nearly reached, or is spent."""
        ...

    def ledger_troubled(self, problem: str | None) -> None:
        """The ledger cannot be written or read, or can be again (None)."""
        ...


class ProviderWatcher(Protocol):
    """Takes what workers know of hosted providers. Must be quick and must not raise."""

    def heard(self, worker: int, seen: Iterable[ProviderSeen]) -> None:
        """So that worker's providers are now."""
        ...

    def forget(self, worker: int) -> None:
        """That worker is gone."""
        ...

    def when_fresh(self, done: Callable[[], object]) -> None:
        """Call ``done`` when providers have been pinged just now, perhaps at once."""
        ...


class WorkforceObserver(Protocol):
    """Is told of the data plane's processes. Must be quick and must not raise."""

    def worker_ready(self, number: int) -> None:
        """This worker serves by its latest setup."""
        ...

    def worker_refused(self, number: int, problem: str) -> None:
        """This worker cannot serve by the setup that it was sent."""
        ...

    def worker_died(self, number: int, status: int, lived_s: float) -> None:
        """This worker ended without being asked to (negative status: by that signal) and will be started again."""
        ...

    def worker_not_started(self, number: int, problem: str) -> None:
        """There is no process for this worker; it will be tried again."""
        ...

    def worker_gone(self, number: int) -> None:
        """This worker's process is over, asked for or not: its running totals begin anew."""
        ...

    def worker_counted(self, number: int, figures: WorkerFigures) -> None:
        """All counters of this worker."""
        ...


class FellowshipObserver(Protocol):
    """Is told how this gateway stands with others that watch the same fleet. Must be quick and must not raise."""

    def joined(self, view: View) -> None:
        """It takes part, for the first time or again."""
        ...

    def members_changed(self, view: View) -> None:
        """Others came or went."""
        ...

    def parted(self, why: str) -> None:
        """The others cannot be reached."""
        ...

    def dealt(self, gained: int, lost: int, owned: int) -> None:
        """The work was divided anew: endpoints that are probed here now, that no longer are, and that are in all."""
        ...

    def misunderstood(self, what: str) -> None:
        """Words came that nobody here can read, as from another version."""
        ...
