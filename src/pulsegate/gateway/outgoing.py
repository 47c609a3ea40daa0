"""What an endpoint is sent for a client's request: the client's own bytes, unless something in them must be another."""

from pulsegate.gateway.backend import Backend
from pulsegate.gateway.intake import Incoming
from pulsegate.gateway.request import Routing, may_name_two_models, rewritten
from pulsegate.gateway.usage import ASKS_USAGE

Bodies = dict[tuple[str | None, bool], bytes]
"""Rewritten bodies of one request by what they ask for: the model's name, None for the client's, and usage or not."""


def upstream_request(backend: Backend, incoming: Incoming, routing: Routing, bodies: Bodies) -> tuple[bytes, bytes]:
    """Head and body for this endpoint; ``bodies`` keeps rewritten ones for the request's next attempt."""
    head, key, body = incoming.head, incoming.key, incoming.body
    model = None if backend.model == routing.model else backend.model
    ask_usage = asks_usage(backend, incoming, routing)
    limited = key is not None and key.models is not None
    if model is not None or ask_usage or (limited and may_name_two_models(body)):
        body = _rewritten(body, model, bodies, ask_usage=ask_usage)
    extra = b"" if head.content_type_given else b"Content-Type: application/json\r\n"
    if backend.pool.forward_authorization and head.authorization is not None:
        extra += b"Authorization: %b\r\n" % head.authorization
    return (
        b"%b%b%bX-Request-ID: %b\r\nContent-Length: %d\r\n\r\n"
        % (backend.prefix(head.target), head.forward, extra, incoming.request_id, len(body)),
        body,
    )


def asks_usage(backend: Backend, incoming: Incoming, routing: Routing) -> bool:
    """Whether usage is asked for that the client did not ask for, and must not see."""
    return (
        routing.stream is True
        and backend.pool.ask_usage
        and not routing.wants_usage
        and incoming.head.path in ASKS_USAGE
    )


def _rewritten(body: bytes, model: str | None, bodies: Bodies, *, ask_usage: bool) -> bytes:
    made = bodies.get((model, ask_usage))
    if made is None:
        made = bodies[model, ask_usage] = rewritten(body, model, ask_usage=ask_usage)
    return made
