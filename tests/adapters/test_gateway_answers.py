import asyncio
import json

import pytest

from pulsegate.gateway.setup import PoolSetup, RouteSetup, Setup
from support import raw_server as script
from support.gateways import (
    CHAT,
    DONE,
    END,
    MODEL,
    ROLE,
    STREAM_HEAD,
    Client,
    ask_for,
    chunk,
    delta,
    endpoint,
    json_answer,
    pool,
    running,
    setup_of,
    stream_answer,
)
from support.raw_server import raw_server

ONE = (script.Request(), script.Send(json_answer()))
STREAM = (script.Request(), script.Send(stream_answer("Hel", "lo")))


async def test_a_json_answer_goes_through_and_names_who_gave_it() -> None:
    async with raw_server(ONE) as server, running(setup_of(pool(server.port))) as run:
        reply = await run.ask(ask_for(), headers={"X-Request-ID": "my.id:1"})
    assert (reply.status, reply.json["choices"][0]["message"]["content"]) == (200, "Hi")
    assert reply.headers["x-request-id"] == "my.id:1"
    assert (reply.headers["x-pulsegate-endpoint"], reply.headers["x-pulsegate-attempts"]) == (f"e{server.port}", "1")


@pytest.mark.parametrize("piece", [None, 1, 13])
async def test_a_stream_goes_through_however_it_is_cut(piece: int | None) -> None:
    answer = stream_answer("Hel", "lo", " you")
    async with (
        raw_server((script.Request(), script.Send(answer, piece))) as server,
        running(setup_of(pool(server.port, ask_usage=False))) as run,
    ):
        reply = await run.ask(ask_for(stream=True))
    assert reply.whole
    assert reply.text == "Hello you"
    assert (
        reply.body == ROLE + delta(content="Hel") + delta(content="lo") + delta(content=" you") + delta("stop") + DONE
    )
    assert reply.headers["content-type"] == "text/event-stream"


async def test_connections_are_kept_on_both_sides() -> None:
    steps = ONE * 3
    async with raw_server(steps) as server, running(setup_of(pool(server.port))) as run, Client(run.port) as client:
        replies = [await client.ask(ask_for()) for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 200, 200]
        assert len({reply.headers["x-request-id"] for reply in replies}) == 3
        assert len(server.connections) == 1


async def test_the_request_goes_on_as_it_came() -> None:
    body = b'{ "model": "small",\n "x_unknown": {"a": [1.0, 1e2, "\\u00e9"]}, "temperature":0.70 }'
    sent = {
        "Authorization": "Bearer client-secret",
        "X-LLM-Probe": "true",
        "X-Pulsegate-Endpoint": "forged",
        "Connection": "keep-alive, X-Private",
        "X-Private": "hop",
        "TE": "trailers",
        "Accept-Encoding": "gzip",
        "X-Trace": "kept",
    }
    async with raw_server(ONE) as server, running(setup_of(pool(server.port))) as run:
        await run.ask(body, headers=sent, path=CHAT + "?a=b")
    head, _, got = server.connections[0].requests[0].partition(b"\r\n\r\n")
    assert got == body
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == f"post {CHAT}?a=b http/1.1"
    names = sorted(line.split(":")[0] for line in lines[1:])
    assert names == ["content-length", "content-type", "host", "x-request-id", "x-trace"]
    assert f"host: 127.0.0.1:{server.port}" in lines


async def test_the_endpoints_own_headers_and_model_name_go_up() -> None:
    async with raw_server(ONE) as server:
        target = endpoint(
            server.port, model="org/model", base_path="/base", headers=(("Authorization", "Bearer up"), ("X-Team", "a"))
        )
        async with running(setup_of(PoolSetup(name=pool().name, endpoints=(target,)))) as run:
            await run.ask(
                b'{"z":1e3,"model":"small","a":[1.50]}', headers={"X-Team": "forged", "Authorization": "mine"}
            )
    head, _, body = server.connections[0].requests[0].partition(b"\r\n\r\n")
    assert body == b'{"z":1e3,"model":"org/model","a":[1.50]}'
    assert head.startswith(b"POST /base/v1/chat/completions HTTP/1.1\r\n")
    assert head.count(b"Authorization: Bearer up") == 1
    assert head.lower().count(b"x-team") == 1
    assert b"mine" not in head


async def test_the_clients_key_goes_up_only_if_configured() -> None:
    async with (
        raw_server(ONE) as server,
        running(setup_of(pool(server.port, forward_authorization=True))) as run,
    ):
        await run.ask(ask_for(), headers={"Authorization": "Bearer theirs"})
    assert b"\r\nAuthorization: Bearer theirs\r\n" in server.connections[0].requests[0]


@pytest.mark.parametrize("asked", [None, False, True])
async def test_usage_is_asked_for_and_hidden_from_who_did_not_ask(asked: bool | None) -> None:
    answer = stream_answer("Hi", usage=True)
    more = {} if asked is None else {"stream_options": {"include_usage": asked, "other": 1}}
    async with (
        raw_server((script.Request(), script.Send(answer))) as server,
        running(setup_of(pool(server.port))) as run,
    ):
        reply = await run.ask(ask_for(stream=True, **more))
        await run.idle()
        assert run.gateway.figures().routes[0].completion_tokens == 2
    sent = json.loads(server.connections[0].requests[0].partition(b"\r\n\r\n")[2])
    assert sent["stream_options"]["include_usage"] is True
    assert reply.whole
    assert ('"usage"' in reply.body.decode()) is (asked is True)
    assert reply.events[-1] == "[DONE]"


