import asyncio
import errno
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsegate.core.probe import Fault, FaultClass
from pulsegate.engines.exchange import Exchange, Limits
from support import raw_server as script
from support.raw_server import raw_server
from support.wire_listener import Ear, ask, wire_to

KEY = "sk-very-secret-key-0123456789"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
SMALL = Limits(header_bytes=4096, body_bytes=100_000)


def fault_of(got: Exchange, kind: FaultClass) -> Fault:
    assert got.fault is not None
    assert got.fault.kind is kind
    assert KEY not in got.fault.detail
    return got.fault


async def answered(*steps: script.Step, ear: Ear | None = None, limits: Limits = SMALL) -> Exchange:
    async with raw_server((script.Request(), *steps)) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}", api_key=KEY)
        got = await ask(wire, ear or Ear(), limits=limits)
        await server.all_closed()  # before the wire is closed: a fault closes the connection by itself
        assert "open=0" in repr(wire)
        await wire.close()
    return got


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


# no connection


async def test_nothing_listens() -> None:
    port = free_port()
    got = await ask(wire_to(f"http://127.0.0.1:{port}"))
    assert fault_of(got, FaultClass.REFUSED).detail == f"127.0.0.1:{port}: Connection refused (ECONNREFUSED)"
    assert not got.deadline_hit


async def test_no_such_socket(tmp_path: Path) -> None:
    got = await ask(wire_to(f"unix:{tmp_path}/none.sock"))
    assert "ENOENT" in fault_of(got, FaultClass.REFUSED).detail


async def test_a_socket_file_that_nobody_listens_on(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "dead.sock"))
    got = await ask(wire_to(f"unix:{tmp_path}/dead.sock"))
    assert "ECONNREFUSED" in fault_of(got, FaultClass.REFUSED).detail


async def test_a_name_that_does_not_resolve() -> None:
    got = await ask(wire_to("http://no-such-host.invalid:8000"), deadline_s=3)
    assert "no-such-host.invalid" in fault_of(got, FaultClass.UNREACHABLE).detail


async def test_a_host_that_does_not_answer() -> None:
    # a listening socket whose backlog is full lets the next connection wait, as a host that drops packets does
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.settimeout(0)
            assert filler.connect_ex(address) in (0, errno.EINPROGRESS)
            fillers.append(filler)
        await asyncio.sleep(0.02)
        got = await ask(wire_to(f"http://127.0.0.1:{address[1]}"), deadline_s=0.1)
        for filler in fillers:
            filler.close()
    assert "no connection in time" in fault_of(got, FaultClass.UNREACHABLE).detail
    assert got.deadline_hit
    assert got.phases.end_s is not None
    assert got.phases.end_s < 2


@contextmanager
def no_free_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as probe:
        next_free = probe.fileno()
    hogs: list[socket.socket] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_free + 1, hard))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            hogs.extend(iter(socket.socket, None))
        yield
    finally:
        for hog in hogs:
            hog.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_no_file_descriptors_are_our_own_fault() -> None:
    wire = wire_to(f"http://127.0.0.1:{free_port()}")
    with no_free_descriptors():
        got = await ask(wire)
    assert "EMFILE" in fault_of(got, FaultClass.LOCAL).detail


# the connection ends


@pytest.mark.parametrize("end", [script.Close(), script.Reset()])
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"HTTP/1.1 200",
        HEAD,
        HEAD + b"5\r\nTOK",
        HEAD + b"3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
    ],
)
async def test_an_answer_that_is_cut(begun: bytes, end: script.Step) -> None:
    ear = Ear()
    got = await answered(script.Send(begun), script.Wait(0.02), end, ear=ear)
    assert fault_of(got, FaultClass.CLOSED).status == got.status
    assert ear.ended_at_s is None


async def test_a_reset_cuts_even_a_body_without_length() -> None:
    got = await answered(script.Send(b"HTTP/1.1 200 OK\r\n\r\nabc"), script.Wait(0.02), script.Reset())
    fault_of(got, FaultClass.CLOSED)


# not HTTP, or not as asked


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80",  # HTTP/2 settings
        b"-ERR wrong number of arguments\r\n",
        b"\r\n\r\n\r\nhello",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        HEAD + b"zz\r\n",
        HEAD + b"5\r\nabcdefgh",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\nxx",
    ],
)
async def test_garbage(garbage: bytes) -> None:
    fault_of(await answered(script.Send(garbage), script.Hang()), FaultClass.PROTOCOL)


