"""What ``GET /api/costs`` and ``pulsegate ledger summary --json`` say, field by field. Amounts are exact, in CNY."""

from collections.abc import Callable
from decimal import Decimal
from typing import Protocol

import msgspec

from pulsegate.control.clock import iso8601
from pulsegate.core.cost_gate import CostPolicy, Gate, Standing
from pulsegate.core.spending import By, Spending, Sums
from pulsegate.core.window import Period

_WORST = [gate.value for gate in Gate]
ENCODE = msgspec.json.Encoder(decimal_format="number").encode


class Costs(msgspec.Struct, kw_only=True):
    """What was spent in one window.

    Attributes:
        window: ``day``, ``month`` or ``total``; ``period`` names this one, ``since`` and ``until`` bound it.
        total_cny: paid attempts of users' requests. What self-hosted models and probes cost is not in it.
        calls: users' requests, to paid and to self-hosted models.
        remaining_cny: of the limit; null without one. What requests in flight may still cost is not taken off.
        unpriced: paid attempts that nobody knows the price of: they are missing in ``total_cny``.
    """

    window: str
    period: str
    since: str | None
    until: str | None
    total_cny: Decimal
    calls: int
    limit_cny: Decimal | None
    remaining_cny: Decimal | None
    unpriced: int
    by_provider: dict[str, Sums]
    by_model: dict[str, Sums]
    by_client: dict[str, Sums]
    by_day: dict[str, Sums]
    self_hosted: Sums
    probes: Sums


def costs(spending: Spending, window: str, period: Period, limit_cny: Decimal | None) -> Costs:
    """The document."""
    paid = spending.paid
    return Costs(
        window=window,
        period=period.name,
        since=None if period.start_s is None else iso8601(period.start_s),
        until=None if period.end_s is None else iso8601(period.end_s),
        total_cny=paid.cny,
        calls=paid.calls + spending.self_hosted.calls,
        limit_cny=limit_cny,
        remaining_cny=None if limit_cny is None else max(Decimal(), limit_cny - paid.cny),
        unpriced=paid.unpriced,
        by_provider=_grouped(spending, By.PROVIDER),
        by_model=_grouped(spending, By.MODEL),
        by_client=_grouped(spending, By.CLIENT),
        by_day=_grouped(spending, By.DAY),
        self_hosted=spending.self_hosted,
        probes=spending.probes,
    )


class LimitStanding(msgspec.Struct, kw_only=True):
    """One limit: ``scope`` is ``all``, ``provider`` or ``key``. ``reserved_cny``: what requests in flight may cost."""

    scope: str
    name: str
    gate: str
    limit_cny: Decimal
    spent_cny: Decimal
    reserved_cny: Decimal
    remaining_cny: Decimal


class LiveCosts(Costs, kw_only=True):
    """``GET /api/costs``: also how the limits stand, to the last attempt, and why lines cannot be kept, if so."""

    gate: str
    limits: tuple[LimitStanding, ...]
    ledger_problem: str | None


class Treasurer(Protocol):
    """What of the control process's treasury is shown."""

    @property
    def policy(self) -> CostPolicy:
        """The limits."""
        ...

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Every limit as it stands."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the ledger cannot be kept."""
        ...

    def spending(self) -> tuple[Period, Spending]:
        """What the ledger shows of this window."""
        ...


def costs_of(treasury: Treasurer | None) -> Callable[[], bytes | None]:
    """What makes the document of a running gateway, from memory: it touches no disk."""

    def make() -> bytes | None:
        if treasury is None:
            return None
        period, spending = treasury.spending()
        policy, limits = treasury.policy, tuple(map(_limit, treasury.standings))
        told = costs(spending, policy.window.value, period, policy.limit_cny)
        worst = max((limit.gate for limit in limits), key=_WORST.index, default=Gate.OPEN.value)
        problem = treasury.trouble
        return ENCODE(LiveCosts(**msgspec.structs.asdict(told), gate=worst, limits=limits, ledger_problem=problem))

    return make


def _limit(standing: Standing) -> LimitStanding:
    return LimitStanding(
        scope=standing.purse.scope.value,
        name=standing.purse.name,
        gate=standing.gate.value,
        limit_cny=standing.limit_cny,
        spent_cny=standing.spent_cny,
        reserved_cny=standing.reserved_cny,
        remaining_cny=standing.remaining_cny,
    )


def _grouped(spending: Spending, by: By) -> dict[str, Sums]:
    """Days in their order, everything else by what it cost, the most first."""
    groups = spending.by[by].items()
    in_order = sorted(groups) if by is By.DAY else sorted(groups, key=lambda item: (-item[1].cny, item[0]))
    return dict(in_order)
