"""The sections ``gateway``, ``admin``, ``providers`` and ``costs``."""

from decimal import Decimal
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from pulsegate.config.address import Listen, ListenAddress, ProviderUrl
from pulsegate.config.environment import FromEnvironment
from pulsegate.config.models import ModelName
from pulsegate.config.section import (
    ExistingFile,
    HeaderName,
    Headers,
    Listed,
    Secret,
    Section,
    ServerTls,
    in_directory_of_file,
)
from pulsegate.config.units import Bytes, Seconds, Switch, Whole, one_of, rejected
from pulsegate.core.window import Window


class ListenTls(Section):
    """The certificate that the gateway shows to its clients."""

    cert_file: ExistingFile
    key_file: ExistingFile


class GatewaySection(Section):
    """Where users' requests come in, and what is asked of them."""

    listen: ListenAddress = Listen("127.0.0.1", 8080)
    workers: Annotated[Whole, Field(ge=1, le=256)] = 1
    drain_timeout_s: Seconds = Field(default=30.0, alias="drain_timeout")
    max_body_bytes: Bytes = Field(default=32 * 2**20, alias="max_body")
    header_timeout_s: Seconds = Field(default=10.0, alias="header_timeout")
    body_timeout_s: Seconds = Field(default=60.0, alias="body_timeout")
    ttft_deadline_s: Seconds = Field(default=60.0, alias="ttft_deadline")
    itl_deadline_s: Seconds = Field(default=30.0, alias="itl_deadline")
    expose_headers: Switch = True
    tls: ListenTls | None = None
    keys_file: ExistingFile | None = None
    affinity_header: HeaderName | None = None


class AdminSection(Section):
    """Where health, metrics and the admin API are served."""

    listen: ListenAddress = Listen("127.0.0.1", 8081)


def _some_models(value: dict[str, str]) -> dict[str, str]:
    if any(not name for name in value.values()):
        raise rejected("maps a model to an empty name")
    return value


class ProviderSection(Section):
    """A hosted API."""

    name: ModelName
    base_url: ProviderUrl
    api_key: Secret | None = None
    api_keys: Annotated[tuple[Secret, ...], Listed, Field(min_length=1)] = ()
    models: Annotated[dict[ModelName, str], AfterValidator(_some_models)] = Field(default_factory=dict[str, str])
    headers: Headers = ()
    tls: ServerTls | None = None


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


class CostsSection(Section):
    """What was spent is written to a ledger; over the limit paid calls are refused."""

    ledger: Annotated[str, Field(min_length=1), AfterValidator(_ledger)] | None = None
    limit_cny: Annotated[Decimal, BeforeValidator(_money)] | None = None
    window: Annotated[Window, one_of(Window)] = Window.DAY
    time_zone: Annotated[str, AfterValidator(_time_zone)] = "UTC"
