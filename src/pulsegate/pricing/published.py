"""Prices of hosted models from ``genai-prices``, which ships with a table: nothing is fetched.

The table is looked at by the provider's URL first, because it has the prices of that very provider, then by its name.
A model that it does not know has no price here. Importing this takes 0.4 s and 30 MB: do so when it is needed.
"""

from datetime import datetime
from decimal import Decimal

from genai_prices import __version__
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelPrice, TieredPrices

from pulsegate.core.money import Currency, Price, Rates, token_price

_Listed = Decimal | TieredPrices | None


def published_price(
    model: str, *, base_url: str, provider: str, at: datetime, cny_per_usd: Decimal | None
) -> Price | None:
    """What a hosted model costs by the published table, None if that does not know it.

    Args:
        model: as the provider calls it.
        base_url: of the provider's API.
        provider: its name here; used when nobody knows the URL.
        at: now: prices change.
        cny_per_usd: the exchange rate; without one there is no price, because the table is in USD.
    """
    listed = _listed(model, base_url, None, at) or _listed(model, None, provider, at)
    if listed is None:
        return None
    rates = _rates(listed.input_mtok, listed.cache_read_mtok, listed.output_mtok)
    return None if rates is None else token_price(f"genai-prices {__version__}", rates, Currency.USD, cny_per_usd)


def _listed(model: str, base_url: str | None, provider: str | None, at: datetime) -> ModelPrice | None:
    try:
        return get_snapshot().find_provider_model(model, None, provider, base_url)[1].get_prices(at)
    except LookupError:
        return None


def _rates(input_: _Listed, cached: _Listed, output: _Listed) -> tuple[Rates, ...] | None:
    """Prices for text; None if the table prices this model in another way (by request, by second)."""
    if input_ is None:
        return None
    if cached is None:
        cached = input_
    starts = sorted({0, *_starts(input_), *_starts(cached), *_starts(output)})
    return tuple(
        Rates(input=_at(input_, start), cached=_at(cached, start), output=_at(output, start), from_prompt=start)
        for start in starts
    )


def _starts(price: _Listed) -> list[int]:
    return [tier.start for tier in price.tiers] if isinstance(price, TieredPrices) else []


def _at(price: _Listed, prompt_tokens: int) -> Decimal:
    """A price for prompts of that size; embeddings have none for output."""
    if not isinstance(price, TieredPrices):
        return price or Decimal()
    found = price.base
    for tier in price.tiers:
        if prompt_tokens >= tier.start:
            found = tier.price
    return found
