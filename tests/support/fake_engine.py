"""Engines that follow a script, for tests on virtual time. They implement the whole ``Engine`` port."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.probe import Counters, Ending, Fault, FaultClass, Phases, ProbeAsk, ProbeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the engine does with one probe: a token ``after_s``, or ``fault`` after it; None waits for ever."""

    after_s: float | None = 0.05
    text: str = "4"
    fault: Fault | None = None
    raises: BaseException | None = None


FAST = Answer()
SLOW = Answer(after_s=0.5)
SILENT = Answer(after_s=None)
CUDA = Answer(after_s=0.01, fault=Fault(kind=FaultClass.CUDA, detail="CUDA error: device-side assert triggered"))
REFUSED = Answer(after_s=0.001, fault=Fault(kind=FaultClass.REFUSED, detail="connection refused"))
MOVING = [float(step) for step in range(10_000)]

Script = Callable[[float], Answer]
"""From the time (loop seconds) at which a probe begins to what happens to it."""


class FakeEngine:
    """Answers by script, and keeps what a test asks about."""

    def __init__(self, script: Script = lambda _at: FAST, *, progress: list[float] | None = None) -> None:
        self.script = script
        self.progress = progress  # what successive readings of the counters say; None: they cannot be read
        self.read_takes_s = 0.01
        self.asked: list[tuple[float, ProbeAsk]] = []
        self.began: list[float] = []
        self.reads: list[float] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.reading = 0
        self.most_reading = 0
        self.closed = False
        self.keep_asks = True

    async def probe(self, ask: ProbeAsk) -> ProbeResult:
        now = asyncio.get_running_loop().time()
        self.began.append(now)
        if self.keep_asks:
            self.asked.append((now, ask))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._follow(self.script(now), ask)
        finally:
            self.in_flight -= 1

    async def counters(self, deadline_s: float) -> Counters | None:
        self.reads.append(asyncio.get_running_loop().time())
        self.reading += 1
        self.most_reading = max(self.most_reading, self.reading)
        try:
            await asyncio.sleep(min(self.read_takes_s, deadline_s))
        finally:
            self.reading -= 1
        if self.progress is None or self.read_takes_s > deadline_s:
            return None
        value = self.progress[min(len(self.reads), len(self.progress)) - 1]
        return Counters(progress=value, running=0.0, waiting=0.0)

    async def close(self) -> None:
        self.closed = True

    async def _follow(self, answer: Answer, ask: ProbeAsk) -> ProbeResult:
        if answer.after_s is None or answer.after_s > ask.deadline_s:
            await asyncio.sleep(ask.deadline_s)
            return result_of(ask, ending=Ending.DEADLINE, end_s=ask.deadline_s)
        await asyncio.sleep(answer.after_s)
        if answer.raises is not None:
            raise answer.raises
        if answer.fault is not None:
            return result_of(ask, ending=Ending.FAILED, fault=answer.fault, end_s=answer.after_s)
        return result_of(ask, ending=Ending.COMPLETE, text=answer.text, ttft_s=answer.after_s, end_s=answer.after_s)


class FakeFactory:
    """An ``EngineFactory`` that keeps every engine it opened, by endpoint, in order."""

    def __init__(self, make: Callable[[EndpointSpec], FakeEngine] = lambda _spec: FakeEngine()) -> None:
        self._make = make
        self.opened: dict[str, list[FakeEngine]] = {}

    def __call__(self, spec: EndpointSpec) -> FakeEngine:
        engine = self._make(spec)
        self.opened.setdefault(spec.id, []).append(engine)
        return engine

    def last(self, endpoint: str) -> FakeEngine:
        return self.opened[endpoint][-1]


def result_of(
    ask: ProbeAsk,
    *,
    ending: Ending,
    end_s: float,
    text: str = "",
    ttft_s: float | None = None,
    fault: Fault | None = None,
) -> ProbeResult:
    token_seen = ttft_s is not None
    return ProbeResult(
        kind=ask.kind,
        prompt_id=ask.prompt_id,
        phases=Phases(connect_s=0.001, send_s=0.001, first_byte_s=ttft_s, first_token_s=ttft_s, end_s=end_s),
        ending=ending,
        token_seen=token_seen,
        text=text,
        chunks=ask.max_tokens if token_seen else 0,
        tokens=ask.max_tokens if token_seen else None,
        finish_reason="length" if token_seen else None,
        fault=fault,
        bytes_read=200 if token_seen else 0,
        reused=False,
    )