async def test_a_server_that_speaks_before_it_is_asked() -> None:
    async with raw_server((script.Send(b"SSH-2.0-OpenSSH_9.2\r\n"), script.Hang())) as server:
        fault_of(await ask(wire_to(f"http://127.0.0.1:{server.port}")), FaultClass.PROTOCOL)
        await server.all_closed()


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
async def test_redirects_are_not_followed_and_only_the_host_is_named(status: int) -> None:
    location = b"Location: https://user:pw@else.where:9/path?key=" + KEY.encode()
    async with raw_server(
        (script.Request(), script.Send(b"HTTP/1.1 %d Moved\r\n%s\r\n\r\n" % (status, location)))
    ) as server:
        got = await ask(wire_to(f"http://127.0.0.1:{server.port}"))
        await server.all_closed()
        assert len(server.connections) == 1
    fault = fault_of(got, FaultClass.REDIRECT)
    assert fault.status == status
    assert fault.detail.endswith("else.where")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        (b"/relative", "the same host"),
        (b"http://[bad", "an unreadable address"),
        (b"http://" + KEY.encode() + b"/", "***"),
        (b"http://a\x9b31mb/", "a 31mb"),
    ],
)
async def test_where_a_redirect_leads_is_shown_without_harm(location: bytes, shown: str) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    assert fault_of(await answered(script.Send(answer)), FaultClass.REDIRECT).detail.endswith(f"leads to {shown}")


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"identity, gzip", KEY.encode()])
async def test_a_packed_body_is_not_unpacked(coding: bytes) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + b"\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08"
    ear = Ear()
    got = await answered(script.Send(answer), script.Hang(), ear=ear)
    assert "packed" in fault_of(got, FaultClass.PROTOCOL).detail
    assert ear.body == b""


async def test_an_unknown_transfer_coding() -> None:
    got = await answered(script.Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), script.Hang())
    assert "gzip" in fault_of(got, FaultClass.PROTOCOL).detail


# limits


@pytest.mark.parametrize(
    "endless",
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-Pad: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 50),
        (b"HTTP/1.1 200 ", b"OK" * 500),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a" * 1000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50),
    ],
    ids=["headers", "status line", "one header", "interim answers"],
)
async def test_an_endless_head(endless: tuple[bytes, bytes]) -> None:
    start, more = endless
    got = await answered(script.Send(start), script.Flood(more))
    assert "the head of the answer is longer than 4096 bytes" in fault_of(got, FaultClass.PROTOCOL).detail
    assert got.bytes_read < 600_000


async def test_a_head_that_is_too_long_in_one_read() -> None:
    got = await answered(script.Send(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 5000 + b"\r\nContent-Length: 0\r\n\r\n"))
    assert "longer than 4096" in fault_of(got, FaultClass.PROTOCOL).detail


@pytest.mark.parametrize(
    ("start", "more"),
    [(HEAD + b"7fffffff\r\n", b"a" * 10_000), (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 10_000), (HEAD, b"1\r\na\r\n" * 500)],
)
async def test_an_endless_body(start: bytes, more: bytes) -> None:
    ear = Ear()
    got = await answered(script.Send(start), script.Flood(more), ear=ear)
    assert "the body is longer than 100000 bytes" in fault_of(got, FaultClass.PROTOCOL).detail
    assert len(ear.body) <= SMALL.body_bytes
    assert got.bytes_read < 1_500_000


@pytest.mark.parametrize("more", [b"X: aaaaaaaaaaaaaaaaaaaa\r\n" * 50, b"1;" + b"x" * 5000])
async def test_endless_framing(more: bytes) -> None:
    got = await answered(
        script.Send(HEAD + b"3\r\nabc\r\n" + (b"0\r\n" if more.startswith(b"X") else b"")), script.Flood(more)
    )
    assert "chunk sizes or trailers" in fault_of(got, FaultClass.PROTOCOL).detail


async def test_trailers_are_no_headers() -> None:
    async with raw_server((script.Request(), script.Send(HEAD + b"0\r\nX-Late: 1\r\n\r\n"))) as server:
        wire = wire_to(f"http://127.0.0.1:{server.port}")
        got = await ask(wire)
        await wire.close()
    assert got.whole
    assert "x-late" not in got.headers
