"""Writes probes into the ledger: they cost what requests cost, and are ours and not the users'."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from pulsegate.control.ledger import Entry
from pulsegate.control.reports import ProbeReport
from pulsegate.core.booking import UsageKind
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.ids import PoolName
from pulsegate.core.money import Currency, Price, Tokens
from pulsegate.core.probe import Counters, ProbeKind, ProbeResult
from pulsegate.core.spending import EntryKind

_ALONE: Final = Decimal(1)
_PROMPT_TOKENS: Final = {ProbeKind.DEEP: 120}
"""About what our own prompts come to; engines are not asked for usage by every probe."""

_SHORT_PROMPT_TOKENS: Final = 20


class ProbeBooks:
    """A ``ProbeObserver``.

    Args:
        book: takes the lines.
        wall: seconds since the epoch.
    """

    def __init__(self, book: Callable[[Entry], object], wall: Callable[[], float]) -> None:
        """Nothing is written before ``change``."""
        self._book = book
        self._wall = wall
        self._prices: Mapping[PoolName, Price] = {}
        self._everything = False
        self._count = 0
        self._life = f"{int(wall() * 1_000_000):x}"  # tells our lives apart, so that ``op`` stays unique

    def change(self, prices: Mapping[PoolName, Price], *, everything: bool) -> None:
        """Write by this from now on.

        Args:
            prices: by pool.
            everything: write probes of endpoints without a price, too.
        """
        self._prices, self._everything = prices, everything

    def watching(self, fleet: Fleet) -> None:
        """ProbeObserver: other endpoints are probed."""

    def counted(self, spec: EndpointSpec, counters: Counters | None) -> None:
        """ProbeObserver: reading counters costs no tokens."""

    def probed(self, report: ProbeReport) -> None:
        """ProbeObserver: one probe is over."""
        price = self._prices.get(report.spec.pool)
        result = report.result
        if (price is None and not self._everything) or result.phases.send_s is None:
            return
        self._count += 1
        self._book(self._entry(report, price))

    def _entry(self, report: ProbeReport, price: Price | None) -> Entry:
        result, spec = report.result, report.spec
        op = f"probe-{self._life}-{self._count}"
        duration_ms = _duration_ms(result)
        completion, usage = _completion(result)
        prompt = _PROMPT_TOKENS.get(result.kind, _SHORT_PROMPT_TOKENS)
        return Entry(
            ts=round(self._wall(), 3),
            op=op,
            attempt=1,
            request_id=op,
            kind=EntryKind.PROBE,
            client=None,
            provider=None,
            model=spec.pool,
            endpoint=spec.id,
            status=_status(result),
            prompt_tokens=prompt,
            cached_tokens=0,
            completion_tokens=completion,
            cost=None if price is None else _cost(price, prompt, completion, duration_ms),
            currency=None if price is None else Currency.CNY.value,
            price_version=None if price is None else price.version,
            usage=usage,
            ttft_ms=None if result.phases.first_token_s is None else round(result.phases.first_token_s * 1000, 1),
            duration_ms=duration_ms,
        )


def _completion(result: ProbeResult) -> tuple[int | None, UsageKind]:
    """How many tokens came. The prompt's are never reported: the whole is an estimate."""
    if result.tokens is not None:
        return result.tokens, UsageKind.ESTIMATED
    return (result.chunks, UsageKind.ESTIMATED) if result.token_seen else (None, UsageKind.MISSING)


def _status(result: ProbeResult) -> int | None:
    if result.fault is not None:
        return result.fault.status
    return 200 if result.token_seen else None


def _duration_ms(result: ProbeResult) -> float:
    phases = result.phases
    known = [at for at in (phases.send_s, phases.first_byte_s, phases.first_token_s, phases.end_s) if at is not None]
    return round(max(known, default=0.0) * 1000, 1)


def _cost(price: Price, prompt: int, completion: int | None, duration_ms: float) -> Decimal:
    if price.rates:
        return price.of_tokens(Tokens(prompt=prompt, completion=completion or 0))
    return price.of_time(Decimal(str(duration_ms)), _ALONE).quantize(Decimal("1e-12"))
