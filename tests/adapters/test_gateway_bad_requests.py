"""What clients may do wrong. Whatever it is, no endpoint hears of it, and nothing is left behind."""

import asyncio
import json

import pytest

from pulsegate.gateway.setup import Limits
from support import raw_server as script
from support.gateways import CHAT, MODEL, Client, ask_for, json_answer, pool, running, setup_of
from support.raw_server import raw_server

NOBODY = 1  # a port where nothing listens: these requests must not get that far
POST = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\n".encode()


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"", 400, "empty_body", None),
        (b"{", 400, "invalid_json", None),
        (b"[]", 400, "invalid_body", None),
        (b'"text"', 400, "invalid_body", None),
        (b"\xff\xfe", 400, "invalid_json", None),
        (b'{"messages":[]}', 400, "missing_model", "model"),
        (b'{"model":null}', 400, "invalid_type", "model"),
        (b'{"model":7}', 400, "invalid_type", "model"),
        (b'{"model":"small","stream":"yes"}', 400, "invalid_type", "stream"),
        (b'{"model":"small","stream_options":3}', 400, "invalid_type", "stream_options"),
        (b'{"model":"large"}', 404, "model_not_found", "model"),
        (b"[" * 100_000, 400, "invalid_body", None),
    ],
)
async def test_bad_bodies(body: bytes, status: int, code: str, param: str | None) -> None:
    async with running(setup_of(pool(NOBODY))) as run, Client(run.port) as client:
        reply = await client.ask(body)
        assert (reply.status, reply.code, reply.json["error"]["param"]) == (status, code, param)
        assert reply.json["error"]["type"] == "invalid_request_error"
        again = await client.ask(path="/health", method="GET")
        assert again.status == 200
        assert run.gateway.figures().refused == {code: 1}


