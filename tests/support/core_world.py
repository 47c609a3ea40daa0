"""A fleet of make-believe engines around a real board, on made-up time: nothing here waits.

What an engine does is a ``Manner``; what the board did is a list of lines.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pulsegate.core.board import Board
from pulsegate.core.events import (
    Alerted,
    CountersRead,
    CountersWanted,
    Effect,
    Event,
    FleetChanged,
    ProbeDone,
    ProbeLate,
    ProbeWanted,
    SnapshotChanged,
    Tick,
    Transitioned,
)
from pulsegate.core.fleet import Fleet, PoolSpec
from pulsegate.core.ids import EndpointId
from pulsegate.core.probe import Counters, Ending, Fault, FaultClass, Phases, ProbeAsk, ProbeKind, ProbeResult
from pulsegate.core.prompts import DEEP, MICRO
from pulsegate.core.snapshot import EndpointView
from pulsegate.core.status import DueProbe

READ_TAKES_S = 0.01
LEFT_S = 0.001
_PROMPTS = {prompt.id: prompt for prompt in (*MICRO, *DEEP)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How an engine behaves until told otherwise.

    ``ttft_s`` None hangs. ``text`` None says what the series goes on with. ``fault`` comes instead of a token.
    ``ready_at``: no token before. ``decodes`` False: the first token of several comes, then nothing. ``counters`` gives
    a reading at a time, or None.
    """

    ttft_s: float | None = 0.02
    text: str | None = None
    deep_text: str | None = None
    fault: Fault | None = None
    finish_reason: str | None = "length"
    ready_at: float = 0.0
    decodes: bool = True
    lag_s: float = 0.0
    ending: Ending = Ending.COMPLETE
    served_model: str | None = None
    counters: Callable[[float], Counters | None] = lambda _at: None


SOUND = Manner()
HANGS = Manner(ttft_s=None)


def frozen(value: float = 1000.0, running: float = 16, waiting: float = 4) -> Callable[[float], Counters | None]:
    return lambda _at: Counters(progress=value, running=running, waiting=waiting)


def moving(per_s: float = 1000.0, running: float = 16, waiting: float = 4) -> Callable[[float], Counters | None]:
    return lambda at: Counters(progress=per_s * at, running=running, waiting=waiting)


def failing(kind: FaultClass, detail: str = "it said so", after_s: float = 0.005, **more: float) -> Manner:
    return Manner(ttft_s=after_s, fault=Fault(kind=kind, detail=detail, **more))


def answer_to(ask: ProbeAsk, manner: Manner, now: float = 0.0) -> tuple[float, ProbeResult]:
    """When a probe ends, counted from its start, and with which facts."""
    deep = ask.kind is ProbeKind.DEEP
    result = ProbeResult(
        kind=ask.kind,
        prompt_id=ask.prompt_id,
        phases=Phases(connect_s=0.001, end_s=ask.deadline_s),
        ending=Ending.DEADLINE,
        token_seen=False,
        text="",
        chunks=0,
        tokens=None,
        finish_reason=None,
        fault=None,
        bytes_read=0,
        reused=False,
        lag_s=manner.lag_s,
        served_model=manner.served_model,
    )
    ttft_s = None if manner.ttft_s is None else max(manner.ttft_s, manner.ready_at - now)
    if ttft_s is None or ttft_s > ask.deadline_s:
        return ask.deadline_s, result
    if manner.fault is not None:
        phases = Phases(end_s=ttft_s)
        return ttft_s, result._replace(phases=phases, ending=Ending.FAILED, fault=manner.fault)
    text = (manner.deep_text if deep else None) or manner.text
    said = _PROMPTS[ask.prompt_id].expected if text is None else text
    end_s = ttft_s + LEFT_S
    result = result._replace(
        phases=Phases(first_byte_s=ttft_s, first_token_s=ttft_s, end_s=end_s),
        token_seen=True,
        text=said,
        bytes_read=200,
        chunks=1,
    )
    if deep and not manner.decodes:
        assert ask.end_deadline_s is not None
        return ask.end_deadline_s, result
    finish = manner.finish_reason
    tokens = None if manner.ending is Ending.CUT else ask.max_tokens
    return end_s, result._replace(ending=manner.ending, tokens=tokens, finish_reason=finish)


