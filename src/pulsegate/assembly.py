"""From a configuration to what the data plane's workers need: the one place that knows both."""

from math import inf

import msgspec
from msgspec import structs

from pulsegate.billing import ledger_setup, price_of
from pulsegate.config import Config
from pulsegate.config.models import ModelSection
from pulsegate.core.fleet import EndpointSpec, PoolSpec
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.engines.target import parse_target
from pulsegate.gateway.inspection import inspect
from pulsegate.gateway.setup import EndpointSetup, Limits, PoolSetup, ProviderSetup, RouteSetup, ServerTls, Setup

PROVIDER_CONNECT_S = 10.0  # name, TCP and TLS over half the world
RANK_HEADER = "X-data-parallel-rank"  # vLLM: pins a request to one rank of a data-parallel server


def encoded_setup(config: Config, *, access_log: str | None, priced_at: float) -> bytes:
    """The worker's setup as it travels, looked at first: it reads the files that it names.

    Args:
        config: what is to be served.
        access_log: as in ``Setup``.
        priced_at: of which moment the prices that others publish are to be, in seconds since the epoch.

    Raises:
        ValueError: an endpoint's address or a file cannot be used; the message says which, and why.
    """
    setup = setup_of(config, access_log=access_log, priced_at=priced_at)
    inspect(setup)
    return msgspec.msgpack.encode(setup)


def setup_of(config: Config, *, access_log: str | None, priced_at: float) -> Setup:
    """All that a worker needs to know of a configuration.

    Raises:
        ValueError: an endpoint's address cannot be used; the message names it and the fix.
    """
    gateway, fleet = config.gateway, config.fleet()
    models = {model.name: model for model in config.models}
    tls = gateway.tls
    return Setup(
        pools=(
            *(_pool(pool, models[pool.name], config) for pool in fleet.pools),
            *(_hosted(model, config, priced_at) for model in config.models if model.provider is not None),
        ),
        routes=tuple(RouteSetup(name=route.name, tiers=route.tiers) for route in fleet.routes),
        providers=tuple(ProviderSetup(name=one.name, configured=one.configured) for one in config.providers),
        limits=Limits(
            body_bytes=gateway.max_body_bytes,
            header_timeout_s=gateway.header_timeout_s,
            body_timeout_s=gateway.body_timeout_s,
        ),
        tls=None if tls is None else ServerTls(cert_file=str(tls.cert_file), key_file=str(tls.key_file)),
        keys_file=None if gateway.keys_file is None else str(gateway.keys_file),
        response_headers=gateway.expose_headers,
        affinity_header=gateway.affinity_header,
        access_log=access_log,
        ledger=ledger_setup(config.costs),
        drain_timeout_s=gateway.drain_timeout_s,
    )


def _pool(pool: PoolSpec, model: ModelSection, config: Config) -> PoolSetup:
    return PoolSetup(
        name=pool.name,
        endpoints=tuple(_endpoint(spec) for spec in pool.endpoints),
        ttft_deadline_s=model.ttft_deadline_s or config.gateway.ttft_deadline_s,
        itl_deadline_s=config.gateway.itl_deadline_s,
        forward_authorization=model.forward_authorization,
        price=price_of(model, None, config.costs, 0.0),
    )


def _hosted(model: ModelSection, config: Config, priced_at: float) -> PoolSetup:
    """A provider's model: one endpoint per key; none while the provider has no key."""
    provider = config.provider(model.provider or "")
    keys = provider.keys() if provider.configured else ()
    many = len(keys) > 1
    return PoolSetup(
        name=PoolName(model.name),
        endpoints=tuple(
            structs.replace(
                _endpoint(key),
                id=EndpointId(f"{provider.name}/{model.name}" + (f"#{number}" if many else "")),
                model=model.model or provider.models.get(model.name, model.name),
                api_path=provider.base_url.base_path or "/v1",
                key=key.id,
                idle_s=provider.known_as.idle_s,
                connect_timeout_s=PROVIDER_CONNECT_S,
            )
            for number, key in enumerate(keys, start=1)
        ),
        ttft_deadline_s=model.ttft_deadline_s or config.gateway.ttft_deadline_s,
        itl_deadline_s=config.gateway.itl_deadline_s,
        late_after_s=inf,  # nobody is to be probed
        ask_usage=provider.ask_usage,
        price=price_of(model, provider, config.costs, priced_at),
        provider=provider.name,
    )


def _endpoint(spec: EndpointSpec) -> EndpointSetup:
    target = parse_target(spec)
    rank = () if spec.dp_rank is None else ((RANK_HEADER, str(spec.dp_rank)),)
    return EndpointSetup(
        id=spec.id,
        host=target.host,
        port=target.port,
        unix_path=target.unix_path,
        tls=target.tls,
        base_path=target.base_path,
        host_header=target.host_header,
        headers=target.headers + rank,
        model=spec.model,
        max_inflight=spec.max_inflight,
    )
