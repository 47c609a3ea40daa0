"""From a configuration to what ledger, prices and cost gate need: the one place that knows all of them."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo

from prometheus_client import CollectorRegistry
from structlog.typing import FilteringBoundLogger

from pulsegate.config import Config
from pulsegate.config.costs import BookedProbes, CostsSection, OnLedgerError
from pulsegate.config.models import ModelSection
from pulsegate.config.services import ProviderSection
from pulsegate.control.clock import SystemClock
from pulsegate.control.ledger import Ledger
from pulsegate.control.ports import Clock
from pulsegate.control.probe_books import ProbeBooks
from pulsegate.control.readiness import CostState, CostView
from pulsegate.control.treasury import Treasury
from pulsegate.core.cost_gate import CostPolicy, Gate, Scope, Standing
from pulsegate.core.ids import PoolName
from pulsegate.core.money import Price
from pulsegate.export.money import MoneyNews
from pulsegate.gateway.setup import LedgerSetup
from pulsegate.ledger.lines import Row
from pulsegate.ledger.summing import Days
from pulsegate.ledger.syncing import Fsync
from pulsegate.ledger.tailing import Tail
from pulsegate.ledger.writer import LedgerWriter, WritingRules

_GATES = list(Gate)


class MoneyKeeper(Protocol):
    """What of the control process's treasury matters for readiness."""

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Every limit as it stands."""
        ...

    @property
    def is_refusing(self) -> bool:
        """Whether paid calls are refused for the ledger's sake."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why."""
        ...


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


def open_treasury(
    costs: CostsSection, log: FilteringBoundLogger, registry: CollectorRegistry, clock: Clock
) -> Treasury[Row] | None:
    """Who keeps the money; None if there is no ledger."""
    setup = ledger_setup(costs)
    if setup is None:
        return None
    tail = Tail(Path(setup.path), ZoneInfo(setup.time_zone))
    news = MoneyNews(log, registry)
    return Treasury(tail, open_ledger(setup), cost_policy(costs), refuses=refuses(costs), observer=news, clock=clock)


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


def cost_view(treasury: MoneyKeeper | None) -> CostView:
    """How money stands, as far as readiness goes: whether a limit for all or for one provider is reached."""
    if treasury is None:
        return CostView()
    common = next((one for one in treasury.standings if one.purse.scope is Scope.ALL), None)
    shared = [one for one in treasury.standings if one.purse.scope is not Scope.KEY]
    worst = max(shared, key=lambda one: _GATES.index(one.gate), default=None)
    status, detail = CostState.OPEN, ""
    if worst is not None and worst.gate is not Gate.OPEN:
        status = CostState(worst.gate.value)
        whose = f" of {worst.purse.name}" if worst.purse.name else ""
        detail = f"{worst.spent_cny} of {worst.limit_cny} CNY{whose} are spent, {worst.reserved_cny} are reserved"
    if treasury.is_refusing:
        status, detail = CostState.CLOSED, treasury.trouble or ""
    return CostView(
        status=status,
        detail=detail,
        total_cny=None if common is None else common.spent_cny,
        limit_cny=None if common is None else common.limit_cny,
        remaining_cny=None if common is None else common.remaining_cny,
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


def price_probes(books: ProbeBooks, config: Config) -> None:
    """Write the probes down that are wanted, at the prices of ``config``."""
    wanted = config.costs.probes
    prices = {} if wanted is BookedProbes.NONE else self_hosted_prices(config)
    books.change(prices, everything=wanted is BookedProbes.ALL)


def as_it_runs(new: Config, running: Config) -> Config:
    """What of a new configuration can hold before the next start.

    One ledger is read, and its sums are kept by the days of one time zone. Workers must not write another one, which
    nobody would count.
    """
    kept = {"ledger": running.costs.ledger, "time_zone": running.costs.time_zone}
    return replace(new, costs=new.costs.model_copy(update=kept))
