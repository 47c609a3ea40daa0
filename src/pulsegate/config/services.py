"""The sections ``gateway``, ``admin`` and ``providers``."""

from typing import Annotated

from pydantic import AfterValidator, Field

from pulsegate.config.address import Listen, ListenAddress, ProviderUrl
from pulsegate.config.models import ModelName
from pulsegate.config.section import (
    ExistingFile,
    HeaderName,
    Headers,
    Listed,
    Secret,
    Section,
    ServerTls,
)
from pulsegate.config.units import Bytes, Seconds, Switch, Whole, rejected


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
