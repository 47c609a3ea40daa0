"""Takes the probes that the board says are due, tells the board what came of them, and carries out what it wants.

One pass (``_take``) around one endpoint: ask the engine, fold the facts into the board, carry out the effects. Around
it a thin loop: one timer for the whole fleet, set to the board's next wake-up. *When* to probe and *what it means* is
decided in the core; here is only asyncio.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from pulsegate.control.audience import Audience
from pulsegate.control.counting import CounterReader
from pulsegate.control.errors import InvariantError
from pulsegate.control.ports import Cancellable, Clock, EngineFactory, Timers
from pulsegate.control.reports import ProbeReport
from pulsegate.control.selfcheck import LoopLag
from pulsegate.control.watch import Watch
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
from pulsegate.core.probe import Counters, Ending, Fault, FaultClass, Phases, ProbeAsk, ProbeResult
from pulsegate.core.status import DueProbe

Work = Callable[..., Coroutine[Any, Any, None]]

STARTS_PER_TURN = 64  # after a stall the whole fleet can be due: let the loop breathe between batches
OVERRUN_S = 2.0  # an engine that has not come back so long after its deadline has a bug: give up on that probe


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
        self._timer: Cancellable | None = None
        self._timer_at = 0.0

    async def run(self, fleet: Fleet) -> None:
        """Watch ``fleet`` (and what ``change`` makes of it) until cancelled; then close every engine."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    self.change(fleet)
                    await asyncio.Event().wait()
                finally:  # before the group cancels what is in flight: nothing new may begin
                    self._group = None
                    self._disarm()
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
        now = self._clock.now()
        specs = {spec.id: spec for pool in fleet.pools for spec in pool.endpoints}
        kept = {endpoint: watch for endpoint, watch in self._watches.items() if specs.get(endpoint) == watch.spec}
        opened = {spec.id: Watch(spec, self._open_engine(spec)) for spec in specs.values() if spec.id not in kept}
        gone = [watch for endpoint, watch in self._watches.items() if endpoint not in kept]
        for watch in gone:
            if watch.flight is not None:
                self._board.give_back(watch.spec.id, now)
            self._spawn(self._dismiss, watch)
        self._watches = kept | opened
        self._specs = specs
        self._audience.watching(fleet)
        self.tell(FleetChanged(at=now, fleet=fleet))

    def tell(self, event: Event) -> None:
        """Fold one event into the board, carry out what it wants, tell everybody."""
        for effect in self._board.apply(event):
            if isinstance(effect, SnapshotChanged):
                self._audience.offer(self._board.snapshot)
            elif isinstance(effect, CountersWanted):
                self._read_counters(effect.endpoint, effect.every_s)
            self._audience.saw(effect)
        self._arm()

    # The loop: one timer, absolute times.

    def _arm(self) -> None:
        wake_at = self._board.next_wake_at()
        if self._group is None or wake_at is None:
            self._disarm()
        elif self._timer is None or wake_at != self._timer_at:
            self._disarm()
            self._timer_at = wake_at
            self._timer = self._timers.call_at(wake_at, self._wake)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        now = max(self._clock.now(), self._timer_at)  # uvloop counts in milliseconds and may be half of one early
        for due in self._board.take_due(now, STARTS_PER_TURN):
            self._start(self._watches[due.endpoint], due, now)
        self.tell(Tick(at=now))

    def _start(self, watch: Watch, due: DueProbe, now: float) -> None:
        watch.flight = due
        watch.task = self._spawn(self._take, watch, due, now)
        if due.counters_every_s is not None:
            self._read_counters(due.endpoint, due.counters_every_s)

    # One pass around one endpoint.

    async def _take(self, watch: Watch, due: DueProbe, began: float) -> None:
        self._lag.enter()
        try:
            result = await self._facts(watch, due, began)
        finally:
            lag_s = self._lag.since(began)
            self._lag.leave()
            watch.landed()
        if lag_s > 0.0:
            result = replace(result, lag_s=lag_s)
        now = self._clock.now()
        self.tell(ProbeDone(at=now, endpoint=due.endpoint, incarnation=due.incarnation, result=result))
        outcome = self._board.outcome(due.endpoint, now)
        self._audience.probed(
            ProbeReport(
                spec=watch.spec,
                incarnation=due.incarnation,
                at=now,
                late_s=max(0.0, began - due.due_at),
                outcome=None if outcome is None else outcome.kind,
                result=result,
            )
        )

    async def _facts(self, watch: Watch, due: DueProbe, began: float) -> ProbeResult:
        guard = asyncio.timeout(None)  # set only when the probe is late: most never need a second timer
        late = self._timers.call_at(began + due.late_after_s, partial(self._late, due, guard, began))
        try:
            async with guard:
                return await watch.engine.probe(due.ask)
        except TimeoutError as exc:
            self._audience.crashed(f"probe of {due.endpoint}: the engine did not come back by its deadline", exc)
            return _our_fault(due.ask, "the prober did not end this probe in time")
        except Exception as exc:  # noqa: BLE001 - the task boundary: one endpoint's bug must not stop the others
            self._audience.crashed(f"probe of {due.endpoint}", exc)
            return _our_fault(due.ask, f"the prober failed: {type(exc).__name__}")
        finally:
            late.cancel()

    def _late(self, due: DueProbe, guard: asyncio.Timeout, began: float) -> None:
        guard.reschedule(began + max(due.ask.deadline_s, due.ask.end_deadline_s or 0.0) + OVERRUN_S)
        lag_s = self._lag.since(began)
        self.tell(ProbeLate(at=self._clock.now(), endpoint=due.endpoint, incarnation=due.incarnation, lag_s=lag_s))

    # Counters.

    def _read_counters(self, endpoint: EndpointId, every_s: float) -> None:
        watch = self._watches.get(endpoint)
        if watch is None or watch.flight is None or self._group is None:
            return
        if watch.reader is None:
            told = partial(self._counted, watch)
            watch.reader = CounterReader(watch.engine, self._clock, self._timers, self._spawn, told)
        watch.reader.begin(watch.flight, every_s)

    def _counted(self, watch: Watch, due: DueProbe, counters: Counters | None) -> None:
        self._audience.counted(watch.spec, counters)
        self.tell(
            CountersRead(at=self._clock.now(), endpoint=due.endpoint, incarnation=due.incarnation, counters=counters)
        )

    # Tasks.

    def _spawn(self, work: Work, *args: object) -> asyncio.Task[None]:
        if self._group is None:
            raise InvariantError("work can begin only while run() runs")
        return self._group.create_task(self._guarded(work, *args))

    async def _guarded(self, work: Work, *args: object) -> None:
        try:
            await work(*args)
        except Exception as exc:  # noqa: BLE001 - the task boundary: one endpoint's bug must not stop the others
            self._audience.crashed("a task of the prober", exc)

    async def _dismiss(self, watch: Watch) -> None:
        task = watch.task
        watch.landed()
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self._close(watch)

    async def _close(self, watch: Watch) -> None:
        try:
            await watch.engine.close()
        except Exception as exc:  # noqa: BLE001 - see _guarded
            self._audience.crashed(f"closing {watch.spec.id}", exc)


def _our_fault(ask: ProbeAsk, detail: str) -> ProbeResult:
    return ProbeResult(
        kind=ask.kind,
        prompt_id=ask.prompt_id,
        phases=Phases(),
        ending=Ending.FAILED,
        token_seen=False,
        text="",
        chunks=0,
        tokens=None,
        finish_reason=None,
        fault=Fault(kind=FaultClass.LOCAL, detail=detail),
        bytes_read=0,
        reused=False,
    )
