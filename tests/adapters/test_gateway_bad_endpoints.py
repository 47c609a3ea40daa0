"""What endpoints may do wrong: the client never hangs, never gets half an event, and is told of a broken end."""

import asyncio
import json
import time
from collections.abc import Sequence

import pytest

from pulsegate.core.health import Reason, State
from pulsegate.core.snapshot import Snapshot
from pulsegate.gateway.setup import Limits
from support import raw_server as script
from support.gateways import (
    CHAT,
    DONE,
    END,
    ROLE,
    STREAM_HEAD,
    USAGE,
    Client,
    ask_for,
    chunk,
    delta,
    ejected,
    event,
    json_answer,
    pool,
    running,
    setup_of,
    snapshot,
    stream_answer,
    under_way,
    until,
    view,
)
from support.raw_server import Step, raw_server

GOOD_JSON = (script.Request(), script.Send(json_answer()))
GOOD_STREAM = (script.Request(), script.Send(stream_answer("Hello")))
ERROR = event({"error": {"message": "CUDA error: an illegal memory access", "type": "server_error", "code": 500}})
HEAD = script.Send(STREAM_HEAD)


def send(*events: bytes) -> script.Send:
    return script.Send(b"".join(chunk(each) for each in events))


BEFORE_THE_TOKEN: dict[str, Sequence[Step]] = {
    "closes": [script.Close()],
    "resets": [script.Reset()],
    "closes in the head": [script.Send(b"HTTP/1.1 200 OK\r\nContent-"), script.Close()],
    "resets after the head": [HEAD, script.Reset()],
    "closes after the role": [HEAD, send(ROLE), script.Close()],
    "sends half an event": [HEAD, script.Send(chunk(ROLE) + b"40\r\ndata: {"), script.Close()],
    "is not HTTP": [script.Send(b"\x15\x03\x01\x00\x02\x02\x50")],
    "speaks SSH": [script.Send(b"SSH-2.0-OpenSSH_9.2\r\n")],
    "sends a bad chunk": [HEAD, script.Send(chunk(ROLE) + b"zz\r\n")],
    "sends endless headers": [script.Send(b"HTTP/1.1 200 OK\r\n" + b"X-A: bbbbbbbbbbbbbbbb\r\n" * 5000)],
    "sends two lengths": [script.Send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab")],
    "fails": [script.Send(json_answer({"error": "no"}, status="500 Internal Server Error"))],
    "is overloaded": [script.Send(json_answer({"error": "busy"}, status="503 Service Unavailable"))],
    "limits us": [script.Send(json_answer({"error": "slow down"}, status="429 Too Many Requests"))],
    "does not know our key": [script.Send(json_answer({"error": "who?"}, status="401 Unauthorized"))],
    "redirects": [script.Send(b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n")],
    "says error inside 200": [HEAD, send(ROLE, ERROR, DONE), script.Send(END)],
    "says error in JSON inside 200": [script.Send(json_answer({"error": {"message": "dead", "code": 500}}))],
    "says error in an old shape": [script.Send(json_answer({"object": "error", "message": "dead", "code": 500}))],
    "ends without a token": [HEAD, send(ROLE, DONE), script.Send(END)],
    "ends at once": [HEAD, script.Send(END)],
    "sends events that are not JSON": [HEAD, send(b"data: <html>\n\n")],
    "sends a web page": [script.Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")],
}


@pytest.mark.parametrize("how", BEFORE_THE_TOKEN.values(), ids=BEFORE_THE_TOKEN.keys())
async def test_before_the_first_token_another_endpoint_serves(how: Sequence[Step]) -> None:
    async with (
        raw_server((script.Request(), *how)) as bad,
        raw_server(GOOD_STREAM) as good,
        # the bad one is alone in the first pool, so that it is always asked first
        running(setup_of(pool(bad.port), pool(good.port, name="other"))) as run,
    ):
        reply = await run.ask(ask_for(stream=True))
        assert (reply.status, reply.whole, reply.text) == (200, True, "Hello")
        assert reply.headers["x-pulsegate-endpoint"] == f"e{good.port}"
        assert reply.headers["x-pulsegate-attempts"] == "2"
        route = run.gateway.figures().routes[0]
        assert (route.rescued, sum(route.replays.values())) == (1, 1)


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ("closes", 502, "upstream_failed"),
        ("fails", 502, "upstream_failed"),
        ("is not HTTP", 502, "upstream_failed"),
        ("is overloaded", 503, "overloaded"),
        ("limits us", 503, "overloaded"),
        ("does not know our key", 502, "upstream_rejected"),
        ("says error inside 200", 502, "upstream_failed"),
    ],
)
async def test_when_nobody_is_left_the_client_is_told(how: str, status: int, code: str) -> None:
    async with (
        raw_server((script.Request(), *BEFORE_THE_TOKEN[how])) as bad,
        running(setup_of(pool(bad.port))) as run,
        Client(run.port) as client,
    ):
        reply = await client.ask(ask_for(stream=True))
        assert (reply.status, reply.code) == (status, code)
        assert ("retry-after" in reply.headers) is (status == 503)
        assert (await client.ask(path="/health", method="GET")).status == 200


async def test_nobody_listens() -> None:
    async with raw_server(GOOD_JSON) as good, running(setup_of(pool(1), pool(good.port, name="other"))) as run:
        assert (await run.ask(ask_for())).status == 200
        assert run.gateway.figures().endpoints[0].failures == {"connect": 1}
        await asyncio.sleep(0)
        assert run.heard.total("failures") == 1


async def test_no_answer_in_time() -> None:
    async with (
        raw_server((script.Request(), script.Hang())) as slow,
        raw_server(GOOD_JSON) as good,
        running(setup_of(pool(slow.port, answer_deadline_s=0.2), pool(good.port, name="other"))) as run,
    ):
        began = time.perf_counter()
        reply = await run.ask(ask_for())
        assert (reply.status, reply.headers["x-pulsegate-endpoint"]) == (200, f"e{good.port}")
        assert 0.15 < time.perf_counter() - began < 0.6


async def test_no_answer_in_time_and_nobody_else() -> None:
    limits = Limits(total_deadline_s=0.2)
    async with (
        raw_server((script.Request(), script.Send(STREAM_HEAD + chunk(b": ping\n\n")), script.Hang())) as slow,
        running(setup_of(pool(slow.port, ttft_deadline_s=0.2), limits=limits)) as run,
    ):
        reply = await run.ask(ask_for(stream=True))
        assert (reply.status, reply.code) == (504, "upstream_timeout")
        await slow.all_closed()


async def test_an_answer_after_the_deadline_is_not_mixed_in() -> None:
    late = (script.Request(), script.Wait(0.4), script.Send(json_answer({"choices": ["late"]})))
    async with (
        raw_server(late) as slow,
        raw_server((script.Request(), script.Wait(0.3), script.Send(json_answer({"choices": ["good"]})))) as good,
        running(setup_of(pool(slow.port, answer_deadline_s=0.1), pool(good.port, name="other"))) as run,
    ):
        reply = await run.ask(ask_for())
        assert reply.json == {"choices": ["good"]}
        await asyncio.sleep(0.2)


async def test_comments_and_pings_open_no_gate() -> None:
    pings = script.Send(STREAM_HEAD + chunk(b": ping\n\n") * 3 + chunk(ROLE))
    async with (
        raw_server((script.Request(), pings, script.Hang())) as slow,
        raw_server(GOOD_STREAM) as good,
        running(setup_of(pool(slow.port), pool(good.port, name="other"))) as run,
    ):
        async with Client(run.port) as client, under_way(client.ask(ask_for(stream=True))) as asking:
            await until(lambda: slow.connections and slow.connections[0].sent_bytes)
            run.gateway.follow(snapshot(ejected(slow.port), down=True))
            reply = await asking
        assert reply.text == "Hello"
        assert b"ping" not in reply.body


async def test_an_ejection_moves_those_who_wait() -> None:
    async with (
        raw_server((script.Request(), script.Hang())) as dead,
        raw_server(GOOD_JSON) as good,
        running(setup_of(pool(dead.port, good.port)), snapshot(view(dead.port))) as run,
        Client(run.port) as client,
        under_way(client.ask(ask_for())) as asking,
    ):
        await until(lambda: dead.connections and dead.connections[0].requests)
        run.gateway.follow(snapshot(ejected(dead.port), view(good.port), version=2))
        reply = await asking
        assert (reply.status, reply.headers["x-pulsegate-attempts"]) == (200, "2")
        await dead.all_closed()


async def test_a_suspect_endpoint_is_hedged_and_the_first_token_wins() -> None:
    async with (
        raw_server((script.Request(), script.Hang())) as slow,
        raw_server(GOOD_STREAM) as good,
        running(setup_of(pool(slow.port, good.port)), snapshot(view(slow.port), view(good.port, weight=0))) as run,
        Client(run.port) as client,
        under_way(client.ask(ask_for(stream=True))) as asking,
    ):
        await until(lambda: slow.connections and slow.connections[0].requests)
        run.gateway.follow(snapshot(view(slow.port, suspect=True), view(good.port), version=2))
        reply = await asking
        assert reply.text == "Hello"
        assert run.gateway.figures().routes[0].hedges == 1
        await slow.all_closed()


async def test_a_new_connection_that_is_deaf_while_others_are_served_is_hedged() -> None:
    """The endpoint answers on one connection only; whoever needs a second one is not heard."""
    served = (script.Request(), script.Wait(0.2), script.Send(stream_answer("Hello")))
    async with (
        raw_server(served * 20, (script.Hang(),)) as deaf,
        raw_server(GOOD_STREAM) as good,
        running(setup_of(pool(deaf.port, good.port)), snapshot(view(deaf.port))) as run,
        Client(run.port) as client,
        asyncio.timeout(3.0),
        asyncio.TaskGroup() as tasks,
    ):
        busy = tasks.create_task(client.ask(ask_for(stream=True)))
        await until(lambda: deaf.connections and deaf.connections[0].requests)
        unheard = tasks.create_task(run.ask(ask_for(stream=True)))
        await until(lambda: len(deaf.connections) == 2)
        assert (await busy).text == "Hello"
        run.gateway.follow(snapshot(view(deaf.port), view(good.port, weight=1), version=2))
        assert (await client.ask(ask_for(stream=True))).text == "Hello"  # came later, is served earlier
        assert (await unheard).text == "Hello"
        assert run.gateway.figures().routes[0].hedges == 1


async def test_a_new_connection_that_is_deaf_where_nobody_else_asks_is_hedged() -> None:
    async with (
        raw_server((script.Hang(),)) as deaf,
        raw_server(GOOD_STREAM) as good,
        running(setup_of(pool(deaf.port, good.port)), snapshot(view(deaf.port))) as run,
        asyncio.timeout(3.0),
        asyncio.TaskGroup() as tasks,
    ):
        unheard = tasks.create_task(run.ask(ask_for(stream=True)))
        await until(lambda: deaf.connections)
        run.gateway.follow(snapshot(view(deaf.port), view(good.port), version=2))
        assert (await unheard).text == "Hello"
        assert run.gateway.figures().routes[0].hedges == 1


async def test_those_who_wait_longest_are_hedged_first() -> None:
    one_at_a_time = Limits(retry_percent=0, retry_floor=1)
    async with (
        raw_server((script.Request(), script.Hang())) as slow,
        raw_server((script.Request(), script.Hang())) as other,
        running(
            setup_of(pool(slow.port, other.port), limits=one_at_a_time),
            snapshot(view(slow.port), view(other.port, weight=0)),
        ) as run,
        asyncio.TaskGroup() as tasks,
    ):
        asking = []
        for number in range(6):
            asking.append(tasks.create_task(run.ask(ask_for(user=f"user {number}"))))
            await until(lambda: sum(len(one.requests) for one in slow.connections) == len(asking))
        run.gateway.follow(snapshot(view(slow.port, suspect=True), view(other.port), version=2))
        await until(lambda: other.connections and other.connections[0].requests)
        assert b"user 0" in other.connections[0].requests[0]
        for task in asking:
            task.cancel()


async def test_a_pool_that_is_down_gets_503_at_once() -> None:
    async with running(setup_of(pool(1)), snapshot(ejected(1), down=True)) as run:
        reply = await run.ask(ask_for())
        assert (reply.status, reply.code) == (503, "no_endpoint_available")
        assert int(reply.headers["retry-after"]) >= 1
        ready = await run.ask(path="/health/ready", method="GET")
        assert (ready.status, ready.json["status"]) == (503, "not_ready")


async def test_a_pool_that_is_starting_is_waited_for_but_not_by_who_asks_for_health() -> None:
    async with (
        raw_server(GOOD_STREAM) as good,
        running(setup_of(pool(good.port)), starting(good.port)) as run,
        Client(run.port) as client,
        under_way(client.ask(ask_for(stream=True))) as asking,
    ):
        await until(lambda: run.gateway.figures().in_flight)
        ready = await run.ask(path="/health/ready", method="GET")
        assert (ready.status, ready.json["status"]) == (503, "not_ready")
        assert (await run.ask(path="/health", method="GET")).status == 200
        run.gateway.follow(snapshot(view(good.port), version=2))
        assert (await asking).text == "Hello"


async def test_a_pool_that_did_not_start_gets_503() -> None:
    async with (
        running(setup_of(pool(1)), starting(1)) as run,
        Client(run.port) as client,
        under_way(client.ask(ask_for())) as asking,
    ):
        await until(lambda: run.gateway.figures().in_flight)
        run.gateway.follow(snapshot(view(1, weight=0), version=2, down=True))
        reply = await asking
        assert (reply.status, reply.code) == (503, "no_endpoint_available")
        assert int(reply.headers["retry-after"]) >= 1


def starting(port: int) -> Snapshot:
    return snapshot(view(port, weight=0, state=State.WARMING, reason=Reason.STARTING), down=True, starting=True)


# connections that were kept


@pytest.mark.parametrize("end", [script.Close(), script.Reset()])
async def test_a_kept_connection_that_died_is_silently_replaced(end: Step) -> None:
    async with (
        raw_server((*GOOD_JSON, script.Request(), end), GOOD_JSON) as server,
        running(setup_of(pool(server.port))) as run,
        Client(run.port) as client,
    ):
        assert (await client.ask(ask_for())).status == 200
        reply = await client.ask(ask_for())
        assert (reply.status, reply.headers["x-pulsegate-attempts"]) == (200, "1")
        assert len(server.connections) == 2


async def test_a_new_connection_that_dies_is_not_silently_replaced() -> None:
    async with raw_server((script.Request(), script.Close())) as server, running(setup_of(pool(server.port))) as run:
        assert (await run.ask(ask_for())).status == 502
        assert len(server.connections) == 1


async def test_a_connection_with_more_bytes_than_the_answer_is_not_used_again() -> None:
    odd = (script.Request(), script.Send(json_answer() + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"))
    async with (
        raw_server(odd, GOOD_JSON) as server,
        running(setup_of(pool(server.port))) as run,
        Client(run.port) as client,
    ):
        for _ in range(2):
            assert (await client.ask(ask_for())).json["choices"][0]["message"]["content"] == "Hi"
        assert len(server.connections) == 2


async def test_bytes_behind_a_stream_do_not_reach_the_client() -> None:
    async with (
        raw_server((script.Request(), script.Send(stream_answer("Hi") + b"HTTP/1.1 200 OK\r\nX: 0\r\n\r\n"))) as server,
        running(setup_of(pool(server.port))) as run,
        Client(run.port) as client,
    ):
        reply = await client.ask(ask_for(stream=True))
        assert (reply.whole, reply.text) == (True, "Hi")
        assert (await client.ask(path="/health", method="GET")).status == 200


async def test_idle_connections_to_endpoints_end() -> None:
    async with (
        raw_server(GOOD_JSON) as server,
        running(setup_of(pool(server.port), limits=Limits(upstream_idle_s=0.2))) as run,
    ):
        await run.ask(ask_for())
        async with asyncio.timeout(4):
            await server._idle.wait()


# after the first token

TOKEN = delta(content="Hello")

AFTER_THE_TOKEN: dict[str, tuple[Sequence[Step], str]] = {
    "closes": ([script.Close()], "upstream_cut"),
    "resets": ([script.Reset()], "upstream_cut"),
    "sends half an event": ([script.Send(b'40\r\ndata: {"id"'), script.Close()], "upstream_cut"),
    "sends half an event in a whole chunk": ([script.Send(chunk(b'data: {"id"')), script.Close()], "upstream_cut"),
    "sends a bad chunk": ([script.Send(b"zz\r\n")], "upstream_cut"),
    "falls silent": ([script.Hang()], "upstream_stalled"),
    "falls silent within an event": ([script.Send(b'40\r\ndata: {"id"'), script.Hang()], "upstream_stalled"),
    "only sends pings": (
        [each for _ in range(30) for each in (script.Send(chunk(b": ping\n\n")), script.Wait(0.03))],
        "upstream_stalled",
    ),
}


@pytest.mark.parametrize(("how", "code"), AFTER_THE_TOKEN.values(), ids=AFTER_THE_TOKEN.keys())
async def test_after_the_first_token_the_stream_ends_with_an_error_event(how: Sequence[Step], code: str) -> None:
    steps = (script.Request(), script.Send(STREAM_HEAD + chunk(ROLE) + chunk(TOKEN)), script.Wait(0.02), *how)
    async with (
        raw_server(steps) as bad,
        running(setup_of(pool(bad.port, itl_deadline_s=0.3))) as run,
        Client(run.port) as client,
    ):
        reply = await client.ask(ask_for(stream=True))
        assert reply.whole
        assert reply.body.startswith(ROLE + TOKEN)
        assert reply.last_error == code
        assert "[DONE]" not in reply.events
        assert b'data: {"id"\n' not in reply.body
        assert (await client.ask(path="/health", method="GET")).status == 200
        await bad.all_closed()
        figures = run.gateway.figures().endpoints[0]
        assert figures.failures == {code.removeprefix("upstream_"): 1}
        assert run.heard.total("failures") + run.heard.total("stalls") >= 1


async def test_an_error_event_of_the_endpoint_goes_through_and_is_evidence() -> None:
    steps = (script.Request(), script.Send(STREAM_HEAD), send(ROLE, TOKEN, ERROR, DONE), script.Send(END))
    async with raw_server(steps) as bad, running(setup_of(pool(bad.port))) as run:
        reply = await run.ask(ask_for(stream=True))
        assert reply.body == ROLE + TOKEN + ERROR + DONE
        await run.idle()
        assert run.gateway.figures().endpoints[0].failures == {"error_event": 1}


async def test_a_slow_but_steady_stream_is_left_alone() -> None:
    steps: list[Step] = [script.Request(), script.Send(STREAM_HEAD + chunk(ROLE))]
    for _ in range(8):
        steps += [script.Wait(0.1), send(TOKEN)]
    async with (
        raw_server((*steps, send(delta("stop"), DONE), script.Send(END))) as server,
        running(setup_of(pool(server.port, itl_deadline_s=0.3))) as run,
    ):
        reply = await run.ask(ask_for(stream=True))
        assert (reply.text, reply.last_error) == ("Hello" * 8, None)


async def test_an_engine_without_done_is_whole() -> None:
    steps = (script.Request(), script.Send(STREAM_HEAD), send(ROLE, TOKEN, delta("stop")), script.Send(END))
    async with raw_server(steps) as server, running(setup_of(pool(server.port))) as run:
        reply = await run.ask(ask_for(stream=True))
        assert (reply.whole, reply.last_error) == (True, None)


@pytest.mark.parametrize("piece", [None, 1, 11])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
async def test_usage_is_found_and_hidden_however_it_is_cut(piece: int | None, line_end: bytes) -> None:
    payload = (ROLE + TOKEN + delta("stop") + USAGE + DONE).replace(b"\n", line_end)
    whole = STREAM_HEAD + chunk(payload[:100]) + chunk(payload[100:]) + END
    async with (
        raw_server((script.Request(), script.Send(whole, piece))) as server,
        running(setup_of(pool(server.port))) as run,
    ):
        reply = await run.ask(ask_for(stream=True))
        await run.idle()
        assert run.gateway.figures().routes[0].completion_tokens == 2
    assert reply.body == payload.replace(USAGE.replace(b"\n", line_end), b"")


async def test_missing_usage_is_missing_not_zero() -> None:
    async with raw_server(GOOD_STREAM) as server, running(setup_of(pool(server.port))) as run:
        await run.ask(ask_for(stream=True))
        await run.idle()
        route = run.gateway.figures().routes[0]
        assert (route.usage_missing, route.completion_tokens) == (1, 0)


# clients that vanish


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("at", ["waiting", "gated", "streaming", "connecting"])
async def test_a_client_that_vanishes_cancels_upstream_at_once(at: str, stream: bool) -> None:
    head = (
        STREAM_HEAD if stream else b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n\r\n{"
    )
    begun = {"waiting": b"", "gated": head + (chunk(ROLE) if stream else b"")}
    begun["streaming"] = head + (chunk(ROLE) + chunk(TOKEN) if stream else b" " * 10)
    async with (
        raw_server((script.Request(), script.Send(begun.get(at, b"")), script.Hang())) as server,
        running(setup_of(pool(server.port))) as run,
    ):
        async with Client(run.port) as client, under_way(client.ask(ask_for(stream=stream))) as asking:
            if at == "connecting":
                await asyncio.sleep(0)
            else:
                await until(lambda: server.connections and server.connections[0].requests)
                await asyncio.sleep(0.03)
            asking.cancel()
        await run.idle()
        if at != "connecting":
            await server.all_closed()
            assert server.connections[0].closed_after_s is not None
            assert server.connections[0].closed_after_s < 0.2
            assert run.gateway.figures().routes[0].requests == {499: 1}
        assert run.heard.total("failures") == 0


@pytest.mark.parametrize("size", [0, 10, 60])
async def test_a_client_that_vanishes_within_its_request(size: int) -> None:
    async with running(setup_of(pool(1))) as run:
        async with Client(run.port) as client:
            client.writer.write(b'POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"'[:size])
            await asyncio.sleep(0.01)
        await until(lambda: not run.gateway.figures().connections)


async def test_a_client_that_vanishes_while_its_request_is_parked_or_refused() -> None:
    async with running(setup_of(pool(1))) as run:
        async with Client(run.port) as client:
            client.writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n")
        await run.idle()


# back-pressure


async def test_a_client_that_does_not_read_stops_the_endpoint_and_loses_nothing() -> None:
    big, many = chunk(delta(content="x" * 20_000)), 800
    end = (send(delta("stop"), DONE), script.Send(END))
    steps = (script.Request(), script.Send(STREAM_HEAD + chunk(ROLE)), script.Flood(big, times=many), *end)
    body = json.dumps(ask_for(stream=True)).encode()
    head = b"POST %b HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(body))
    async with (
        raw_server(steps) as server,
        running(setup_of(pool(server.port, itl_deadline_s=0.3))) as run,
        Client(run.port) as client,
    ):
        client.writer.transport.pause_reading()
        client.writer.write(head + body)
        await asyncio.sleep(0.6)  # longer than the stall deadline: the silence is the client's own
        assert server.connections[0].sent_bytes < many * len(big) - 1_000_000
        client.writer.transport.resume_reading()
        got = await client.rest(patience_s=20)
    assert got.count(b"x" * 20_000) == many
    assert got.endswith(DONE)


async def test_a_client_that_never_reads_is_cut_off() -> None:
    steps = (script.Request(), script.Send(STREAM_HEAD + chunk(ROLE)), script.Flood(chunk(delta(content="x" * 10_000))))
    async with (
        raw_server(steps) as server,
        running(setup_of(pool(server.port), limits=Limits(send_timeout_s=0.3))) as run,
        Client(run.port) as client,
    ):
        client.writer.transport.pause_reading()
        async with under_way(client.ask(ask_for(stream=True))) as asking:
            await until(lambda: run.gateway.figures().routes[0].requests)
            assert run.gateway.figures().routes[0].requests == {499: 1}
            await server.all_closed()
            client.writer.transport.resume_reading()
            await asking