async def test_an_unknown_model_is_told_the_known_ones() -> None:
    async with running(setup_of(pool(NOBODY))) as run:
        reply = await run.ask(ask_for(model="large"))
    assert MODEL in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/unknown", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", CHAT, 405),
        ("DELETE", CHAT, 405),
        ("POST", "/v1/models", 405),
        ("OPTIONS", CHAT, 204),
        ("HEAD", "/v1/models", 200),
        ("HEAD", "/health", 200),
        ("GET", "/v1/models/large", 404),
        ("GET", "/v1/models/small", 200),
    ],
)
async def test_paths_and_methods(method: str, path: str, status: int) -> None:
    async with running(setup_of(pool(NOBODY))) as run, Client(run.port) as client:
        client.writer.write(f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (b"Allow:" in head) is (status in (204, 405))
    if method == "HEAD" or status == 204:
        assert body == b""
    elif status >= 400:
        assert json.loads(body)["error"]["code"] in ("unknown_url", "method_not_allowed", "model_not_found")


SMUGGLING = {
    "both lengths": b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "the same length twice": b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": b"Content-Length: +3\r\n\r\nabc",
    "a huge length": b"Content-Length: 99999999999999999999999\r\n\r\n",
    "a hexadecimal length": b"Content-Length: 0x3\r\n\r\nabc",
    "a folded header": b"X-A: b\r\n c\r\nContent-Length: 3\r\n\r\nabc",
    "a space before the colon": b"Content-Length : 3\r\n\r\nabc",
    "a header without a colon": b"Nonsense\r\n\r\n",
    "an empty name": b": a\r\n\r\n",
    "NUL": b"X-A: a\0b\r\n\r\n",
    "a bare CR": b"X-A: a\rb\r\n\r\n",
    "a bare LF": b"X-A: a\nX-B: b\r\n\r\n",
    "another coding": b"Transfer-Encoding: gzip\r\n\r\n",
    "two codings": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a hidden coding": b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"Host: b\r\n\r\n",
    "two keys": b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    "a bad chunk size": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a signed chunk size": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
    "a huge chunk size": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "a chunk size with 0x": b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk that is too long": b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    "a chunk line that ends with LF": b"Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
    "an endless chunk extension": b"Transfer-Encoding: chunked\r\n\r\n3;" + b"a" * 5000,
    "a bad trailer": b"Transfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
}


@pytest.mark.parametrize("rest", SMUGGLING.values(), ids=SMUGGLING.keys())
async def test_what_could_be_read_in_two_ways_is_refused(rest: bytes) -> None:
    smuggled = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    async with running(setup_of(pool(NOBODY))) as run, Client(run.port) as client:
        got = await client.raw(POST + rest + smuggled)
    assert got.startswith(b"HTTP/1.1 400 ")
    assert got.count(b"HTTP/1.1") == 1
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"Connection: close" in head
    assert json.loads(body)["error"]["code"] == "bad_request"


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\n\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
async def test_what_is_not_http_1_is_refused_at_once(head: bytes) -> None:
    async with running(setup_of(pool(NOBODY))) as run, Client(run.port) as client:
        got = await client.raw(head, patience_s=1)
    assert got.startswith(b"HTTP/1.1 400 ")


async def test_an_absolute_target_is_understood() -> None:
    request = b"GET http://gateway/health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with running(setup_of(pool(NOBODY))) as run, Client(run.port) as client:
        assert (await client.raw(b"\r\n" + request)).startswith(b"HTTP/1.1 200 ")


async def test_an_upgrade_is_ignored() -> None:
    request = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: h2c\r\n\r\n"
    async with running(setup_of(pool(NOBODY))) as run, Client(run.port) as client:
        assert (await client.raw(request)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "more",
    [b"X-Long: " + b"a" * 3000 + b"\r\n\r\n", b"X-Endless: " + b"a" * 3000, b"X-A: b\r\n" * 400],
    ids=["one header", "no end", "many headers"],
)
async def test_large_heads(more: bytes) -> None:
    limits = Limits(header_bytes=2000)
    async with running(setup_of(pool(NOBODY), limits=limits)) as run, Client(run.port) as client:
        got = await client.raw(POST + more)
    assert got.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_bodies(chunked: bool) -> None:
    limits = Limits(body_bytes=1000)
    body = b"x" * (1001 if chunked else 10)
    framing = b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" if chunked else b"Content-Length: 1001\r\n\r\n"
    async with running(setup_of(pool(NOBODY), limits=limits)) as run, Client(run.port) as client:
        got = await client.raw(POST + framing + body)
    assert got.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in got


async def test_a_client_that_goes_on_sending_still_sees_why_it_was_refused() -> None:
    limits = Limits(body_bytes=1000)
    async with running(setup_of(pool(NOBODY), limits=limits)) as run, Client(run.port) as client:
        client.writer.write(POST + b"Content-Length: 50000000\r\n\r\n")
        for _ in range(50):
            client.writer.write(b"x" * 10_000)
            await asyncio.sleep(0)
        assert (await client.rest(patience_s=5)).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "begun",
    [b"POST ", POST, POST + b"Content-Length: 10\r\n\r\nab", POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\na"],
)
async def test_slow_clients_get_408(begun: bytes) -> None:
    limits = Limits(header_timeout_s=0.2, body_timeout_s=0.2)
    async with running(setup_of(pool(NOBODY), limits=limits)) as run, Client(run.port) as client:
        got = await client.raw(begun, patience_s=4)
    assert got.startswith(b"HTTP/1.1 408 ")
    assert b"request_timeout" in got


async def test_a_client_that_says_nothing_is_sent_away() -> None:
    limits = Limits(header_timeout_s=0.2)
    async with running(setup_of(pool(NOBODY), limits=limits)) as run, Client(run.port) as client:
        assert await client.raw(b"", patience_s=4) == b""


async def test_idle_connections_end() -> None:
    limits = Limits(idle_timeout_s=0.2)
    async with running(setup_of(pool(NOBODY), limits=limits)) as run, Client(run.port) as client:
        assert (await client.ask(path="/health", method="GET")).status == 200
        assert await client.rest(patience_s=4) == b""


async def test_too_many_connections_are_closed() -> None:
    async with (
        running(setup_of(pool(NOBODY), limits=Limits(connections=1))) as run,
        Client(run.port) as first,
    ):
        assert (await first.ask(path="/health", method="GET")).status == 200
        async with Client(run.port) as second:
            assert await second.rest() == b""
        assert (await first.ask(path="/health", method="GET")).status == 200


@pytest.mark.parametrize("given", ["a" * 129, "white space", 'quote"', "ümlaut", ""])
async def test_an_id_that_could_forge_a_log_line_is_replaced(given: str) -> None:
    async with (
        raw_server((script.Request(), script.Send(json_answer()))) as server,
        running(setup_of(pool(server.port))) as run,
        Client(run.port) as client,
    ):
        body = json.dumps(ask_for()).encode()
        head = f"Connection: close\r\nX-Request-ID: {given}\r\nContent-Length: {len(body)}\r\n\r\n".encode("latin-1")
        got = await client.raw(POST + head + body)
    reply_id = next(line for line in got.split(b"\r\n") if line.lower().startswith(b"x-request-id:")).split()[-1]
    assert len(reply_id) == 32
    assert b"X-Request-ID: " + reply_id + b"\r\n" in server.connections[0].requests[0]


async def test_two_ids_are_none() -> None:
    request = b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Request-ID: a\r\nX-Request-ID: b\r\n\r\n"
    async with running(setup_of(pool(NOBODY))) as run, Client(run.port) as client:
        got = await client.raw(request)
    assert b"X-Request-ID: a\r\n" not in got
    assert b"X-Request-ID: b\r\n" not in got
