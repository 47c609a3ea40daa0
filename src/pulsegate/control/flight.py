"""One probe under way, and what the prober holds for each endpoint between probes."""

import asyncio

from pulsegate.control.counting import CounterReader
from pulsegate.control.ports import Engine
from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.probe import Ending, Fault, FaultClass, Phases, ProbeAsk, ProbeResult
from pulsegate.core.status import DueProbe

OVERRUN_S = 2.0  # an engine that has not come back so long after its deadline has a bug: give up on that probe


class Watch:
    """One endpoint under watch. Mutable, and owned by the prober alone.

    ``flight`` is the probe under way; there is never a second one. ``reader`` exists once counters were wanted.
    """

    __slots__ = ("engine", "flight", "reader", "spec")

    def __init__(self, spec: EndpointSpec, engine: Engine) -> None:
        self.spec = spec
        self.engine = engine
        self.flight: Flight | None = None
        self.reader: CounterReader | None = None

    def stop_reading(self) -> None:
        """No more readings of counters until they are wanted again."""
        if self.reader is not None:
            self.reader.end()

    def __repr__(self) -> str:
        return f"Watch({self.spec.id}, {self.flight or 'idle'})"


class Flight:
    """One probe under way, or just over. Times in monotonic seconds.

    ``late``: the board knows that no token has come in time. ``given_up``: it was cancelled because its engine did not
    come back. ``result`` is set, and ``ended_at`` with it, when it is over.
    """

    __slots__ = ("began", "due", "ended_at", "given_up", "late", "result", "task", "watch")

    def __init__(self, watch: Watch, due: DueProbe, began: float) -> None:
        self.watch = watch
        self.due = due
        self.began = began
        self.task: asyncio.Task[None] | None = None
        self.late = False
        self.given_up = False
        self.ended_at = 0.0
        self.result: ProbeResult | None = None

    @property
    def check_at(self) -> float:
        """When to look next whether it is still under way: first when it is late, then when it is overdue."""
        if not self.late:
            return self.began + self.due.late_after_s
        ask = self.due.ask
        return self.began + max(ask.deadline_s, ask.end_deadline_s or 0.0) + OVERRUN_S

    def give_up(self) -> None:
        """Cancel it although nobody else asked for that."""
        self.given_up = True
        if self.task is not None:
            self.task.cancel()

    def __repr__(self) -> str:
        return f"Flight({self.due.endpoint}, began={self.began:.3f}, over={self.result is not None})"


def our_fault(ask: ProbeAsk, detail: str) -> ProbeResult:
    """The result of a probe that failed because of us: it says nothing about the endpoint."""
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
