import asyncio
from typing import Any

import pytest

import pulsegate
from pulsegate.status.request_id import RequestIdMiddleware


async def call(headers: list[tuple[bytes, bytes]], *, app_headers: list[tuple[bytes, bytes]] | None = None) -> Any:
    """The scope that the app saw and the messages that the client got."""
    seen: dict[str, Any] = {}
    sent: list[Any] = []

    async def app(scope, receive, send):
        seen.update(scope)
        await send({"type": "http.response.start", "status": 200, "headers": app_headers or []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await send({"type": "http.response.body", "body": b"two"})

    async def send(message):
        sent.append(message)

    middleware = pulsegate.RequestIdMiddleware(app, make_id=lambda: "made-here")
    await middleware({"type": "http", "headers": headers, "state": {"kept": 1}}, None, send)
    return seen, sent


async def test_takes_the_clients_id() -> None:
    seen, sent = await call([(b"X-Request-ID", b"a.B:9_-"), (b"accept", b"*/*")])
    assert seen["state"] == {"kept": 1, "request_id": "a.B:9_-"}
    assert seen["headers"] == [(b"accept", b"*/*"), (b"x-request-id", b"a.B:9_-")]
    assert sent[0]["headers"] == [(b"x-request-id", b"a.B:9_-")]


@pytest.mark.parametrize(
    "given",
    [
        [],
        [b""],
        [b"has space"],
        [b"line\nbreak"],
        [b"x" * 129],
        [b"\xff"],
        [b"one", b"two"],
    ],
)
async def test_makes_one_instead_of_what_is_missing_or_not_presentable(given: list[bytes]) -> None:
    seen, sent = await call([(b"x-request-id", value) for value in given])
    assert seen["state"]["request_id"] == "made-here"
    assert seen["headers"] == sent[0]["headers"] == [(b"x-request-id", b"made-here")]


async def test_replaces_an_id_that_the_app_set() -> None:
    _, sent = await call([(b"x-request-id", b"mine")], app_headers=[(b"X-Request-Id", b"other"), (b"a", b"b")])
    assert sent[0]["headers"] == [(b"a", b"b"), (b"x-request-id", b"mine")]


async def test_leaves_streams_untouched_and_starts_no_task() -> None:
    before = asyncio.all_tasks()
    _, sent = await call([])
    assert [message.get("body") for message in sent[1:]] == [b"one", b"two"]
    assert asyncio.all_tasks() == before


async def test_marks_websockets_and_leaves_lifespan_alone() -> None:
    sent: list[Any] = []

    async def app(scope, receive, send):
        await send({"type": "websocket.accept" if scope["type"] == "websocket" else "lifespan.startup.complete"})

    async def send(message):
        sent.append(message)

    middleware = RequestIdMiddleware(app, make_id=lambda: "made-here")
    await middleware({"type": "websocket", "headers": []}, None, send)
    await middleware({"type": "lifespan"}, None, send)
    assert sent[0]["headers"] == [(b"x-request-id", b"made-here")]
    assert sent[1] == {"type": "lifespan.startup.complete"}


async def test_made_ids_are_presentable_and_differ() -> None:
    made = {pulsegate.status.request_id.new_request_id() for _ in range(100)}
    assert len(made) == 100
    assert all(len(one) == 32 for one in made)
