"""The section ``costs``, and the prices of models."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from pulsegate.config.environment import FromEnvironment
from pulsegate.config.section import Section, in_directory_of_file
from pulsegate.config.units import Bytes, Percent, Seconds, Switch, one_of, rejected
from pulsegate.core.money import Currency, Price, Rates, time_price, token_price
from pulsegate.core.window import Window

SOURCE = "config"


class Fsync(StrEnum):
    """When the ledger must be on the disk."""

    INTERVAL = "interval"
    ALWAYS = "always"
    NEVER = "never"


class OnLedgerError(StrEnum):
    """What becomes of paid calls while the ledger cannot be written."""

    REFUSE = "refuse"
    CONTINUE = "continue"


class BookedProbes(StrEnum):
    """Which probes get a line in the ledger."""

    ALL = "all"
    PRICED = "priced"
    NONE = "none"


def _money(value: object) -> object:
    if isinstance(value, FromEnvironment):
        value = str(value)
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        raise rejected("is not an amount", "write a number: 20 or 19.90")
    try:
        amount = Decimal(str(value))
    except ArithmeticError as exc:
        raise rejected("is not an amount", "write a number: 20 or 19.90") from exc
    if not amount.is_finite() or amount < 0:
        raise rejected("must not be less than nothing")
    return amount


def _time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError) as exc:
        raise rejected("is not a time zone that is known here", "write for example Asia/Shanghai or UTC") from exc
    return value


def _ledger(value: str, info: ValidationInfo) -> str:
    path = in_directory_of_file(value, info)
    if path.is_dir():
        raise rejected("is a directory", "name a file")
    if not path.parent.is_dir():
        raise rejected("is in a directory that does not exist", f"make {path.parent}")
    return str(path)


Money = Annotated[Decimal, BeforeValidator(_money)]
Limits = dict[str, Money]


class PriceSection(Section):
    """What a model costs: per million tokens, or per hour of its machine."""

    input: Money | None = None
    cached: Money | None = None
    output: Money | None = None
    gpu_hour: Money | None = None
    currency: Annotated[Currency, one_of(Currency)] = Currency.CNY

    def price(self, cny_per_usd: Decimal | None) -> Price | None:
        """In CNY; None if that needs an exchange rate and there is none."""
        if self.gpu_hour is not None:
            return time_price(SOURCE, self.gpu_hour, self.currency, cny_per_usd)
        input_ = self.input or Decimal()
        rates = Rates(
            input=input_, cached=input_ if self.cached is None else self.cached, output=self.output or Decimal()
        )
        return token_price(SOURCE, (rates,), self.currency, cny_per_usd)


class CostsSection(Section):
    """What was spent is written to a ledger; over the limit paid calls are refused."""

    ledger: Annotated[str, Field(min_length=1), AfterValidator(_ledger)] | None = None
    fsync: Annotated[Fsync, one_of(Fsync)] = Fsync.INTERVAL
    fsync_interval_s: Seconds = Field(default=1.0, alias="fsync_interval")
    rotate_size_bytes: Bytes = Field(default=2**30, alias="rotate_size")
    rotate_daily: Switch = False
    probes: Annotated[BookedProbes, one_of(BookedProbes)] = BookedProbes.ALL
    on_ledger_error: Annotated[OnLedgerError, one_of(OnLedgerError)] = OnLedgerError.REFUSE
    limit_cny: Money | None = None
    provider_limits: Limits = Field(default_factory=dict[str, Decimal])
    key_limits: Limits = Field(default_factory=dict[str, Decimal])
    window: Annotated[Window, one_of(Window)] = Window.DAY
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
    warn_at_percent: Annotated[Percent, Field(ge=1)] = Field(default=80, alias="warn_at")
    cny_per_usd: Money | None = None
    published_prices: Switch = True

    @property
    def has_limits(self) -> bool:
        """Whether anything may be refused for its cost."""
        return self.limit_cny is not None or bool(self.provider_limits) or bool(self.key_limits)
