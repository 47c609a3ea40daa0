"""The section ``models``: public model names, the endpoints behind them, and the fallbacks."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from pulsegate.config.address import EndpointUrl
from pulsegate.config.costs import PriceSection
from pulsegate.config.policies import EjectionSection, ProbeSection
from pulsegate.config.section import Headers, Listed, Pattern, Secret, Section, ServerTls, Text
from pulsegate.config.units import Seconds, Whole, one_of, rejected
from pulsegate.core.fleet import EndpointSpec, EngineName, TlsSpec
from pulsegate.core.ids import EndpointId, PoolName

_MAX_RANKS = 4096
_MAX_NAME = 128


def _endpoint_id(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._:@\[\]-]{1,128}", value):
        raise rejected("is not an id", "use up to 128 letters, digits and . _ : @ - [ ]")
    return value


def _model_name(value: str) -> str:
    if not value or len(value) > _MAX_NAME or re.search(r"[\x00-\x20\x7f]", value):
        raise rejected("is not a model name", f"use 1 to {_MAX_NAME} characters without spaces")
    return value


ModelName = Annotated[str, AfterValidator(_model_name)]


class EndpointSection(Section):
    """One inference server process, or one data-parallel server with several ranks."""

    url: EndpointUrl
    engine: Annotated[EngineName, one_of(EngineName)] = EngineName.AUTO
    model: Text | None = None
    id: Annotated[str, AfterValidator(_endpoint_id)] | None = None
    api_key: Secret | None = None
    headers: Headers = ()
    tls: ServerTls | None = None
    data_parallel: Annotated[Whole, Field(ge=1, le=_MAX_RANKS)] = 1
    weight: Annotated[Whole, Field(ge=1, le=100)] = 100
    max_inflight: Annotated[Whole, Field(ge=1)] | None = None

    def specs(self, pool: PoolName) -> tuple[EndpointSpec, ...]:
        """One specification per rank; a server without data parallelism has one."""
        base = self.id or self.url.default_id
        ranks = range(self.data_parallel) if self.data_parallel > 1 else (None,)
        return tuple(
            EndpointSpec(
                id=EndpointId(base if rank is None else f"{base}#dp{rank}"),
                pool=pool,
                url=self.url.text,
                engine=self.engine,
                model=self.model,
                api_key=self.api_key.get_secret_value() if self.api_key else None,
                headers=tuple((name, value.get_secret_value()) for name, value in self.headers),
                tls=TlsSpec(**self.tls.model_dump()) if self.tls else None,
                dp_rank=rank,
                weight=self.weight,
                max_inflight=self.max_inflight,
            )
            for rank in ranks
        )


def _short_endpoint(value: object) -> object:
    """An endpoint may be its URL alone."""
    return {"url": value} if isinstance(value, str) else value


class ModelSection(Section):
    """A public model name and what stands behind it: a pool of endpoints, or a provider."""

    name: ModelName
    endpoints: Annotated[
        tuple[Annotated[EndpointSection, BeforeValidator(_short_endpoint)], ...], Listed, Field(min_length=1)
    ] = ()
    provider: Text | None = None
    model: Text | None = None
    fallbacks: Annotated[tuple[ModelName, ...], Listed] = ()
    probe: ProbeSection = ProbeSection()
    ejection: EjectionSection = EjectionSection()
    expect: Pattern | None = None
    ttft_deadline_s: Seconds | None = Field(default=None, alias="ttft_deadline")
    forward_authorization: bool = False
    price: PriceSection | None = None
