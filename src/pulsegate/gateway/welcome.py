"""What a worker assumes of endpoints that no snapshot has spoken of yet: that they may serve."""

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import Incarnation
from pulsegate.core.snapshot import EndpointView, PoolView
from pulsegate.gateway.setup import EndpointSetup, PoolSetup


def untold_view(pool: PoolSetup, known: PoolView | None) -> PoolView:
    """The pool as ``known`` has it, with its new endpoints in full service and its former ones gone."""
    views = {} if known is None else {view.id: view for view in known.endpoints}
    endpoints = tuple(views.get(endpoint.id) or _in_service(endpoint) for endpoint in pool.endpoints)
    down = known is not None and known.down and all(endpoint.id in views for endpoint in pool.endpoints)
    return PoolView(name=pool.name, endpoints=endpoints, down=down)


def _in_service(endpoint: EndpointSetup) -> EndpointView:
    return EndpointView(
        id=endpoint.id,
        state=State.WARMING,
        reason=Reason.STARTING,
        weight=100,
        low_only=False,
        max_inflight=None,
        ejected=False,
        suspect=False,
        incarnation=Incarnation(0),
    )
