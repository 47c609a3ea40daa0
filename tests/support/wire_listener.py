"""Listeners for the wire's tests: one that keeps what it hears, and one way to run an exchange."""

import asyncio
from collections.abc import Callable, Mapping

from pulsegate.core.fleet import EndpointSpec, TlsSpec
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.engines.exchange import DEFAULT_LIMITS, Exchange, Flow, Limits, Request
from pulsegate.engines.target import parse_target
from pulsegate.engines.wire import Wire

GENERATE = Request(method="POST", path="/v1/completions", headers=(("X-LLM-Probe", "true"),), body=b'{"n": 1}')


class Ear:
    """Keeps what it hears; says LINGER once ``token`` was heard, else CONTINUE, or whatever ``decide`` says."""

    def __init__(self, token: bytes | None = b"TOKEN", decide: Callable[[bytes], Flow] | None = None) -> None:
        self.heads: list[tuple[int, Mapping[str, str]]] = []
        self.body = b""
        self.reads: list[tuple[bytes, float]] = []
        self.ended_at_s: float | None = None
        self._token = token
        self._decide = decide

    def on_head(self, status: int, headers: Mapping[str, str], at_s: float) -> None:
        assert at_s >= 0
        assert self.ended_at_s is None
        self.heads.append((status, headers))

    def on_body(self, data: bytes, at_s: float) -> Flow:
        assert self.heads
        assert data
        assert self.ended_at_s is None
        self.body += data
        self.reads.append((data, at_s))
        if self._decide is not None:
            return self._decide(data)
        return Flow.LINGER if self._token is not None and self._token in self.body else Flow.CONTINUE

    def on_end(self, at_s: float) -> None:
        assert self.ended_at_s is None
        self.ended_at_s = at_s


def spec_of(
    url: str,
    *,
    api_key: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    tls: TlsSpec | None = None,
) -> EndpointSpec:
    return EndpointSpec(id=EndpointId("e"), pool=PoolName("p"), url=url, api_key=api_key, headers=headers, tls=tls)


def wire_to(
    url: str,
    *,
    api_key: str | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    tls: TlsSpec | None = None,
) -> Wire:
    return Wire(parse_target(spec_of(url, api_key=api_key, headers=headers, tls=tls)))


async def ask(
    wire: Wire,
    ear: Ear | None = None,
    *,
    request: Request = GENERATE,
    deadline_s: float = 10.0,  # far off: a loaded machine must not decide a test that is not about time
    end_deadline_s: float | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Exchange:
    """One exchange. Checks what holds for every exchange, however it ended."""
    got = await wire.exchange(
        request, ear or Ear(), deadline_s=deadline_s, end_deadline_s=end_deadline_s, limits=limits
    )
    check(got)
    return got


async def until(met: Callable[[], bool]) -> None:
    """Come back when it is so; for what the other side of a socket does in its own time."""
    async with asyncio.timeout(10):
        while not met():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.002)


def check(got: Exchange) -> None:
    if got.deadline_hit and got.fault is not None:
        assert got.phases.connect_s is None
    else:
        assert [got.whole, got.deadline_hit, got.left, got.fault is not None].count(True) == 1
    if got.fault is not None:
        assert got.fault.detail.isprintable()
        assert 0 < len(got.fault.detail) <= 200
    phases = got.phases
    done = [phases.dns_s, phases.connect_s, phases.tls_s, phases.send_s, phases.first_byte_s, phases.end_s]
    reached = [at_s for at_s in done if at_s is not None]
    assert reached == sorted(reached)
