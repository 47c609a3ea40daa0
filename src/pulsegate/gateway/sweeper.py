"""The worker's only timer: looks after deadlines, idle connections and reports, a few times a second.

One timer for everything costs a request nothing but an attribute, where timers of its own would cost half a microsecond
each time one is set or moved, and a stall deadline moves with every chunk. In exchange, deadlines are met up to one
turn late. When our own loop stood still, what came meanwhile is read before anyone is called late: deadlines are looked
at one turn later then.
"""

import asyncio
from collections.abc import Collection
from typing import Final

from pulsegate.gateway.context import Context, Live
from pulsegate.gateway.downstream import ClientConnection
from pulsegate.gateway.sink import Sink

TURN_S: Final = 0.05
_REPORT_TURNS: Final = 2  # every 100 ms
_SECOND_TURNS: Final = 20
_STANDSTILL_S: Final = 0.1
_FIRST_HINT_GAP_S: Final = 1.0
_LAST_HINT_GAP_S: Final = 8.0


class Sweeper:
    """Turns every 50 ms while it is started."""

    __slots__ = ("_clients", "_context", "_due", "_excused", "_loop", "_reporting", "_sink", "_timer", "_turn")

    def __init__(self, context: Context, clients: Collection[ClientConnection], sink: Sink) -> None:
        self._context = context
        self._clients = clients
        self._sink = sink
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._turn = 0
        self._excused = False
        self._reporting = False

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to turn."""
        self._loop = loop
        context = self._context
        context.turn_at = context.now()
        context.wall_offset_s = context.wall() - context.turn_at
        self._due = loop.time() + TURN_S
        self._timer = loop.call_at(self._due, self._sweep)

    def stop(self) -> None:
        """Stop, after a last report."""
        if self._timer is not None:
            self._timer.cancel()
        self._report()
        self._figures()

    def report_soon(self) -> None:
        """Something should be reported at once: at the next turn of the event loop."""
        if not self._reporting and self._loop is not None:
            self._reporting = True
            self._loop.call_soon(self._report)

    def _sweep(self) -> None:
        loop = self._loop
        if loop is None:
            return
        stood_still = loop.time() - self._due > _STANDSTILL_S and not self._excused
        self._due = max(self._due + TURN_S, loop.time())  # after a standstill, turns are not made up for
        self._timer = loop.call_at(self._due, self._sweep)
        self._turn += 1
        context = self._context
        now = context.turn_at = context.now()
        self._excused = stood_still
        if not stood_still:
            for call in [call for call in context.live if call.due_at <= now]:
                self._overdue(call, now)
            self._look_at_endpoints(now)
            context.roster.tend(now)
        if self._turn % _REPORT_TURNS == 0:
            self._report()
            context.access.flush()
        if self._turn % _SECOND_TURNS == 0:
            self._each_second(now, stood_still=stood_still)

    def _overdue(self, call: Live, now: float) -> None:
        try:
            call.due(now)
        except Exception as exc:  # noqa: BLE001 - the boundary: one request must not hold up the others
            if self._loop is not None:
                self._loop.call_exception_handler({"message": "a request failed in our own code", "exception": exc})
            call.crash()

    def _each_second(self, now: float, *, stood_still: bool) -> None:
        self._context.wall_offset_s = self._context.wall() - now
        if self._context.books is not None:
            self._context.books.tend()
        if not stood_still:
            self.look_at_clients()
        for backend in self._context.roster.backends.values():
            backend.expire(now)
        self._figures()

    def look_at_clients(self) -> None:
        """Tell connections whose deadline is over."""
        now = self._context.now()
        for client in [client for client in self._clients if client.due_at <= now]:
            client.overdue(now)

    def _look_at_endpoints(self, now: float) -> None:
        """Users wait at an endpoint and it gives no sign: ask for a probe, ever more rarely while nothing changes."""
        for backend in self._context.roster.backends.values():
            if not backend.seat.inflight:
                continue
            counters = backend.counters
            sign_at = max(counters.sign_at, counters.busy_since)
            if now - sign_at < backend.pool.late_after_s:
                counters.hint_gap_s = 0.0
            elif now - counters.hint_at >= counters.hint_gap_s:
                counters.hint_at = now
                counters.hint_gap_s = min(max(counters.hint_gap_s * 2, _FIRST_HINT_GAP_S), _LAST_HINT_GAP_S)
                counters.stalled()
                self.report_soon()

    def _report(self) -> None:
        self._reporting = False
        seen = self._context.counters.reports(self._context.now)
        if seen:
            self._sink.traffic(seen)
        news = [told for watch in self._context.roster.watches.values() if (told := watch.news()) is not None]
        if news:
            self._sink.providers(news)

    def _figures(self) -> None:
        context = self._context
        self._sink.figures(
            context.counters.figures(in_flight=context.budget.in_flight, retries_under_way=context.budget.used)
        )
