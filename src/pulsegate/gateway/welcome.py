"""What a worker assumes of endpoints that no snapshot has spoken of yet."""

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import Incarnation
from pulsegate.core.snapshot import EndpointView, PoolView
from pulsegate.gateway.setup import EndpointSetup, PoolSetup


def untold_view(pool: PoolSetup, known: PoolView | None, *, started: bool) -> PoolView:
    """The pool as ``known`` has it, without its former endpoints.

    New ones serve while there has been no snapshot at all: somebody has to. Once snapshots come (``started``), a new
    endpoint waits for one that speaks of it: it may not have given a token yet. Requests for a new pool wait, too.
    """
    views = {} if known is None else {view.id: view for view in known.endpoints}
    endpoints = tuple(views.get(endpoint.id) or _new(endpoint, 0 if started else 100) for endpoint in pool.endpoints)
    if known is None:
        return PoolView(name=pool.name, endpoints=endpoints, down=False, starting=started)
    return PoolView(name=pool.name, endpoints=endpoints, down=known.down, starting=known.starting)


def _new(endpoint: EndpointSetup, weight: int) -> EndpointView:
    return EndpointView(
        id=endpoint.id,
        state=State.WARMING,
        reason=Reason.STARTING,
        weight=weight,
        low_only=False,
        max_inflight=None,
        ejected=False,
        suspect=False,
        incarnation=Incarnation(0),
    )