class World:
    """The board and its surroundings. ``trace`` has a line for each effect; ``probes`` every probe that was started."""

    def __init__(self, *pools: PoolSpec, seed: int = 1, at: float = 0.0) -> None:
        self.now = at
        self.board = Board(Random(seed))
        self.manners: dict[EndpointId, Manner] = {}
        self.trace: list[str] = []
        self.effects: list[Effect] = []
        self.probes: list[tuple[float, DueProbe]] = []
        self._in_flight: dict[EndpointId, DueProbe] = {}
        self._reading: dict[EndpointId, float] = {}
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self.configure(*pools)

    def configure(self, *pools: PoolSpec) -> None:
        for pool in pools:
            for spec in pool.endpoints:
                self.manners.setdefault(spec.id, SOUND)
        self.apply(FleetChanged(at=self.now, fleet=Fleet(pools=pools, routes=())))

    def set(self, manner: Manner, *names: str) -> None:
        for name in names:
            assert name in self.manners, name
            self.manners[EndpointId(name)] = manner

    def at(self, moment: float, act: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (moment, self._serial, act))

    def run(self, until: float) -> None:
        while True:
            wake_at = self.board.next_wake_at()
            act_at = self._heap[0][0] if self._heap else None
            moments = [moment for moment in (wake_at, act_at) if moment is not None]
            if not moments or min(moments) > until:
                break
            self.now = max(self.now, min(moments))
            if act_at is not None and act_at <= self.now:
                heapq.heappop(self._heap)[2]()
                continue
            for due in self.board.take_due(self.now):
                self._start(due)
            self.apply(Tick(at=self.now))
        self.now = max(self.now, until)

    def apply(self, event: Event) -> tuple[Effect, ...]:
        effects = self.board.apply(event)
        self.effects += effects
        for effect in effects:
            self.trace.append(f"{self.now:9.3f}  {self._told(effect)}")
            if isinstance(effect, CountersWanted):
                self._read(effect.endpoint, effect.every_s)
        return effects

    def view(self, name: str) -> EndpointView:
        views = [view for pool in self.board.snapshot.pools for view in pool.endpoints]
        return next(view for view in views if view.id == name)

    def states(self, name: str) -> list[tuple[float, str, str]]:
        """(when, state, reason) of every transition of one endpoint."""
        return [
            (round(effect.at, 3), effect.new.value, effect.reason.value)
            for effect in self.effects
            if isinstance(effect, Transitioned) and effect.endpoint == name
        ]

    def alerts(self) -> list[tuple[float, str, str | None]]:
        return [(round(e.at, 3), e.kind.value, e.endpoint) for e in self.effects if isinstance(e, Alerted)]

    def starts(self, name: str) -> list[float]:
        return [at for at, due in self.probes if due.endpoint == name]

    def _start(self, due: DueProbe) -> None:
        assert due.endpoint not in self._in_flight, "one probe in flight per endpoint"
        self._in_flight[due.endpoint] = due
        self.probes.append((self.now, due))
        takes_s, result = answer_to(due.ask, self.manners[due.endpoint], self.now)
        if takes_s > due.late_after_s and not (result.token_seen and self._token_s(result) <= due.late_after_s):
            self.at(self.now + due.late_after_s, lambda: self._late(due, result.lag_s))
        self.at(self.now + takes_s, lambda: self._done(due, result))
        if due.counters_every_s is not None:
            self._read(due.endpoint, due.counters_every_s)

    @staticmethod
    def _token_s(result: ProbeResult) -> float:
        assert result.phases.first_token_s is not None
        return result.phases.first_token_s

    def _late(self, due: DueProbe, lag_s: float) -> None:
        if self._in_flight.get(due.endpoint) is due:
            self.apply(ProbeLate(at=self.now, endpoint=due.endpoint, incarnation=due.incarnation, lag_s=lag_s))

    def _done(self, due: DueProbe, result: ProbeResult) -> None:
        if self._in_flight.get(due.endpoint) is due:
            del self._in_flight[due.endpoint]
            self._reading.pop(due.endpoint, None)
            done = ProbeDone(at=self.now, endpoint=due.endpoint, incarnation=due.incarnation, result=result)
            self.apply(done)

    def _read(self, endpoint: EndpointId, every_s: float) -> None:
        due = self._in_flight.get(endpoint)
        if due is None:
            return
        begun = endpoint in self._reading
        self._reading[endpoint] = every_s
        if not begun:
            self.at(self.now + READ_TAKES_S, lambda: self._told_counters(due))

    def _told_counters(self, due: DueProbe) -> None:
        if self._in_flight.get(due.endpoint) is not due:
            return
        read = self.manners[due.endpoint].counters(self.now)
        every_s = self._reading[due.endpoint]
        event = CountersRead(at=self.now, endpoint=due.endpoint, incarnation=due.incarnation, counters=read)
        self.apply(event)
        self.at(self.now + every_s, lambda: self._told_counters(due))

    def _told(self, effect: Effect) -> str:
        match effect:
            case Transitioned():
                was, now = f"{effect.old}({effect.old_reason})", f"{effect.new}({effect.reason})"
                life = "" if effect.incarnation == 1 else f" [life {effect.incarnation}]"
                return f"{effect.endpoint}  {was} -> {now}{life}" + (f": {effect.detail}" if effect.detail else "")
            case Alerted():
                return f"ALERT {effect.kind} {effect.endpoint or effect.pool or '-'}: {effect.detail}"
            case ProbeWanted():
                return f"{effect.endpoint}  wants a {effect.kind} probe ({effect.cause}) in {effect.delay_s:.3f} s"
            case CountersWanted():
                return f"{effect.endpoint}  wants counters every {effect.every_s:.2f} s"
            case SnapshotChanged():
                return self._told_snapshot()

    def _told_snapshot(self) -> str:
        snapshot = self.board.snapshot
        parts: list[str] = []
        for pool in snapshot.pools:
            parts.append(f"{pool.name}{'(down)' if pool.down else ''}:")
            parts += [_told_view(view) for view in pool.endpoints]
        return f"snapshot {snapshot.version}  {' '.join(parts)}"


def _told_view(view: EndpointView) -> str:
    marks = ("l" if view.low_only else "") + ("x" if view.ejected else "") + ("?" if view.suspect else "")
    cap = "" if view.max_inflight is None else f"<={view.max_inflight}"
    return f"{view.id}={view.weight}{marks}{cap}"
