"""Gives every request an id: the client's own when it is presentable, else a new one.

Pure ASGI: no task per request, and the body passes through as it comes, so streams stay streams. It needs nothing but
the standard library and works in any ASGI application::

    app.add_middleware(pulsegate.RequestIdMiddleware)
"""

import re
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pulsegate.core.ids import PRESENTABLE

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

HEADER = b"x-request-id"
_PRESENTABLE = re.compile(PRESENTABLE.encode())
_CARRY_HEADERS = frozenset({"http.response.start", "websocket.accept"})


def new_request_id() -> str:
    """32 hexadecimal digits that nobody has used before."""
    return uuid.uuid4().hex


class RequestIdMiddleware:
    """ASGI middleware: ``X-Request-ID`` on the request that the app sees and on the response that the client gets.

    A client's id is kept if there is exactly one and it matches ``[A-Za-z0-9._:-]{1,128}``: anything else could forge
    log lines. The app finds it in ``scope["state"]["request_id"]`` (``request.state.request_id`` in Starlette).
    """

    def __init__(self, app: AsgiApp, *, make_id: Callable[[], str] = new_request_id) -> None:
        self._app = app
        self._make_id = make_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection, as the ASGI specification says."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers: RawHeaders = list(scope["headers"])
        request_id = _presentable(headers) or self._make_id().encode("ascii")
        seen = dict(scope)  # a copy: the server's own scope is not ours to change
        seen["headers"] = _with_id(headers, request_id)
        seen["state"] = {**scope.get("state", {}), "request_id": request_id.decode("ascii")}

        async def send_with_id(message: Message) -> None:
            if message["type"] in _CARRY_HEADERS:
                message = {**message, "headers": _with_id(list(message.get("headers", ())), request_id)}
            await send(message)

        await self._app(seen, receive, send_with_id)


def _presentable(headers: RawHeaders) -> bytes | None:
    given = [value for name, value in headers if name.lower() == HEADER]
    return given[0] if len(given) == 1 and _PRESENTABLE.fullmatch(given[0]) else None


def _with_id(headers: RawHeaders, request_id: bytes) -> RawHeaders:
    return [*((name, value) for name, value in headers if name.lower() != HEADER), (HEADER, request_id)]
