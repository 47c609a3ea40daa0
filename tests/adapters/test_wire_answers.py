import asyncio
from pathlib import Path

import pytest

from pulsegate.core.probe import FaultClass
from pulsegate.engines.exchange import Exchange, Flow, Request
from support import raw_server as script
from support.raw_server import raw_server
from support.wire_listener import GENERATE, Ear, ask, until, wire_to

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TOKEN = b"7\r\n TOKEN\n\r\n"
END = b"0\r\n\r\n"
CHUNKED = HEAD + TOKEN + END
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n TOKEN\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n TOKEN\n"
ONE = (script.Request(), script.Send(CHUNKED))


async def once(*steps: script.Step, ear: Ear | None = None, **how: float) -> tuple[Exchange, Ear]:
    ear = ear or Ear()
    async with raw_server((script.Request(), *steps)) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        try:
            got = await ask(wire, ear, **how)
        finally:
            await wire.close()
    return got, ear


@pytest.mark.parametrize("piece", [None, 1, 7])
@pytest.mark.parametrize("answer", [CHUNKED, SIZED])
async def test_a_whole_answer_in_any_pieces(answer: bytes, piece: int | None) -> None:
    got, ear = await once(script.Send(answer, piece))
    assert got.whole
    assert (got.status, ear.body, got.bytes_read) == (200, b" TOKEN\n", len(answer))
    assert ear.ended_at_s == got.phases.end_s


async def test_a_body_without_length_ends_with_the_connection() -> None:
    got, ear = await once(script.Send(UNTIL_CLOSE), script.Close())
    assert got.whole
    assert ear.body == b" TOKEN\n"


async def test_an_answer_without_a_body() -> None:
    got, ear = await once(script.Send(b"HTTP/1.1 204 No Content\r\n\r\n"))
    assert got.whole
    assert (got.status, ear.body) == (204, b"")


async def test_interim_answers_are_skipped() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    got, ear = await once(script.Send(interim + CHUNKED, 5))
    assert got.whole
    assert [status for status, _ in ear.heads] == [200]
    assert "link" not in got.headers


