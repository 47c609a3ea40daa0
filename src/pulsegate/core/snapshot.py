"""The versioned routing table that the data plane follows. Plain values, msgspec can carry it over a socket."""

from dataclasses import dataclass

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointView:
    """One endpoint as the data plane sees it.

    ``weight`` 0 to 100; 0 is not routed. ``low_only``: takes low-priority requests only. ``max_inflight``: how many
    requests it may hold, None for no cap. ``ejected``: requests that wait there must go elsewhere at once.
    ``suspect``: a probe timed out, or it is late and users wait too, and no token has come from there since, so a
    waiting request may be hedged.
    ``served_model``: the name under which it gave tokens to probes; None as long as it gave none.
    """

    id: EndpointId
    state: State
    reason: Reason
    weight: int
    low_only: bool
    max_inflight: int | None
    ejected: bool
    suspect: bool
    incarnation: Incarnation
    served_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """One pool: ``down`` means nothing in it gives a token and requests go to the next tier or get 503 at once.

    ``starting``: it is down only because an endpoint of it has not been asked yet or is just giving its first tokens:
    requests wait a moment for it.
    """

    name: PoolName
    endpoints: tuple[EndpointView, ...]
    down: bool
    starting: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All pools, with a version that grows by one with each change that others can see."""

    version: int
    pools: tuple[PoolView, ...]
