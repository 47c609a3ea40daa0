"""What is answered without any endpoint: the list of models and the gateway's own health."""

import hashlib
from collections.abc import Collection

import msgspec

from pulsegate.gateway.context import Context
from pulsegate.gateway.keys import Key
from pulsegate.gateway.roster import Route


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model as OpenAI's API describes it."""

    id: str
    object: str = "model"
    created: int
    owned_by: str


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /v1/models``."""

    object: str = "list"
    data: list[Model]


class Alive(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /health``."""

    status: str = "ok"
    uptime_s: float
    checked_at: float


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /health/ready``. ``models`` says of each public model name whether it can be served now."""

    status: str
    models: dict[str, bool]
    reasons: list[str]
    checked_at: float


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
    return Model(id=setup.name, created=setup.created, owned_by=setup.owned_by)


def alive_document(context: Context) -> bytes:
    """Liveness: nothing but that this process runs."""
    uptime_s = round(context.now() - context.started_at, 3)
    return msgspec.json.encode(Alive(uptime_s=uptime_s, checked_at=round(context.wall(), 3)))


def ready_document(context: Context) -> tuple[int, bytes]:
    """Readiness from the snapshot: ``ready``, ``degraded`` (something is down, something served) or ``not_ready``."""
    routes = context.roster.routes
    served = {name: any(tier.normal or tier.low for tier in route.plan.tiers) for name, route in routes.items()}
    down = sorted({tier.pool for route in routes.values() for tier in route.plan.tiers if tier.down})
    reasons = [f"pool {pool} is down" for pool in down]
    reasons += [f"model {name} cannot be served" for name, well in served.items() if not well]
    if context.draining:
        reasons.insert(0, "draining")
    status = "degraded" if reasons else "ready"
    if context.draining or not any(served.values()):
        status = "not_ready"
    body = msgspec.json.encode(
        Ready(status=status, models=served, reasons=reasons, checked_at=round(context.wall(), 3))
    )
    return 503 if status == "not_ready" else 200, body