async def test_header_names_are_lower_case_and_repeated_ones_are_joined() -> None:
    got, _ = await once(script.Send(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n"))
    assert got.headers == {"x-a": "1, 2", "content-length": "0"}


async def test_phases_are_kept_apart_and_stamps_are_those_of_the_reads() -> None:
    got, ear = await once(
        script.Wait(0.03), script.Send(HEAD), script.Wait(0.03), script.Send(TOKEN), script.Wait(0.02), script.Send(END)
    )
    phases = got.phases
    assert phases.dns_s is None
    assert phases.tls_s is None
    assert phases.connect_s is not None
    assert phases.send_s is not None
    assert phases.first_byte_s is not None
    assert phases.end_s is not None
    [(_, token_at_s)] = ear.reads
    assert phases.send_s < phases.first_byte_s - 0.025
    assert phases.first_byte_s < token_at_s - 0.02
    assert phases.end_s >= token_at_s + 0.015
    assert ear.ended_at_s == phases.end_s


async def test_the_request_as_the_server_sees_it() -> None:
    async with raw_server(ONE) as server:
        url = f"http://127.0.0.1:{server.port}"
        wire = wire_to(f"{url}/base/v1/", api_key="secret", headers=(("X-Tenant", "t1"), ("x-llm-probe", "operator")))
        await ask(wire)
        await wire.close()
        [request] = server.connections[0].requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == GENERATE.body
    assert head.split(b"\r\n") == [
        b"POST /base/v1/completions HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}".encode(),
        b"User-Agent: pulsegate",
        b"Accept-Encoding: identity",
        b"X-Tenant: t1",
        b"x-llm-probe: operator",
        b"Authorization: Bearer secret",
        b"Content-Length: 8",
    ]


@pytest.mark.parametrize(
    "request_",
    [
        Request(method="GET", path="/a b"),
        Request(method="GET", path="no-slash"),
        Request(method="GET", path="/x\r\nEvil: 1"),
        Request(method="GET", path="/", headers=(("A", "1\r\nEvil: 1"),)),
        Request(method="GET", path="/", headers=(("A", "1\nEvil"),)),
        Request(method="GET", path="/", headers=(("A\r\nEvil", "1"),)),
        Request(method="GET", path="/", headers=(("A", "é€"),)),
    ],
)
async def test_a_request_that_cannot_be_written_is_our_own_mistake(request_: Request) -> None:
    with pytest.raises(ValueError, match="of the request cannot be written"):
        await wire_to("http://127.0.0.1:1").exchange(request_, Ear(), deadline_s=0.1)


async def test_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "engine.sock")
    async with raw_server(ONE, unix_path=path) as server:
        wire = wire_to(f"unix:{path}:/base")
        got = await ask(wire)
        await wire.close()
        assert (
            server.connections[0].requests[0].startswith(b"POST /base/v1/completions HTTP/1.1\r\nHost: localhost\r\n")
        )
    assert got.whole


async def test_ipv6_literal() -> None:
    try:
        async with raw_server(ONE, host="::1") as server:
            wire = wire_to(f"http://[::1]:{server.port}")
            got = await ask(wire)
            await wire.close()
            assert f"\r\nHost: [::1]:{server.port}\r\n".encode() in server.connections[0].requests[0]
    except OSError as exc:
        pytest.skip(f"this machine has no IPv6 loopback: {exc}")
    assert got.whole
    assert got.phases.dns_s is None


async def test_a_name_is_resolved_and_every_address_is_tried() -> None:
    async with raw_server(ONE) as server:  # listens on 127.0.0.1 only; localhost may also be ::1
        wire = wire_to(f"http://localhost:{server.port}")
        got = await ask(wire)
        await wire.close()
    assert got.whole
    assert got.phases.dns_s is not None


# how an exchange ends before the body does


async def test_no_token_by_the_deadline_closes_at_once() -> None:
    got, ear = await once(script.Send(HEAD + b"3\r\n:ka\r\n"), script.Hang(), deadline_s=0.1)
    assert got.deadline_hit
    assert got.phases.end_s is not None
    assert 0.09 <= got.phases.end_s < 2
    assert ear.ended_at_s is None
    assert (got.status, ear.body) == (200, b":ka")


async def test_no_byte_by_the_deadline() -> None:
    got, _ = await once(script.Hang(), deadline_s=0.05)
    assert got.deadline_hit
    assert (got.status, got.phases.first_byte_s, got.bytes_read) == (None, None, 0)


async def test_after_the_token_a_stream_that_goes_on_is_left() -> None:
    got, ear = await once(script.Send(HEAD + TOKEN), script.Hang())
    assert got.left
    assert got.lingered
    assert got.phases.end_s is not None
    assert 0.04 <= got.phases.end_s < 2
    assert ear.ended_at_s is None


async def test_the_listener_can_stop_at_once() -> None:
    got, ear = await once(script.Send(HEAD + TOKEN), script.Hang(), ear=Ear(decide=lambda _: Flow.STOP))
    assert got.left
    assert not got.lingered
    assert ear.body == b" TOKEN\n"


async def test_a_mistake_of_the_listener_is_raised_and_leaks_nothing() -> None:
    def broken(_: bytes) -> Flow:
        raise RuntimeError("listener")

    with pytest.raises(RuntimeError, match="listener"):
        await once(script.Send(HEAD + TOKEN), script.Hang(), ear=Ear(decide=broken))


async def test_a_cancelled_exchange_closes_its_connection() -> None:
    async with raw_server((script.Request(), script.Hang())) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await wire.exchange(GENERATE, Ear(), deadline_s=5)
        await server.all_closed()
        assert "open=0" in repr(wire)


async def test_a_deadline_at_any_moment_of_connecting_leaks_nothing() -> None:
    async with raw_server(ONE) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        for tenth_ms in range(200):
            got = await ask(wire, deadline_s=tenth_ms % 20 / 10_000)
            assert got.whole or got.deadline_hit
            await asyncio.sleep(0)
            assert repr(wire).count("open=0") + repr(wire).count("open=1") == 1
        await wire.close()
        assert "open=0" in repr(wire)


async def test_closing_ends_what_is_in_flight() -> None:
    async with raw_server((script.Request(), script.Hang())) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        async with asyncio.TaskGroup() as tasks:
            flight = tasks.create_task(ask(wire, deadline_s=5))
            await asyncio.sleep(0.05)
            await wire.close()
        assert flight.result().fault is not None
        assert flight.result().fault.kind is FaultClass.LOCAL
        await server.all_closed()
        after = await ask(wire)
        assert after.fault is not None
        assert after.fault.kind is FaultClass.LOCAL


# keep-alive


async def test_a_connection_is_reused() -> None:
    async with raw_server((*ONE, *ONE, *ONE)) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        seen = [await ask(wire) for _ in range(3)]
        await wire.close()
        assert len(server.connections) == 1
    assert [got.reused for got in seen] == [False, True, True]
    assert seen[1].phases.connect_s is None


@pytest.mark.parametrize(
    "answer",
    [
        CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1),
        SIZED.replace(b"1.1", b"1.0"),
        SIZED + b"HTTP/1.1 200 OK\r\n",
        SIZED + b"garbage",
    ],
    ids=["connection: close", "HTTP/1.0", "a second answer", "garbage behind"],
)
async def test_a_connection_that_cannot_serve_again_is_closed(answer: bytes) -> None:
    async with raw_server((script.Request(), script.Send(answer))) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        assert (await ask(wire)).whole
        await server.all_closed()
        assert not (await ask(wire)).reused
        await wire.close()


