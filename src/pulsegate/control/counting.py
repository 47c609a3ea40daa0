"""Reads an engine's own progress counters while a probe of it is in flight, one reading at a time.

Whether readings are wanted is decided in the core; this is only the rhythm: at once, then every so often, never two
readings at the same time, and never one that counts although the probe it belongs to is over.
"""

from collections.abc import Callable

from pulsegate.control.ports import Cancellable, Clock, Engine, Timers
from pulsegate.core.probe import Counters
from pulsegate.core.status import DueProbe

DEADLINE_S = 0.5  # a metrics page takes milliseconds; one that does not is as good as none

Told = Callable[[DueProbe, Counters | None], None]
Spawn = Callable[..., object]
"""Begins a task: a coroutine function and its arguments."""


class CounterReader:
    """The readings of one endpoint. ``told`` gets each one, with the probe that it was read for."""

    __slots__ = ("_clock", "_engine", "_every_s", "_flight", "_reading", "_spawn", "_timer", "_timers", "_told")

    def __init__(self, engine: Engine, clock: Clock, timers: Timers, spawn: Spawn, told: Told) -> None:
        self._engine = engine
        self._clock = clock
        self._timers = timers
        self._spawn = spawn
        self._told = told
        self._flight: DueProbe | None = None
        self._every_s = 0.0
        self._reading = False
        self._timer: Cancellable | None = None

    def begin(self, flight: DueProbe, every_s: float) -> None:
        """Read now and every ``every_s`` while this probe is in flight; for one that is read already, a new rhythm."""
        self._every_s = every_s
        if self._flight is flight:
            return
        self.end()
        self._flight = flight
        self._go_on()

    def end(self) -> None:
        """The probe is over."""
        self._flight = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_on(self) -> None:
        self._timer = None
        if self._flight is not None and not self._reading:
            self._reading = True
            self._spawn(self._read, self._flight)

    async def _read(self, flight: DueProbe) -> None:
        next_at = self._clock.now() + self._every_s
        try:
            counters = await self._engine.counters(DEADLINE_S)
        finally:
            self._reading = False
        if self._flight is flight:
            self._told(flight, counters)
        if self._flight is flight:  # what was told may have ended it
            self._timer = self._timers.call_at(next_at, self._go_on)
        else:
            self._go_on()
