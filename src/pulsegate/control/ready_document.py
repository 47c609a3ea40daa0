"""How readiness is told, on both ports: field by field, docs/api.md describes it for users."""

from decimal import Decimal

import msgspec

from pulsegate.control.clock import iso8601
from pulsegate.control.readiness import Readiness, ReadinessReport
from pulsegate.core.provider_status import ProviderStatus


class ModelDocument(msgspec.Struct, kw_only=True):
    """One public model name."""

    name: str
    status: str
    served_by: str | None


class ProviderDocument(msgspec.Struct, kw_only=True):
    """One provider. ``checked_at``: when it last answered, or failed to."""

    name: str
    configured: bool
    status: str
    reason: str
    checked_at: str | None


class CostDocument(msgspec.Struct, kw_only=True):
    """Money."""

    status: str
    detail: str
    total_cny: Decimal | None
    limit_cny: Decimal | None
    remaining_cny: Decimal | None


class ReadyDocument(msgspec.Struct, kw_only=True):
    """``GET /health/ready``, on both ports."""

    status: str
    detail: str
    models: list[ModelDocument]
    providers: list[ProviderDocument]
    cost: CostDocument
    reasons: tuple[str, ...]
    pools: dict[str, str]
    snapshot_version: int | None
    checked_at: str


_ENCODE = msgspec.json.Encoder(decimal_format="number").encode


def ready_document(
    report: ReadinessReport, version: int | None, wall: float, wall_offset_s: float
) -> tuple[int, bytes]:
    """Status and body of the answer.

    Args:
        report: what is to be said.
        version: of the routing table.
        wall: now, in seconds since the epoch.
        wall_offset_s: from monotonic seconds to these.
    """
    pools: dict[str, str] = {**dict.fromkeys(report.serving, "up"), **dict.fromkeys(report.down, "down")}
    cost = report.cost
    document = ReadyDocument(
        status=report.readiness.value,
        detail="; ".join(report.reasons),
        models=[ModelDocument(name=one.name, status=one.status, served_by=one.served_by) for one in report.models],
        providers=[_provider(status, wall_offset_s) for status in report.providers],
        cost=CostDocument(
            status=cost.status.value,
            detail=cost.detail,
            total_cny=cost.total_cny,
            limit_cny=cost.limit_cny,
            remaining_cny=cost.remaining_cny,
        ),
        reasons=report.reasons,
        pools=pools,
        snapshot_version=version,
        checked_at=iso8601(wall),
    )
    return (503 if report.readiness is Readiness.NOT_READY else 200), _ENCODE(document)


def _provider(status: ProviderStatus, wall_offset_s: float) -> ProviderDocument:
    at = status.checked_at
    return ProviderDocument(
        name=status.name,
        configured=status.configured,
        status=status.state.value,
        reason=status.reason,
        checked_at=None if at is None else iso8601(at + wall_offset_s),
    )