@pytest.mark.parametrize("end", [script.Close(), script.Reset()])
async def test_one_silent_retry_when_a_reused_connection_dies_before_the_answer(end: script.Step) -> None:
    async with raw_server((*ONE, script.Request(), end), (script.Wait(0.03), *ONE)) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        await ask(wire)
        ear = Ear()
        got = await ask(wire, ear)
        assert got.whole
        assert not got.reused
        assert len(ear.heads) == 1
        assert len(server.connections) == 2
        assert got.phases.first_byte_s is not None
        assert got.phases.first_byte_s >= 0.025  # counted from the original start
        await wire.close()


async def test_only_one_retry() -> None:
    async with raw_server((*ONE, script.Request(), script.Close()), (script.Request(), script.Close())) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        await ask(wire)
        got = await ask(wire)
        assert got.fault is not None
        assert got.fault.kind is FaultClass.CLOSED
        assert len(server.connections) == 2
        await wire.close()


async def test_no_retry_once_a_byte_of_the_answer_came() -> None:
    async with raw_server((*ONE, script.Request(), script.Send(b"H"), script.Close())) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        await ask(wire)
        got = await ask(wire)
        assert got.fault is not None
        assert got.fault.kind is FaultClass.CLOSED
        assert got.reused
        assert len(server.connections) == 1
        await wire.close()


async def test_no_retry_after_a_deadline() -> None:
    async with raw_server((*ONE, script.Request(), script.Hang())) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        await ask(wire)
        got = await ask(wire, deadline_s=0.05)
        assert got.deadline_hit
        assert got.reused
        await server.all_closed()
        assert len(server.connections) == 1


@pytest.mark.parametrize("idle_step", [script.Close(), script.Send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")])
async def test_an_idle_connection_that_the_server_ends_is_dropped_at_once(idle_step: script.Step) -> None:
    async with raw_server((*ONE, script.Wait(0.03), idle_step), ONE) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        await ask(wire)
        assert "open=1" in repr(wire)
        await until(lambda: "open=0" in repr(wire))
        assert not (await ask(wire)).reused
        await wire.close()


async def test_exchanges_may_overlap_and_one_connection_is_kept() -> None:
    async with raw_server((script.Request(), script.Wait(0.03), script.Send(CHUNKED))) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        async with asyncio.TaskGroup() as tasks:
            flights = [tasks.create_task(ask(wire)) for _ in range(3)]
        assert all(flight.result().whole for flight in flights)
        assert len(server.connections) == 3
        await until(lambda: server.open_connections == 1)
        assert "open=1" in repr(wire)
        await wire.close()
