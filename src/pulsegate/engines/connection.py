"""One connection and the exchange on it: asyncio's protocol, two timers, no task."""

import asyncio
from collections.abc import Callable
from typing import cast

from pulsegate.core.probe import Fault
from pulsegate.engines.blame import CLOSED_BY_US, local_fault, lost_fault, protocol_fault
from pulsegate.engines.exchange import LINGER_S
from pulsegate.engines.http_answer import HttpAnswer


class Talk:
    """One exchange while it runs. Times are seconds since ``start``, except ``start`` itself."""

    __slots__ = (
        "answer",
        "deadline_hit",
        "done",
        "end_deadline_s",
        "end_s",
        "fault",
        "first_byte_s",
        "send_s",
        "start",
        "timer",
    )

    def __init__(
        self, answer: HttpAnswer, done: asyncio.Future[None], *, start: float, end_deadline_s: float | None
    ) -> None:
        self.answer = answer
        self.done = done
        self.start = start
        self.end_deadline_s = end_deadline_s
        self.send_s: float | None = None
        self.first_byte_s: float | None = None
        self.end_s: float | None = None
        self.deadline_hit = False
        self.fault: Fault | None = None
        self.timer: asyncio.TimerHandle | None = None


class Connection(asyncio.Protocol):
    """Carries one exchange at a time. Between exchanges it must stay silent: whatever comes then closes it.

    Attributes:
        open: it can carry another exchange.
        idle_since: when the last exchange ended, on the clock that was given.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float], registry: set["Connection"]) -> None:
        self.open = False
        self.idle_since = 0.0
        self._loop = loop
        self._now = now
        self._registry = registry
        self._transport: asyncio.Transport | None = None
        self._talk: Talk | None = None
        self._spoke_unasked = False
        self._lost: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        state = "closed" if not self.open else "idle" if self._talk is None else "talking"
        return f"<Connection {state}>"

    @property
    def transport(self) -> asyncio.Transport:
        """The transport under it. Only for the dialler, which puts TLS in between."""
        if self._transport is None:
            raise RuntimeError("not connected")
        return self._transport

    @transport.setter
    def transport(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def begin(self, payload: bytes, talk: Talk, deadline_s: float) -> None:
        """Send a request; ``talk.done`` is set when its exchange is over."""
        self._talk = talk
        if not self.open:
            unasked = protocol_fault("the server spoke before it was asked: not HTTP")
            talk.fault = unasked if self._spoke_unasked else lost_fault(None, None)
            self._finish(talk)
            return
        self.transport.write(payload)
        talk.send_s = self._now() - talk.start
        self._set_timer(talk, deadline_s)

    def abort(self) -> None:
        """Close at once, without waiting for the peer. An exchange in flight ends with a LOCAL fault."""
        self.open = False
        if self._transport is not None:
            self._transport.abort()
        if self._talk is not None:
            self._talk.fault = local_fault(CLOSED_BY_US)
            self._finish(self._talk)

    def abandon(self) -> None:
        """Give up a connection that never came to serve."""
        self.abort()
        self._forget()

    async def wait_lost(self) -> None:
        """Come back when the loop has closed the socket."""
        if self in self._registry:
            self._lost = self._lost or self._loop.create_future()
            await self._lost

    # what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self._transport = cast("asyncio.Transport", transport)  # a stream's transport; uvloop's derive from nothing
        self._registry.add(self)
        self.open = True

    def data_received(self, data: bytes) -> None:
        """The one place where an answer is stamped: at the read that brought it."""
        talk = self._talk
        if talk is None:
            self._spoke_unasked = True
            self.abort()
            return
        at_s = self._now() - talk.start
        if talk.first_byte_s is None:
            talk.first_byte_s = at_s
        answer = talk.answer
        lingered = answer.lingered
        try:
            answer.feed(data, at_s)
        except Exception as exc:  # noqa: BLE001 - a listener's mistake belongs to whoever awaits the exchange
            self._fail(talk, exc)
            return
        if answer.over:
            talk.end_s = at_s
            self._finish(talk)
        elif answer.lingered and not lingered:
            self._set_timer(talk, at_s + LINGER_S if talk.end_deadline_s is None else talk.end_deadline_s)

    def eof_received(self) -> bool:
        """The peer sends no more: that ends the answer and this connection."""
        self.open = False
        talk = self._talk
        if talk is not None:
            at_s = self._now() - talk.start
            try:
                talk.answer.eof(at_s)
            except Exception as exc:  # noqa: BLE001 - as in data_received
                self._fail(talk, exc)
                return False
            talk.end_s = at_s
            self._finish(talk)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, whoever ended it."""
        self.open = False
        talk = self._talk
        if talk is not None:
            talk.end_s = self._now() - talk.start
            talk.fault = lost_fault(exc, talk.answer.status)
            self._finish(talk)
        self._forget()

    def _forget(self) -> None:
        self._registry.discard(self)
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(None)

    # how an exchange ends

    def _set_timer(self, talk: Talk, at_s: float) -> None:
        if talk.timer is not None:
            talk.timer.cancel()
        delay_s = max(0.0, talk.start + at_s - self._now())
        talk.timer = self._loop.call_later(delay_s, self._time_is_up, talk)

    def _time_is_up(self, talk: Talk) -> None:
        if talk is not self._talk:
            return
        if talk.answer.lingered and talk.end_deadline_s is None:
            talk.answer.stopped = True
        else:
            talk.deadline_hit = True
        talk.end_s = self._now() - talk.start
        self._finish(talk)

    def _finish(self, talk: Talk) -> None:
        self._talk = None
        answer = talk.answer
        answer.release()
        if talk.timer is not None:
            talk.timer.cancel()
            talk.timer = None
        if not (answer.keep_alive and answer.whole and self.open):
            self.open = False
            if self._transport is not None:
                self._transport.abort()
        self.idle_since = self._now()
        if not talk.done.done():
            talk.done.set_result(None)

    def _fail(self, talk: Talk, exc: Exception) -> None:
        self.open = False
        if not talk.done.done():
            talk.done.set_exception(exc)
        self._finish(talk)