async def test_http_1_0_gets_a_bare_body() -> None:
    body = json.dumps(ask_for(stream=True)).encode()
    head = f"POST {CHAT} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with raw_server(STREAM) as server, running(setup_of(pool(server.port))) as run, Client(run.port) as client:
        got = await client.raw(head + body)
    head, _, payload = got.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    assert b"chunked" not in head.lower()
    assert payload == ROLE + delta(content="Hel") + delta(content="lo") + delta("stop") + DONE


async def test_connection_close_is_honoured() -> None:
    async with raw_server(ONE) as server, running(setup_of(pool(server.port))) as run, Client(run.port) as client:
        reply = await client.ask(ask_for(), headers={"Connection": "close"})
        assert reply.headers["connection"] == "close"
        assert await client.reader.read() == b""


async def test_pipelined_requests_are_answered_in_order() -> None:
    def request(number: int) -> bytes:
        body = json.dumps(ask_for(n=number)).encode()
        return f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    answers = [(script.Request(), script.Wait(0.02), script.Send(json_answer({"n": n}))) for n in range(3)]
    many = request(0) + request(1) + request(2) + b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    async with (
        raw_server(answers[0] + answers[1] + answers[2]) as server,
        running(setup_of(pool(server.port))) as run,
        Client(run.port) as client,
    ):
        got = await client.raw(many)
        assert len(server.connections) == 1
    assert [got.index(b'{"n": %d}' % n) for n in range(3)] == sorted(got.index(b'{"n": %d}' % n) for n in range(3))
    assert got.count(b"HTTP/1.1 200 OK") == 4
    assert b'"status":"ok"' in got.rpartition(b"\r\n\r\n")[2]
    assert [json.loads(sent.partition(b"\r\n\r\n")[2])["n"] for sent in server.connections[0].requests] == [0, 1, 2]


async def test_a_chunked_request_body_goes_up_with_a_length() -> None:
    body = json.dumps(ask_for()).encode()
    chunks = b"%x;ext=1\r\n%b\r\n" % (5, body[:5]) + chunk(body[5:]) + b"0\r\nX-Trailer: a\r\n\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    again = (
        f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )
    async with raw_server(ONE * 2) as server, running(setup_of(pool(server.port))) as run, Client(run.port) as client:
        got = await client.raw(head + chunks + again)
    assert got.count(b"HTTP/1.1 200 OK") == 2
    sent = server.connections[0].requests
    assert [each.partition(b"\r\n\r\n")[2] for each in sent] == [body, body]
    assert b"chunked" not in sent[0].lower()


async def test_expect_100_continue() -> None:
    body = json.dumps(ask_for()).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with raw_server(ONE) as server, running(setup_of(pool(server.port))) as run, Client(run.port) as client:
        client.writer.write(head)
        async with asyncio.timeout(2):
            assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.writer.write(body)
            assert (await client.reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_refused_body_is_not_asked_for() -> None:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n".encode()
    async with running(setup_of(pool(1))) as run, Client(run.port) as client:
        got = await client.raw(head)
    assert got.startswith(b"HTTP/1.1 413 ")


async def test_an_answer_that_ends_with_its_connection() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + b'{"choices":[]}'
    async with (
        raw_server((script.Request(), script.Send(whole), script.Close())) as server,
        running(setup_of(pool(server.port))) as run,
    ):
        reply = await run.ask(ask_for())
    assert (reply.status, reply.json) == (200, {"choices": []})
    assert reply.headers["content-length"] == "14"


async def test_a_stream_that_ends_with_its_connection() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    steps = (
        script.Request(),
        script.Send(head + ROLE + delta(content="a"), 50),
        script.Send(delta("stop") + DONE),
        script.Close(),
    )
    async with raw_server(steps) as server, running(setup_of(pool(server.port))) as run:
        reply = await run.ask(ask_for(stream=True))
    assert reply.whole
    assert reply.events[-1] == "[DONE]"


async def test_interim_answers_are_dropped() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    async with (
        raw_server((script.Request(), script.Send(early + json_answer(), 9))) as server,
        running(setup_of(pool(server.port))) as run,
    ):
        reply = await run.ask(ask_for())
    assert reply.status == 200
    assert "link" not in reply.headers


async def test_the_users_own_errors_go_through_unchanged_and_are_not_retried() -> None:
    told = {"error": {"message": "max_tokens is too large", "type": "BadRequestError", "code": 400}}
    answer = json_answer(told, status="400 Bad Request")
    async with (
        raw_server((script.Request(), script.Send(answer))) as server,
        running(setup_of(pool(server.port))) as run,
    ):
        reply = await run.ask(ask_for())
        assert run.gateway.figures().endpoints[0].failures == {}
    assert (reply.status, reply.json) == (400, told)
    assert len(server.connections) == 1
    assert run.heard.total("failures") == 0


async def test_an_answer_too_large_to_hold_back_is_passed_on_as_it_comes() -> None:
    body = json.dumps({"data": ["x" * 500_000]}).encode()
    limits = setup_of().limits.__class__(held_bytes=100_000)
    async with (
        raw_server((script.Request(), script.Send(json_answer(body)))) as server,
        running(setup_of(pool(server.port), limits=limits)) as run,
    ):
        reply = await run.ask(ask_for())
    assert reply.whole
    assert reply.body == body


async def test_several_routes_and_a_chunk_of_several_events() -> None:
    together = STREAM_HEAD + chunk(ROLE + delta(content="a")) + chunk(delta(content="b") + delta("stop") + DONE) + END
    async with raw_server((script.Request(), script.Send(together))) as server:
        routes = (RouteSetup(name=MODEL, tiers=(pool().name,)), RouteSetup(name="other", tiers=(pool().name,)))
        async with running(Setup(pools=(pool(server.port),), routes=routes)) as run:
            reply = await run.ask(ask_for(stream=True, model="other"))
    assert reply.text == "ab"
