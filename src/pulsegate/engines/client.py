"""One endpoint, spoken to in its dialect: implements the port ``Engine`` over a :class:`Wire`.

Decides what is asked and what is learned from a refusal; turns one exchange into facts. Everything that has to be
learned first (which engine, which model, which fields it knows) is learned within the first probe's deadline and
remembered until the server is seen gone. The phases of a result are those of the request that it is about, so learning
costs deadline, not TTFT.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, cast

from pulsegate.core.fleet import EndpointSpec, EngineName
from pulsegate.core.probe import Counters, Ending, Fault, FaultClass, Phases, ProbeAsk, ProbeResult
from pulsegate.engines.answer import Answer
from pulsegate.engines.dialect import CounterReader, Dialect, Manner, Refusal
from pulsegate.engines.dialects.registry import DIALECTS
from pulsegate.engines.discovery import Discovery, discover
from pulsegate.engines.exchange import Exchange
from pulsegate.engines.models import Setback, served_model
from pulsegate.engines.page import Page, fetch_page
from pulsegate.engines.wire import Wire

MAX_ASKS: Final = 4
"""How often one probe may ask: a server that refuses more fields than that is asked again by the next probe."""

_MAX_METRICS_BYTES: Final = 16 * 1024 * 1024
_CLOSER_LOOK_SHARE: Final = 0.5  # of what is left of the deadline: the probe itself needs the rest
_SLEEP_PAGE_SHARE: Final = 0.25
_SLEEP_LOOKS_LIKE: Final = frozenset({FaultClass.SERVER, FaultClass.CUDA, FaultClass.ENGINE_DEAD})


@dataclass(slots=True, kw_only=True)
class _Acquaintance:
    """What is known about the server that runs there now."""

    dialect: Dialect
    discovery: Discovery
    manner: Manner
    counter_reader: CounterReader | None
    sleep_page: str | None
    in_doubt: bool = False  # the last probe gave no token, so it may have been put to sleep


class EngineClient:
    """Implements ``control.ports.Engine``. One probe at a time; counters may be read while it is in flight."""

    def __init__(self, spec: EndpointSpec, wire: Wire) -> None:
        self._spec = spec
        self._wire = wire
        self._known: _Acquaintance | None = None
        keys = (spec.api_key,) if spec.api_key else ()
        self._secrets = (*keys, *(value for _, value in spec.headers))

    def __repr__(self) -> str:
        return f"<EngineClient {self._spec.id} {self._known.discovery if self._known else 'unknown'}>"

    @property
    def discovery(self) -> Discovery | None:
        """Which engine and model the last probe found; None before the first, or after the server was seen gone."""
        return None if self._known is None else self._known.discovery

    async def probe(self, ask: ProbeAsk) -> ProbeResult:
        """Take a token. Returns by ``ask.deadline_s`` (or ``end_deadline_s``) plus a few milliseconds."""
        left = _countdown(ask.deadline_s)
        known = await self._acquaint(left)
        if isinstance(known, Setback):
            return self._noted(_setback_result(ask, known))
        if known.in_doubt and (asleep := await self._asleep(known, left)):
            return _setback_result(ask, asleep)
        exchange, answer = await self._ask(known, ask, left)
        for _ in range(MAX_ASKS - 1):
            fault = answer.fault()
            if fault is None or left() <= 0 or not await self._learned(known, fault, answer.said, left):
                break
            exchange, answer = await self._ask(known, ask, left)
        result = _result(ask, known, exchange, answer)
        failed = result.fault is not None and result.fault.kind in _SLEEP_LOOKS_LIKE
        known.in_doubt = failed or result.ending is Ending.DEADLINE
        if failed and (asleep := await self._asleep(known, left)):
            result = result._replace(fault=asleep.fault)
        return self._noted(result)

    async def counters(self, deadline_s: float) -> Counters | None:
        """Read the progress counters; None when there are none or they could not be read in time."""
        known = self._known
        if known is None or known.counter_reader is None:
            return None
        left = _countdown(deadline_s)
        path = known.counter_reader.path(known.discovery.model)
        page = await self._page(path, left, max_bytes=_MAX_METRICS_BYTES)
        if page.fault is not None and page.fault.kind is FaultClass.REDIRECT:  # "/metrics" mounted as "/metrics/"
            page = await self._page(f"{path}/", left, max_bytes=_MAX_METRICS_BYTES)
        return known.counter_reader.read(page.body, page.headers, self._spec.dp_rank) if page.ok else None

    async def close(self) -> None:
        """Close what is open."""
        await self._wire.close()

    async def _ask(self, known: _Acquaintance, ask: ProbeAsk, left: Callable[[], float]) -> tuple[Exchange, Answer]:
        request = known.dialect.request(ask, known.discovery.model, known.manner, self._spec.dp_rank)
        answer = Answer(known.dialect, self._secrets)
        remaining = left()
        spent = ask.deadline_s - remaining
        end_deadline_s = None if ask.end_deadline_s is None else max(ask.end_deadline_s - spent, 0.001)
        exchange = await self._wire.exchange(
            request, answer, deadline_s=max(remaining, 0.001), end_deadline_s=end_deadline_s
        )
        return exchange, answer

    async def _learned(self, known: _Acquaintance, fault: Fault, said: str, left: Callable[[], float]) -> bool:
        """Whether this refusal taught another way to ask."""
        manner = known.dialect.adapt(known.manner, Refusal(fault=fault, said=said))
        if manner is not None:
            known.manner = manner
            return True
        if fault.kind is not FaultClass.NOT_FOUND or self._spec.model is not None or not known.dialect.needs_model:
            return False
        model = await self._served_model(known.dialect.name, left)
        if isinstance(model, Setback) or model == known.discovery.model:
            return False
        known.discovery = replace(known.discovery, model=model)
        return True

    async def _acquaint(self, left: Callable[[], float]) -> _Acquaintance | Setback:
        if self._known is not None:
            return self._known
        found = await self._discovery(left)
        if isinstance(found, Setback):
            return found
        dialect = DIALECTS[found.engine]
        if found.model is None and dialect.needs_model:
            model = await self._served_model(found.engine, left)
            if isinstance(model, Setback):
                return model
            found = replace(found, model=model)
        reader = dialect.counter_reader
        self._known = _Acquaintance(
            dialect=dialect,
            discovery=found,
            manner=Manner(route=dialect.routes[0]),
            counter_reader=None if reader is None else reader(),
            sleep_page=dialect.sleep_page,
        )
        return self._known

    async def _discovery(self, left: Callable[[], float]) -> Discovery | Setback:
        spec = self._spec
        if spec.engine is not EngineName.AUTO:
            return Discovery(engine=spec.engine, model=spec.model, evidence="configured")

        async def fetch(path: str, *, method: str = "GET") -> Page:
            share = 1.0 if path == "/v1/models" else _CLOSER_LOOK_SHARE
            return await self._page(path, left, method=method, share=share)

        found = await discover(fetch, spec.pool)
        if isinstance(found, Discovery) and spec.model is not None:
            return replace(found, model=spec.model)
        return found

    async def _served_model(self, engine: EngineName, left: Callable[[], float]) -> str | Setback:
        async def fetch(path: str, *, method: str = "GET") -> Page:
            return await self._page(path, left, method=method)

        return await served_model(engine, fetch, self._spec.pool)

    async def _asleep(self, known: _Acquaintance, left: Callable[[], float]) -> Setback | None:
        """Why it gives no token, if it was put to sleep on purpose. Using a sleeping engine can break it."""
        if known.sleep_page is None:
            return None
        page = await self._page(known.sleep_page, left, share=_SLEEP_PAGE_SHARE)
        if page.fault is not None and page.fault.kind in (FaultClass.NOT_FOUND, FaultClass.BAD_REQUEST):
            known.sleep_page = None
        said = page.json() if page.ok else None
        if not isinstance(said, dict) or cast("dict[str, object]", said).get("is_sleeping") is not True:
            return None
        fault = Fault(kind=FaultClass.SLEEPING, detail=f"{known.sleep_page} says that it was put to sleep", status=200)
        return Setback(page=page, fault=fault)

    async def _page(
        self, path: str, left: Callable[[], float], *, method: str = "GET", share: float = 1.0, max_bytes: int = 1 << 20
    ) -> Page:
        return await fetch_page(
            self._wire, path, deadline_s=left() * share, method=method, secrets=self._secrets, max_bytes=max_bytes
        )

    def _noted(self, result: ProbeResult) -> ProbeResult:
        """What comes back after nothing listened may be another server, or the same one serving another model."""
        refused = result.fault is not None and result.fault.kind is FaultClass.REFUSED
        guessed = self._known is not None and not self._known.discovery.sure and not result.token_seen
        if refused or guessed:
            self._known = None
        return result


def _countdown(deadline_s: float) -> Callable[[], float]:
    """Seconds left until the deadline, on the loop's clock."""
    loop = asyncio.get_running_loop()
    until = loop.time() + deadline_s
    return lambda: until - loop.time()


