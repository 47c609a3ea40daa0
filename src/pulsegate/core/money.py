"""What tokens cost: prices per million tokens in CNY, and the cost of one attempt. Decimal throughout, never rounded.

An unknown price is no price at all (None), never zero: whoever adds up counts it as unpriced.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

MILLION = Decimal(1_000_000)
_MS_PER_HOUR = Decimal(3_600_000)


class Currency(StrEnum):
    """What prices may be written in. Costs are always in CNY."""

    CNY = "CNY"
    USD = "USD"


class Tokens(NamedTuple):
    """What one attempt used. ``cached`` of the ``prompt`` tokens came from the provider's cache."""

    prompt: int
    cached: int = 0
    completion: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Prices per million tokens, for prompts of ``from_prompt`` tokens and more."""

    input: Decimal
    cached: Decimal
    output: Decimal
    from_prompt: int = 0

    def times(self, factor: Decimal) -> "Rates":
        """The same in another currency."""
        return Rates(
            input=self.input * factor,
            cached=self.cached * factor,
            output=self.output * factor,
            from_prompt=self.from_prompt,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one model costs, in CNY.

    Attributes:
        version: names the price for the ledger, amounts and exchange rate included, so that each line explains itself.
        rates: by the size of the prompt, the smallest first; a larger prompt pays its rate for all its tokens.
        gpu_hour: instead, what an hour of the endpoint's machine costs; shared by the requests that it holds.
    """

    version: str
    rates: tuple[Rates, ...] = ()
    gpu_hour: Decimal | None = None

    def of_tokens(self, tokens: Tokens) -> Decimal:
        """What these tokens cost."""
        rates = self.rates[0]
        for larger in self.rates[1:]:
            if tokens.prompt >= larger.from_prompt:
                rates = larger
        fresh = tokens.prompt - tokens.cached
        return (fresh * rates.input + tokens.cached * rates.cached + tokens.completion * rates.output) / MILLION

    def of_time(self, duration_ms: Decimal, shared_by: Decimal) -> Decimal:
        """What so long costs on a machine that ``shared_by`` requests used meanwhile (1 or more, on average)."""
        return (self.gpu_hour or Decimal()) * duration_ms / _MS_PER_HOUR / shared_by


def token_price(
    source: str, listed: tuple[Rates, ...], currency: Currency, cny_per_usd: Decimal | None
) -> Price | None:
    """A price as it is listed, made CNY; None if that needs an exchange rate and there is none.

    ``source`` says where it comes from: it begins the version.
    """
    factor = Decimal(1) if currency is Currency.CNY else cny_per_usd
    if factor is None:
        return None
    steps = "; ".join(_written(rates) for rates in listed)
    at = "" if currency is Currency.CNY else f" at {_plain(factor)}"
    return Price(version=f"{source}: {steps} {currency}/M{at}", rates=tuple(rates.times(factor) for rates in listed))


def time_price(source: str, hour: Decimal, currency: Currency, cny_per_usd: Decimal | None) -> Price | None:
    """A price per GPU hour as it is listed, made CNY; None if that needs an exchange rate and there is none."""
    factor = Decimal(1) if currency is Currency.CNY else cny_per_usd
    if factor is None:
        return None
    at = "" if currency is Currency.CNY else f" at {_plain(factor)}"
    return Price(version=f"{source}: {_plain(hour)} {currency}/h{at}", gpu_hour=hour * factor)


def _written(rates: Rates) -> str:
    start = f"{rates.from_prompt}+ " if rates.from_prompt else ""
    return f"{start}{_plain(rates.input)}/{_plain(rates.cached)}/{_plain(rates.output)}"


def _plain(amount: Decimal) -> str:
    return f"{amount.normalize():f}"
