"""The sections ``gateway``, ``admin`` and ``providers``."""

from typing import Annotated, cast

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pulsegate.config.address import Listen, ListenAddress, ProviderUrl, provider_url
from pulsegate.config.models import ModelName
from pulsegate.config.presets import OF_YOUR_OWN, PRESETS, Preset
from pulsegate.config.section import (
    ExistingFile,
    HeaderName,
    Headers,
    Listed,
    Secret,
    Section,
    ServerTls,
)
from pulsegate.config.units import Bytes, Seconds, Switch, Whole, rejected, seconds
from pulsegate.core.fleet import EndpointSpec, EngineName, TlsSpec
from pulsegate.core.ids import EndpointId, PoolName


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


def _preset(value: str) -> str:
    if value not in PRESETS:
        raise rejected("is not one of the choices", f"choose from {', '.join(PRESETS)}")
    return value


def _interval_or_off(value: object) -> float:
    return 0.0 if value == "off" else seconds(value)


class ProviderSection(Section):
    """A hosted API. What has the name of a preset, or names one, needs no ``base_url``."""

    name: ModelName
    preset: Annotated[str, AfterValidator(_preset)] | None = None
    base_url: ProviderUrl
    api_key: Secret | None = None
    api_keys: Annotated[tuple[Secret, ...], Listed, Field(min_length=1)] = ()
    models: Annotated[dict[ModelName, str], AfterValidator(_some_models)] = Field(default_factory=dict[str, str])
    headers: Headers = ()
    tls: ServerTls | None = None
    ask_usage: Switch = True
    ping_interval_s: Annotated[float, BeforeValidator(_interval_or_off)] = Field(default=60.0, alias="ping_interval")

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        given = cast("dict[str, object]", value)
        preset = PRESETS.get(str(given.get("preset", given.get("name"))))
        return given if preset is None or "base_url" in given else {**given, "base_url": preset.base_url}

    @property
    def known_as(self) -> Preset:
        """What is known of it."""
        named = PRESETS.get(self.preset or self.name)
        return named if named is not None and provider_url(named.base_url) == self.base_url else OF_YOUR_OWN

    @property
    def configured(self) -> bool:
        """Whether it can be asked: a preset needs a key, a URL of one's own may need none."""
        named = {name.lower() for name, _ in self.headers}
        return bool(self.api_key or self.api_keys or "authorization" in named) or self.known_as is OF_YOUR_OWN

    def keys(self) -> tuple[EndpointSpec, ...]:
        """One specification per key, with the key's own id; without keys there is one all the same."""
        secrets = [key.get_secret_value() for key in self.api_keys or ((self.api_key,) if self.api_key else ())]
        return tuple(
            EndpointSpec(
                id=EndpointId(f"{self.name}#{number}"),
                pool=PoolName(self.name),
                url=self.base_url.text,
                engine=EngineName.OPENAI,
                api_key=secret,
                headers=tuple((name, value.get_secret_value()) for name, value in self.headers),
                tls=TlsSpec(**self.tls.model_dump()) if self.tls else None,
            )
            for number, secret in enumerate(secrets or [None], start=1)
        )
