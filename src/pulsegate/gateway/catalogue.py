"""What is answered without any endpoint: the list of models and the gateway's own health."""

import hashlib
from collections.abc import Collection
from dataclasses import replace

import msgspec

from pulsegate.control.clock import iso8601
from pulsegate.control.readiness import Knowledge, Readiness, readiness_of
from pulsegate.control.ready_document import ready_document
from pulsegate.core.fleet import RouteSpec
from pulsegate.core.provider_status import ProviderStatus, status_of
from pulsegate.gateway.context import Context
from pulsegate.gateway.keys import Key
from pulsegate.gateway.roster import Route
from pulsegate.gateway.setup import ProviderSetup


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model as OpenAI's API describes it."""

    id: str
    object: str = "model"
    created: int = 0  # nobody knows; a time of ours would differ between restarts and replicas
    owned_by: str


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/models``."""

    object: str = "list"
    data: list[Model]


class Alive(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /health``."""

    status: str = "ok"
    uptime_s: float
    checked_at: str


def models_document(routes: Collection[Route], key: Key | None) -> tuple[bytes, bytes]:
    """The models that this key may use, in the order of the configuration, and an ETag of that list."""
    models = [_model(route) for route in routes if key is None or key.may_use(route.setup.name)]
    body = msgspec.json.encode(ModelList(data=models))
    return body, b'"' + hashlib.sha256(body).hexdigest()[:32].encode() + b'"'


def model_document(route: Route) -> bytes:
    """One model."""
    return msgspec.json.encode(_model(route))


def _model(route: Route) -> Model:
    setup = route.setup
    return Model(id=setup.name, owned_by=setup.owned_by)


def alive_document(context: Context) -> bytes:
    """Liveness: nothing but that this process runs."""
    uptime_s = round(context.now() - context.started_at, 3)
    return msgspec.json.encode(Alive(uptime_s=uptime_s, checked_at=iso8601(context.wall())))


def readiness(context: Context) -> tuple[int, bytes]:
    """Readiness by what requests are served by now; not ready, too, while this worker drains."""
    roster, setup = context.roster, context.setup
    known = Knowledge(
        routes=[RouteSpec(name=route.name, tiers=route.tiers) for route in setup.routes],
        providers=tuple(_provider(context, provider) for provider in setup.providers),
        hosted=tuple((pool.name, pool.provider) for pool in setup.pools if pool.provider is not None),
        cost=context.cost,
        apart=context.apart,
    )
    report = readiness_of(roster.table, known)
    if context.draining:
        report = replace(report, readiness=Readiness.NOT_READY, reasons=("draining", *report.reasons))
    wall = context.wall()
    return ready_document(report, roster.version, wall, wall - context.now())


def _provider(context: Context, provider: ProviderSetup) -> ProviderStatus:
    watch = context.roster.watches.get(provider.name)
    return status_of(
        provider.name,
        configured=provider.configured,
        seen=() if watch is None else (watch.seen(),),
        pings=[ping for ping in context.pings.values() if ping.provider == provider.name],
    )
