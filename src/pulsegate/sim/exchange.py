"""One request being answered: drives the generator that plays it with the loop's timers, and keeps its accounts."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from pulsegate.sim.dialects import Served
from pulsegate.sim.engine import SimEngine
from pulsegate.sim.load import FOREVER, Rank
from pulsegate.sim.matching import Choice, Sight
from pulsegate.sim.reply import Reply
from pulsegate.sim.request import Ask, Request
from pulsegate.sim.script import Group
from pulsegate.sim.wires import Framing, Generation

Waits = Iterator[float]
_NO_GROUPS: frozenset[Group] = frozenset()


class Line(Protocol):
    """The connection that an exchange writes to."""

    paused: bool

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def leave(self, *, reset: bool) -> None:
        """Close: with RST, or in order."""
        ...

    def answered(self, exchange: "Exchange") -> None:
        """The exchange is over and the connection is free."""
        ...


@dataclass(slots=True)
class Work:
    """What a well-formed generation request asks for, and the answer in the making."""

    served: Served
    ask: Ask
    gen: Generation
    tokens: Iterator[str] | None = None  # what the model goes on to say, once it has begun


class Exchange:
    """One request and its answer. ``served`` is the generation route it came in on, ``work`` what it asks for there."""

    __slots__ = (
        "_advance_cb",
        "_comment_timer",
        "_ended",
        "_loop",
        "_play",
        "_timer",
        "_wait_s",
        "_waits",
        "_writes_at_tick",
        "choice",
        "computing",
        "done",
        "engine",
        "groups",
        "holding",
        "left",
        "line",
        "probing",
        "rank",
        "reply",
        "request",
        "served",
        "work",
    )

    def __init__(
        self,
        line: Line,
        engine: SimEngine,
        request: Request,
        play: Callable[["Exchange"], Waits],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.line = line
        self.engine = engine
        self.request = request
        self.groups = _NO_GROUPS
        self.served: Served | None = None
        self.work: Work | None = None
        self.rank: Rank = engine.ranks[0]
        self.choice: Choice | None = None
        close = request.headers.get(b"connection", b"").lower() == b"close"
        self.reply = Reply(line.write, engine.dialect.server, close=close, bodyless=request.method == "HEAD")
        self.computing = False  # the next step is the engine loop's, so it waits while that stands still
        self.holding = False  # a slot of its rank is ours
        self.left = False  # we closed the connection, so its end is no abort
        self.done = False
        self.probing = False  # a generation that is marked as a probe
        self._play = play
        self._loop = loop
        self._advance_cb = self._advance
        self._timer: asyncio.Handle | None = None
        self._comment_timer: asyncio.Handle | None = None
        self._writes_at_tick = 0
        self._wait_s = 0.0
        self._ended = False
        self._waits: Waits = iter(())

    def __repr__(self) -> str:
        return f"Exchange({self.engine.name} {self.request.method} {self.request.path}, done={self.done})"

    # --- driving ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to play."""
        counters = self.engine.counters
        counters.requests += 1
        counters.open += 1
        counters.open_max = max(counters.open_max, counters.open)
        self._waits = self._play(self)
        self._advance()

    def is_generation(self) -> None:
        """It asks for tokens: count it."""
        counters = self.engine.counters
        counters.generations += 1
        if self.request.is_probe:
            self.probing = True
            counters.probes += 1
            counters.probes_open += 1
            counters.probes_open_max = max(counters.probes_open_max, counters.probes_open)

    def resume_soon(self) -> None:
        """Go on in the loop's next round."""
        self._loop.call_soon(self._advance_cb)

    def _advance(self) -> None:
        self._timer = None
        if self.done:
            return
        if self.computing and self.rank.frozen:
            self.rank.park(self)
            return
        try:
            self._wait_s = next(self._waits)
        except StopIteration:
            self._ended = True
        if not self.done:
            self._pump()

    def _pump(self) -> None:
        """Send what drips, piece by piece; then wait, or finish."""
        reply = self.reply
        if reply.drip:
            size = reply.style.piece_bytes or len(reply.drip)
            self.line.write(bytes(reply.drip[:size]))
            del reply.drip[:size]
            self._timer = self._loop.call_later(reply.style.piece_every_s, self._pump)
        elif self._ended:
            self._finish()
        elif self._wait_s <= 0:
            self._timer = self._loop.call_soon(self._advance_cb)
        elif self._wait_s != FOREVER:
            self._timer = self._loop.call_later(self._wait_s, self._advance_cb)

    # --- ending -----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._close_accounts()
        self.engine.counters.finished += 1
        self._release()
        self.line.answered(self)

    def leave(self, *, reset: bool) -> None:
        """Close the connection ourselves."""
        self.left = True
        self.line.leave(reset=reset)

    def abandon(self) -> None:
        """The connection is gone before the answer was whole. Tells whether the client did it: see ``left``."""
        if self.done:
            return
        self._close_accounts()
        counters = self.engine.counters
        if not self.left:
            counters.aborted += 1
            counters.probes_aborted += self.probing
            if self.work is not None:
                self.rank.tally.aborted += 1
        self._waits.close()  # type: ignore[attr-defined]  # it is a generator: its finally blocks must run now
        hold_s = self.engine.load.hold_after_abort_s
        if hold_s and self.holding and not self.left:
            self._loop.call_later(hold_s, self._release)
        else:
            self._release()

    def _close_accounts(self) -> None:
        self.done = True
        for timer in (self._timer, self._comment_timer):
            if timer is not None:
                timer.cancel()
        counters = self.engine.counters
        counters.open -= 1
        counters.probes_open -= self.probing

    def _release(self) -> None:
        if self.holding:
            self.holding = False
            self.rank.slots.release()

    # --- speaking ---------------------------------------------------------------------------------------------

    def sight(self, groups: frozenset[Group]) -> Sight:
        """What rules can ask about this exchange."""
        ask, counters = self.work.ask if self.work is not None else None, self.engine.counters
        return Sight(
            groups=groups,
            now=self._loop.time(),
            prompt=ask.prompt if ask else None,
            max_tokens=ask.max_tokens if ask else None,
            stream=ask.stream if ask else False,
            rank=self.rank.index if len(self.engine.ranks) > 1 else None,
            open_probes=counters.probes_open,
            aborts=counters.aborted,
        )

    def send(self, payloads: list[bytes]) -> None:
        """Payloads of the stream."""
        if self.served is not None:
            self.reply.payloads(self.served.wire.framing, payloads)

    def stream_head(self, status: int = 200, content_type: str | None = None) -> None:
        """Status and headers of a stream, if they are not sent yet; comments begin to count."""
        if self.reply.head_sent:
            return
        lines = self.served is not None and self.served.wire.framing is Framing.LINES
        default = "application/x-ndjson" if lines else "text/event-stream; charset=utf-8"
        self.reply.head(status, [("content-type", content_type or default)])
        every_s = self.engine.load.comment_every_s
        if every_s is not None and not lines:
            self._comment_timer = self._loop.call_later(every_s, self._comment, every_s)

    def _comment(self, every_s: float) -> None:
        if self.reply.writes == self._writes_at_tick:
            self.reply.comment(self.engine.load.comment)
        self._writes_at_tick = self.reply.writes
        self._comment_timer = self._loop.call_later(every_s, self._comment, every_s)

    def count_token(self, text: str) -> None:
        """One more token came out of the engine."""
        if self.work is not None:
            self.work.gen.sent += 1
            self.work.gen.parts.append(text)
        self.rank.tally.tokens += 1
        self.rank.tally.steps += 1
        self.engine.counters.tokens += 1
