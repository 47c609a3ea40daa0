"""From a configuration to what ledger, prices and cost gate need: the one place that knows all of them."""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

from pulsegate.config import Config
from pulsegate.config.costs import BookedProbes, CostsSection, OnLedgerError
from pulsegate.config.models import ModelSection
from pulsegate.config.services import ProviderSection
from pulsegate.control.clock import SystemClock
from pulsegate.control.ledger import Ledger
from pulsegate.control.probe_books import ProbeBooks
from pulsegate.core.cost_gate import CostPolicy
from pulsegate.core.ids import PoolName
from pulsegate.core.money import Price
from pulsegate.gateway.setup import LedgerSetup
from pulsegate.ledger.summing import Days
from pulsegate.ledger.syncing import Fsync
from pulsegate.ledger.writer import LedgerWriter, WritingRules


def ledger_setup(costs: CostsSection) -> LedgerSetup | None:
    """How workers keep the ledger; None if there is none."""
    if costs.ledger is None:
        return None
    return LedgerSetup(
        path=costs.ledger,
        fsync=costs.fsync.value,
        fsync_interval_s=costs.fsync_interval_s,
        rotate_bytes=costs.rotate_size_bytes,
        rotate_daily=costs.rotate_daily,
        time_zone=costs.time_zone,
        refuses=refuses(costs),
        limited=costs.has_limits,
    )


def open_ledger(setup: LedgerSetup) -> Ledger:
    """The ledger, to be written to. One that cannot be opened says so by its ``trouble``."""
    rules = WritingRules(
        path=Path(setup.path),
        fsync=Fsync(setup.fsync),
        fsync_interval_s=setup.fsync_interval_s,
        rotate_bytes=setup.rotate_bytes,
        day_of=Days(ZoneInfo(setup.time_zone)) if setup.rotate_daily else None,
    )
    return LedgerWriter(rules, SystemClock())


def refuses(costs: CostsSection) -> bool:
    """Whether paid calls are refused while the ledger cannot be kept."""
    return costs.on_ledger_error is OnLedgerError.REFUSE


def cost_policy(costs: CostsSection) -> CostPolicy:
    """The limits."""
    return CostPolicy(
        window=costs.window,
        zone=ZoneInfo(costs.time_zone),
        limit_cny=costs.limit_cny,
        provider_limits=costs.provider_limits,
        key_limits=costs.key_limits,
        warn_at=Decimal(costs.warn_at_percent) / 100,
    )


def price_of(model: ModelSection, provider: ProviderSection | None, costs: CostsSection, wall_s: float) -> Price | None:
    """What a model costs: as it is configured, else as it is published; None if nobody knows.

    Args:
        model: of the configuration.
        provider: who serves it; None for a self-hosted model, which costs nothing unless it is configured.
        costs: exchange rate, and whether published prices are wanted.
        wall_s: now: published prices change.
    """
    if model.price is not None:
        return model.price.price(costs.cny_per_usd)
    if provider is None or not costs.published_prices:
        return None
    try:
        from pulsegate.pricing.published import published_price  # noqa: PLC0415 - slow, an extra, and seldom needed
    except ImportError:
        return None
    name = model.model or provider.models.get(model.name, model.name)
    at = datetime.fromtimestamp(wall_s, tz=UTC)
    url = provider.base_url.text
    return published_price(name, base_url=url, provider=provider.name, at=at, cny_per_usd=costs.cny_per_usd)


def self_hosted_prices(config: Config) -> dict[PoolName, Price]:
    """The prices of self-hosted models that have one."""
    priced = ((model, price_of(model, None, config.costs, 0.0)) for model in config.models if model.endpoints)
    return {PoolName(model.name): price for model, price in priced if price is not None}


def probe_books(config: Config, book: Callable[..., object], wall: Callable[[], float]) -> ProbeBooks | None:
    """Who writes probes down; None: nobody is to."""
    wanted = config.costs.probes
    if wanted is BookedProbes.NONE:
        return None
    return ProbeBooks(book, self_hosted_prices(config), wall, everything=wanted is BookedProbes.ALL)
