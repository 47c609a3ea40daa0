"""What is answered without any endpoint: the list of models and the gateway's own health."""

import hashlib
from collections.abc import Collection

import msgspec

from pulsegate.control.clock import iso8601
from pulsegate.control.readiness import Readiness, readiness_of
from pulsegate.core.ids import PoolName
from pulsegate.gateway.context import Context
from pulsegate.gateway.keys import Key
from pulsegate.gateway.roster import Route


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


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """``GET /health/ready``, in the shape of the admin port's."""

    status: str
    reasons: list[str]
    pools: dict[PoolName, str]
    snapshot_version: int | None
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


def ready_document(context: Context) -> tuple[int, bytes]:
    """Readiness by the routing table that requests are served by now; not ready, too, while this worker drains."""
    roster = context.roster
    report = readiness_of(roster.table)
    readiness, reasons = report.readiness, list(report.reasons)
    if context.draining:
        readiness = Readiness.NOT_READY
        reasons.insert(0, "draining")
    document = Ready(
        status=readiness,
        reasons=reasons,
        pools=dict.fromkeys(report.serving, "up") | dict.fromkeys(report.down, "down"),
        snapshot_version=roster.version,
        checked_at=iso8601(context.wall()),
    )
    return 503 if readiness is Readiness.NOT_READY else 200, msgspec.json.encode(document)