def _setback_result(ask: ProbeAsk, setback: Setback) -> ProbeResult:
    exchange = setback.page.exchange
    return ProbeResult(
        kind=ask.kind,
        prompt_id=ask.prompt_id,
        phases=exchange.phases,
        ending=Ending.DEADLINE if setback.fault is None else Ending.FAILED,
        token_seen=False,
        text="",
        chunks=0,
        tokens=None,
        finish_reason=None,
        fault=setback.fault,
        bytes_read=exchange.bytes_read,
        reused=exchange.reused,
    )


def _result(ask: ProbeAsk, known: _Acquaintance, exchange: Exchange, answer: Answer) -> ProbeResult:
    facts = answer.facts
    fault = answer.fault() or exchange.fault
    return ProbeResult(
        kind=ask.kind,
        prompt_id=ask.prompt_id,
        phases=_phases(exchange, answer),
        ending=_ending(known.dialect, exchange, answer, fault),
        token_seen=facts.token_seen,
        text=facts.text,
        chunks=facts.chunks,
        tokens=facts.tokens,
        finish_reason=facts.finish_reason,
        fault=fault,
        bytes_read=exchange.bytes_read,
        reused=exchange.reused,
        served_model=known.discovery.model,
    )


def _phases(exchange: Exchange, answer: Answer) -> Phases:
    return exchange.phases._replace(first_token_s=answer.first_token_s)


def _ending(dialect: Dialect, exchange: Exchange, answer: Answer, fault: Fault | None) -> Ending:
    facts = answer.facts
    if fault is not None:
        broken_off = facts.token_seen and fault is exchange.fault
        return Ending.CUT if broken_off else Ending.FAILED
    if exchange.whole:
        complete = facts.finished or (dialect.ends_silently and facts.token_seen)
        return Ending.COMPLETE if complete else Ending.CUT
    if facts.token_seen:
        return Ending.LEFT
    return Ending.DEADLINE if exchange.deadline_hit else Ending.LEFT
