"""Which session a request belongs to."""

from pulsegate.core.routing import affinity_seed_of
from pulsegate.gateway.context import Context
from pulsegate.gateway.request import Routing
from pulsegate.gateway.request_head import RequestHead


def affinity_of(context: Context, head: RequestHead, routing: Routing) -> int | None:
    """The session's hash, None when nothing names a session."""
    if head.affinity:
        return affinity_seed_of(head.affinity.decode("latin-1"))
    if context.setup.affinity_user and routing.user:
        return affinity_seed_of(routing.user)
    return None
