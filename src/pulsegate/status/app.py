"""The admin API as an ASGI application: health, readiness, metrics, endpoints, events.

It runs in the prober's own event loop, so nothing here may hold that loop for long: lists are made a piece at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pulsegate.control.clock import iso8601
from pulsegate.control.desk import Desk
from pulsegate.control.ready_document import ready_document
from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.health import State
from pulsegate.core.status import EndpointStatus
from pulsegate.status import addressing, shapes
from pulsegate.status.request_id import RequestIdMiddleware
from pulsegate.status.stream import EventHub

Scrape = Callable[[], Awaitable[bytes]]
"""Makes the metrics page."""

Ping = Callable[[], Awaitable[None]]
"""Comes back when providers have been pinged just now."""

ENDPOINTS_PATH = "/api/endpoints"
ROWS_PER_TURN = 100  # about 3 ms of work between two turns of the loop
SERVING_STATES = frozenset({State.HEALTHY, State.DEGRADED})
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def admin_app(
    desk: Desk,
    hub: EventHub,
    scrape: Scrape,
    costs: Callable[[], bytes | None] | None = None,
    *,
    ping: Ping | None = None,
) -> Starlette:
    """The application; it holds no state of its own.

    Args:
        desk: what may be asked and told.
        hub: what happens.
        scrape: makes the metrics page.
        costs: makes the costs document, if anything is booked.
        ping: has providers pinged, but not too often.
    """
    handlers = _Handlers(desk, hub, scrape, costs, ping)
    return Starlette(
        routes=[
            Route("/health", handlers.health),
            Route("/livez", handlers.health),
            Route("/health/ready", handlers.ready),
            Route("/readyz", handlers.ready),
            Route("/metrics", handlers.metrics),
            Route(ENDPOINTS_PATH, handlers.endpoints),
            Route(ENDPOINTS_PATH + "/{target:path}", handlers.endpoint, methods=["GET", "POST"]),
            Route("/api/events", handlers.events),
            Route("/api/costs", handlers.costs),
            Route("/api/coordination", handlers.coordination),
        ],
        middleware=[Middleware(RequestIdMiddleware)],
        exception_handlers={HTTPException: _http_error},
    )


class _Handlers:
    def __init__(
        self,
        desk: Desk,
        hub: EventHub,
        scrape: Scrape,
        costs: Callable[[], bytes | None] | None,
        ping: Ping | None,
    ) -> None:
        self._costs = costs
        self._ping = ping
        self._desk = desk
        self._hub = hub
        self._scrape = scrape

    async def health(self, _request: Request) -> Response:
        uptime_s = round(self._desk.uptime_s(), 3)
        return _json(shapes.Health(status="ok", uptime_s=uptime_s, checked_at=self._now()))

    async def ready(self, request: Request) -> Response:
        if self._ping is not None and request.query_params.get("ping") == "1":
            await self._ping()
        desk = self._desk
        status, body = ready_document(desk.readiness(), desk.snapshot.version, desk.wall_now(), desk.wall_of(0.0))
        return _json_bytes(body, status)

    async def metrics(self, _request: Request) -> Response:
        return Response(await self._scrape(), headers={"content-type": METRICS_TYPE})

    async def endpoints(self, _request: Request) -> Response:
        encode = msgspec.json.Encoder().encode
        rows: list[bytes] = []
        for number, endpoint in enumerate(self._desk.ids(), start=1):
            spec, status = self._desk.spec(endpoint), self._desk.status(endpoint)
            if spec is not None and status is not None:  # it may have been removed while we took a breath
                rows.append(encode(shapes.endpoint(spec, status, self._desk.wall_of, self._desk.owner(endpoint))))
            if number % ROWS_PER_TURN == 0:
                await asyncio.sleep(0)
        return _json_bytes(b'{"endpoints":[' + b",".join(rows) + b"]}")

    async def endpoint(self, request: Request) -> Response:
        raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        raw = raw_path.partition(b"?")[0].removeprefix(ENDPOINTS_PATH.encode() + b"/")
        target = addressing.resolve(raw, lambda text: self._desk.spec(text) is not None)
        spec = None if target is None else self._desk.spec(target.id)
        status = None if spec is None else self._desk.status(spec.id)
        if target is None or spec is None or status is None:
            return _error(404, "unknown_endpoint", "no endpoint has this id; GET /api/endpoints lists them")
        if request.method == "POST":
            return self._ordered(request, spec, target.action)
        return self._shown(spec, status, target.action)

    async def events(self, request: Request) -> Response:
        last_seen = request.headers.get("last-event-id", "")
        frames = self._hub.stream(int(last_seen) if last_seen.isdecimal() else None)
        return StreamingResponse(
            frames, media_type="text/event-stream", headers={"cache-control": "no-store", "x-accel-buffering": "no"}
        )

    async def coordination(self, _request: Request) -> Response:
        return _json(shapes.coordination(self._desk.company, len(self._desk.ids())))

    async def costs(self, _request: Request) -> Response:
        document = None if self._costs is None else self._costs()
        if document is None:
            return _error(404, "no_ledger", "nothing is booked: set costs.ledger in the configuration")
        return _json_bytes(document)

    def _shown(self, spec: EndpointSpec, status: EndpointStatus, action: str) -> Response:
        to_wall = self._desk.wall_of
        if action == "verdict":
            code = 200 if status.state in SERVING_STATES else 503
            return _json(shapes.verdict(status, to_wall), code)
        if action:
            return _error(405, "method_not_allowed", f"{action} is asked for with POST", {"allow": "POST"})
        return _json(shapes.endpoint_detail(spec, status, to_wall, self._desk.owner(spec.id)))

    def _ordered(self, request: Request, spec: EndpointSpec, action: str) -> Response:
        if action not in ("drain", "undrain"):
            return _error(405, "method_not_allowed", "this is read with GET", {"allow": "GET, HEAD"})
        if not _same_origin(request):
            return _error(403, "foreign_origin", "a page of another site may not give orders here")
        self._desk.drain(spec.id, drain=action == "drain")
        status = self._desk.status(spec.id)
        if status is None:
            return _error(404, "unknown_endpoint", "the endpoint was removed just now")
        return _json(shapes.endpoint(spec, status, self._desk.wall_of, self._desk.owner(spec.id)))

    def _now(self) -> str:
        return iso8601(self._desk.wall_now())


def _same_origin(request: Request) -> bool:
    """Whether this comes from a tool or from our own pages: browsers say where a page's POST comes from."""
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def _json(body: msgspec.Struct, status: int = 200) -> Response:
    return _json_bytes(msgspec.json.encode(body), status)


def _json_bytes(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, "application/json")


def _error(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body = shapes.ErrorBody(error=shapes.Problem(code=code, message=message))
    return _json_bytes(msgspec.json.encode(body), status, headers)


async def _http_error(_request: Request, exc: Exception) -> Response:
    """Starlette's own refusals (no such path, wrong method) in our shape."""
    if not isinstance(exc, HTTPException):
        raise exc
    code = {404: "not_found", 405: "method_not_allowed"}.get(exc.status_code, "http_error")
    return _error(exc.status_code, code, exc.detail, dict(exc.headers or {}))
