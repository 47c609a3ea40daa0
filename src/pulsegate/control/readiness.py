"""May traffic be sent to this gateway? Read from a routing table, without touching the network."""

from dataclasses import dataclass
from enum import StrEnum

from pulsegate.core.ids import PoolName
from pulsegate.core.snapshot import PoolView, Snapshot


class Readiness(StrEnum):
    """Three answers: a gateway that has lost something but still serves must not be pulled out."""

    READY = "ready"
    DEGRADED = "degraded"
    NOT_READY = "not_ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessReport:
    """The answer, why it is not ``ready``, and which pools serve."""

    readiness: Readiness
    reasons: tuple[str, ...]
    serving: tuple[PoolName, ...]
    down: tuple[PoolName, ...]


def readiness_of(snapshot: Snapshot) -> ReadinessReport:
    """READY: every pool serves. DEGRADED: some do. NOT_READY: none does, or there is none."""
    serving = tuple(pool.name for pool in snapshot.pools if _serves(pool))
    down = tuple(pool.name for pool in snapshot.pools if not _serves(pool))
    if not snapshot.pools:
        return ReadinessReport(readiness=Readiness.NOT_READY, reasons=("no pool is configured",), serving=(), down=())
    reasons = tuple(f"pool {name} serves nobody" for name in down)
    if not serving:
        return ReadinessReport(readiness=Readiness.NOT_READY, reasons=reasons, serving=serving, down=down)
    readiness = Readiness.DEGRADED if down else Readiness.READY
    return ReadinessReport(readiness=readiness, reasons=reasons, serving=serving, down=down)


def _serves(pool: PoolView) -> bool:
    return not pool.down and any(view.weight > 0 and not view.ejected for view in pool.endpoints)
