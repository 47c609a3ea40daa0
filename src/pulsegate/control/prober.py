"""Takes the probes that the board says are due, tells the board what came of them, and carries out what it wants.

``_take`` is one pass around one endpoint: ask the engine, note the facts. Around it a thin loop, ``_turn``: fold the
facts of all passes that have ended into the board, start those that are due, and sleep until the board's next wake-up.
*When* to probe and *what it means* is decided in the core; here is only asyncio.

A fleet of thousands is worked on in bursts, one turn per ``GRAIN_S``, instead of probe by probe: code and data of a
step are then in the processor's caches, which halves its cost. A small fleet never notices.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from heapq import heappop, heappush
from typing import Any

from pulsegate.control.audience import Audience
from pulsegate.control.counting import CounterReader
from pulsegate.control.errors import InvariantError
from pulsegate.control.flight import Flight, Watch, our_fault
from pulsegate.control.ports import Cancellable, Clock, EngineFactory, Timers
from pulsegate.control.reports import ProbeReport
from pulsegate.control.selfcheck import LoopLag
from pulsegate.core.board import Board
from pulsegate.core.events import (
    CountersRead,
    CountersWanted,
    Event,
    FleetChanged,
    ProbeDone,
    ProbeLate,
    SnapshotChanged,
    Tick,
)
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.ids import EndpointId
from pulsegate.core.probe import Counters
from pulsegate.core.status import DueProbe

GRAIN_S = 0.02  # a tenth of the tightest threshold: no verdict waits noticeably longer
STARTS_PER_TURN = 64  # after a stall the whole fleet can be due: let the loop breathe between batches


class Prober:
    """Watches a fleet: one probe in flight per endpoint, all endpoints at once, one timer for all."""

    def __init__(
        self,
        *,
        board: Board,
        open_engine: EngineFactory,
        audience: Audience,
        clock: Clock,
        timers: Timers,
        lag: LoopLag,
    ) -> None:
        self._board = board
        self._open_engine = open_engine
        self._audience = audience
        self._clock = clock
        self._timers = timers
        self._lag = lag
        self._watches: dict[EndpointId, Watch] = {}
        self._specs: dict[EndpointId, EndpointSpec] = {}
        self._group: asyncio.TaskGroup | None = None
        self._broken: asyncio.Future[None] | None = None
        self._checks: list[tuple[float, int, Flight]] = []  # a heap: when to look whether a flight is late
        self._flights = 0
        self._landed: list[Flight] = []
        self._timer: Cancellable | None = None
        self._timer_at = 0.0
        self._turned_at = -GRAIN_S

    async def run(self, fleet: Fleet) -> None:
        """Watch ``fleet`` (and what ``change`` makes of it) until cancelled; then close every engine.

        Raises:
            Exception: a turn failed for a reason that nobody foresaw. A prober that has stopped must not look alive.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._broken = asyncio.get_running_loop().create_future()
                try:
                    self.change(fleet)
                    await self._broken
                finally:  # before the group cancels what is in flight: nothing new may begin
                    self._group = None
                    self._disarm()
                    for watch in self._watches.values():
                        watch.stop_reading()
        finally:
            self._lag.stop()
            for watch in self._watches.values():
                await self._close(watch)
            self._watches.clear()

    @property
    def specs(self) -> Mapping[EndpointId, EndpointSpec]:
        """What is watched, in the order of the configuration. Holds secrets."""
        return self._specs

    def change(self, fleet: Fleet) -> None:
        """Watch this fleet from now on. Endpoints whose spec did not change keep their engine and their probe.

        Raises:
            ValueError: an endpoint cannot be opened; nothing has changed then.
        """
        if self._group is None:
            raise InvariantError("a fleet can be changed only while run() runs")
        specs = {spec.id: spec for pool in fleet.pools for spec in pool.endpoints}
        kept = {endpoint: watch for endpoint, watch in self._watches.items() if specs.get(endpoint) == watch.spec}
        opened = {spec.id: Watch(spec, self._open_engine(spec)) for spec in specs.values() if spec.id not in kept}
        self._fold()
        now = self._clock.now()
        for endpoint, watch in self._watches.items():
            if endpoint not in kept:
                if watch.flight is not None:
                    self._board.give_back(endpoint, now)
                self._spawn(self._dismiss, watch)
        self._watches = kept | opened
        self._specs = specs
        self._audience.watching(fleet)
        self.tell(FleetChanged(at=now, fleet=fleet))

    def tell(self, event: Event) -> None:
        """Fold one event into the board, carry out what it wants, tell everybody."""
        self._fold()
        self._apply(event)
        self._sleep()

    # The loop: one timer, absolute times.

    def _turn(self) -> None:
        self._timer = None
        try:
            self._work()
        except Exception as exc:  # noqa: BLE001 - handed to run(): a timer's callback has nobody to raise to
            if self._broken is not None and not self._broken.done():
                self._broken.set_exception(exc)

    def _work(self) -> None:
        now = max(self._clock.now(), self._timer_at)  # uvloop counts in milliseconds and may be half of one early
        self._turned_at = now
        self._fold()
        self._check(now)
        for due in self._board.take_due(now, STARTS_PER_TURN):
            self._start(self._watches[due.endpoint], due, now)
        self._apply(Tick(at=now))
        self._sleep()

    def _sleep(self) -> None:
        """Until the board, or a flight that may be late, needs the next turn."""
        checks = self._checks
        while checks and checks[0][2].result is not None:
            heappop(checks)
        wake_at = self._board.next_wake_at()
        if checks and (wake_at is None or checks[0][0] < wake_at):
            wake_at = checks[0][0]
        if wake_at is not None:
            self._wake_by(wake_at)

    def _wake_by(self, at: float) -> None:
        """Have a turn at ``at`` or before, but not within a grain of the last one."""
        at = max(at, self._turned_at + GRAIN_S)
        if self._group is None or (self._timer is not None and self._timer_at <= at):
            return
        self._disarm()
        self._timer_at = at
        self._timer = self._timers.call_at(at, self._turn)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _apply(self, event: Event) -> None:
        for effect in self._board.apply(event):
            if isinstance(effect, SnapshotChanged):
                self._audience.offer(self._board.snapshot)
            elif isinstance(effect, CountersWanted):
                self._read_counters(effect.endpoint, effect.every_s)
            self._audience.saw(effect)

    # One pass around one endpoint.

    def _start(self, watch: Watch, due: DueProbe, now: float) -> None:
        if self._group is None:
            raise InvariantError("probes can begin only while run() runs")
        flight = watch.flight = Flight(watch, due, now)
        self._lag.enter()
        self._check_at(flight.check_at, flight)
        flight.task = self._group.create_task(self._take(flight))
        if due.counters_every_s is not None:
            self._read_counters(due.endpoint, due.counters_every_s)

    async def _take(self, flight: Flight) -> None:
        """Take the probe; whatever happens, the flight lands."""
        ask, result = flight.due.ask, None
        try:
            result = await flight.watch.engine.probe(ask)
        except asyncio.CancelledError as exc:
            task = flight.task
            if not flight.given_up or task is None or task.uncancel() > 0:
                raise
            self._audience.crashed(f"probe of {flight.due.endpoint}: the engine did not come back in time", exc)
            result = our_fault(ask, "the prober did not end this probe in time")
        except Exception as exc:  # noqa: BLE001 - the task boundary: one endpoint's bug must not stop the others
            self._audience.crashed(f"probe of {flight.due.endpoint}", exc)
            result = our_fault(ask, f"the prober failed: {type(exc).__name__}")
        finally:
            self._lag.leave()
            flight.watch.flight = None
            flight.watch.stop_reading()
        flight.ended_at = self._clock.now()
        flight.result = result
        self._landed.append(flight)
        if len(self._landed) == 1:
            self._wake_by(flight.ended_at)

    def _fold(self) -> None:
        """Tell the board of all probes that have ended, in that order."""
        landed, self._landed = self._landed, []
        for flight in landed:
            try:
                self._report(flight)
            except Exception as exc:  # noqa: BLE001 - what cannot be judged at one endpoint must not stop the others
                self._audience.crashed(f"judging {flight.due.endpoint}", exc)
                self._board.give_back(flight.due.endpoint, flight.ended_at)

    def _report(self, flight: Flight) -> None:
        due, result, at = flight.due, flight.result, flight.ended_at
        if result is None:
            raise InvariantError("a flight landed without a result")
        lag_s = self._lag.since(flight.began)
        if lag_s > 0.0:
            result = result._replace(lag_s=lag_s)
        self._apply(ProbeDone(at=at, endpoint=due.endpoint, incarnation=due.incarnation, result=result))
        outcome = self._board.outcome(due.endpoint, at)
        self._audience.probed(
            ProbeReport(
                spec=flight.watch.spec,
                incarnation=due.incarnation,
                at=at,
                late_s=max(0.0, flight.began - due.due_at),
                outcome=None if outcome is None else outcome.kind,
                result=result,
            )
        )

    def _check_at(self, at: float, flight: Flight) -> None:
        self._flights += 1
        heappush(self._checks, (at, self._flights, flight))

    def _check(self, now: float) -> None:
        """Tell the board of flights that are late, and end those that should have ended long ago.

        Time in which our own loop stood still does not count: the token may be here already, unread.
        """
        checks = self._checks
        while checks and (checks[0][0] <= now or checks[0][2].result is not None):
            flight = heappop(checks)[2]
            if flight.result is not None or flight.watch.flight is not flight:
                continue
            lag_s = self._lag.since(flight.began)
            excused_until = flight.check_at + lag_s
            if excused_until > now:
                self._check_at(excused_until, flight)
            elif flight.late:
                flight.give_up()
            else:
                flight.late = True
                self._check_at(flight.check_at, flight)
                due = flight.due
                self._apply(ProbeLate(at=now, endpoint=due.endpoint, incarnation=due.incarnation, lag_s=lag_s))

    # Counters.

    def _read_counters(self, endpoint: EndpointId, every_s: float) -> None:
        watch = self._watches.get(endpoint)
        if watch is None or watch.flight is None or self._group is None:
            return
        if watch.reader is None:
            told = partial(self._counted, watch)
            watch.reader = CounterReader(watch.engine, self._clock, self._timers, self._spawn, told)
        watch.reader.begin(watch.flight.due, every_s)

    def _counted(self, watch: Watch, due: DueProbe, counters: Counters | None) -> None:
        self._audience.counted(watch.spec, counters)
        now = self._clock.now()
        self.tell(CountersRead(at=now, endpoint=due.endpoint, incarnation=due.incarnation, counters=counters))

    # Tasks.

    def _spawn(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        if self._group is None:
            raise InvariantError("work can begin only while run() runs")
        self._group.create_task(self._guarded(work, *args))

    async def _guarded(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        try:
            await work(*args)
        except Exception as exc:  # noqa: BLE001 - the task boundary: one endpoint's bug must not stop the others
            self._audience.crashed("a task of the prober", exc)

    async def _dismiss(self, watch: Watch) -> None:
        """Let go of an endpoint that is no longer watched."""
        flight = watch.flight
        if flight is not None and flight.task is not None:
            flight.task.cancel()
            await asyncio.wait([flight.task])
        watch.stop_reading()
        await self._close(watch)

    async def _close(self, watch: Watch) -> None:
        try:
            await watch.engine.close()
        except Exception as exc:  # noqa: BLE001 - see _guarded
            self._audience.crashed(f"closing {watch.spec.id}", exc)
