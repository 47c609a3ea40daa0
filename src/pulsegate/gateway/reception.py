"""What becomes of a request once its head, and then its body, is there: an answer of our own, or a call."""

from dataclasses import dataclass
from typing import Final, Protocol

from pulsegate.gateway.call import Call
from pulsegate.gateway.catalogue import alive_document, model_document, models_document, readiness
from pulsegate.gateway.client import Client
from pulsegate.gateway.context import Context
from pulsegate.gateway.errors import ApiError, bad_request
from pulsegate.gateway.intake import Incoming
from pulsegate.gateway.keys import Key
from pulsegate.gateway.ping_wait import Asker, PingWait
from pulsegate.gateway.request import read_routing
from pulsegate.gateway.request_head import RequestHead
from pulsegate.gateway.roster import Route

_CALLS: Final = frozenset({b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings", b"/v1/responses"})
_OPEN: Final = frozenset({b"/health", b"/livez", b"/health/ready", b"/readyz"})  # probes of load balancers carry no key
_READY: Final = frozenset({b"/health/ready", b"/readyz"})
_MODELS: Final = b"/v1/models"
_READS: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_WRITES: Final = frozenset({b"POST", b"OPTIONS"})


class Clientele(Client, Asker, Protocol):
    """A connection, whatever was asked by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer of our own. ``extra`` is further header lines with their ends."""

    status: int
    body: bytes = b""
    extra: bytes = b""


def screen(head: RequestHead) -> ApiError | None:
    """Whether a request is refused for its head alone, before its body comes."""
    if head.flaw is not None:
        return bad_request("bad_request", f"Malformed request: {head.flaw}.")
    allowed = _methods(head.path)
    if allowed is None:
        return ApiError(status=404, code="unknown_url", message="Unknown request URL. See /v1/models for what is here.")
    if head.method not in allowed:
        names = b", ".join(sorted(allowed)).decode()
        return ApiError(
            status=405, code="method_not_allowed", message=f"This URL knows the methods {names}.", allow=names
        )
    return None


def is_open(head: RequestHead) -> bool:
    """Whether a request needs no key. Who wants providers to be pinged needs one."""
    return (head.path in _OPEN and not wants_ping(head)) or head.method == b"OPTIONS"


def wants_ping(head: RequestHead) -> bool:
    """Whether providers are to be pinged before readiness is told."""
    if head.path not in _READY or head.method == b"OPTIONS":
        return False
    return b"ping=1" in head.target.partition(b"?")[2].split(b"&")


def unknown_key(head: RequestHead) -> ApiError:
    """401."""
    if head.authorization is None:
        message = "You did not provide an API key: send it as 'Authorization: Bearer YOUR_KEY'."
        return ApiError(status=401, code="missing_api_key", message=message)
    return ApiError(status=401, code="invalid_api_key", message="Incorrect API key provided.")


def _methods(path: bytes) -> frozenset[bytes] | None:
    if path in _CALLS:
        return _WRITES
    if path in _OPEN or path == _MODELS or path.startswith(_MODELS + b"/"):
        return _READS
    return None


def receive(
    context: Context, client: Clientele, incoming: Incoming, began_at: float
) -> Call | PingWait | Reply | ApiError:
    """A whole request has come: what becomes of it."""
    head = incoming.head
    if wants_ping(head):
        return PingWait(context, client, incoming)
    if head.path not in _CALLS or head.method == b"OPTIONS":
        return _document(context, head, incoming.key)
    routing = read_routing(incoming.body)
    if isinstance(routing, ApiError):
        return routing
    route = context.roster.routes.get(routing.model)
    if route is None:
        return unknown_model(context, routing.model, incoming.key)
    refused = None if incoming.key is None else _denied(incoming.key, routing.model)
    if refused is not None:
        return refused
    return Call(context, client, incoming=incoming, routing=routing, route=route, began_at=began_at)


def _denied(key: Key, model: str) -> ApiError | None:
    """403 or 429 if this key may not ask for this model, or not now."""
    if not key.may_use(model):
        message = f"This API key may not use the model '{model}'."
        return ApiError(status=403, code="model_not_allowed", message=message, param="model")
    if key.full:
        message = f"This API key has {key.inflight} requests in flight, as many as it may."
        return ApiError(status=429, code="too_many_requests", message=message, retry_after_s=1)
    return None


def unknown_model(context: Context, model: str, key: Key | None) -> ApiError:
    """404, with the models that this client may use."""
    known = [name for name in context.roster.routes if key is None or key.may_use(name)]
    message = f"The model '{model[:100]}' does not exist. Known models: {', '.join(known) or 'none'}."
    return ApiError(status=404, code="model_not_found", message=message, param="model")


def _document(context: Context, head: RequestHead, key: Key | None) -> Reply | ApiError:
    if head.method == b"OPTIONS":
        return Reply(status=204, extra=b"Allow: %b\r\n" % b", ".join(sorted(_methods(head.path) or ())))
    match head.path:
        case b"/health" | b"/livez":
            return Reply(status=200, body=alive_document(context))
        case b"/health/ready" | b"/readyz":
            status, body = readiness(context)
            return Reply(status=status, body=body)
        case b"/v1/models":
            body, tag = models_document(context.roster.routes.values(), key)
            extra = b"ETag: %b\r\n" % tag
            if head.if_none_match is not None and (tag in head.if_none_match or head.if_none_match.strip() == b"*"):
                return Reply(status=304, extra=extra)
            return Reply(status=200, body=body, extra=extra)
        case path:
            return _one_model(context, path.removeprefix(_MODELS + b"/").decode("ascii", "replace"), key)


def _one_model(context: Context, name: str, key: Key | None) -> Reply | ApiError:
    route: Route | None = context.roster.routes.get(name)
    if route is None or (key is not None and not key.may_use(name)):
        return unknown_model(context, name, key)
    return Reply(status=200, body=model_document(route))
