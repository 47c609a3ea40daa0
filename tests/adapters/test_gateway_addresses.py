"""TLS on both sides, Unix sockets, IPv6, names."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from pulsegate.core.fleet import TlsSpec
from pulsegate.core.ids import EndpointId
from pulsegate.gateway.server import Gateway
from pulsegate.gateway.setup import EndpointSetup, PoolSetup, ServerTls
from support import raw_server as script
from support.certificates import Authority
from support.gateways import (
    POOL,
    Client,
    ask_for,
    json_answer,
    pool,
    running,
    setup_of,
    stream_answer,
    under_way,
    until,
)
from support.raw_server import raw_server

ONE = (script.Request(), script.Send(json_answer()))


def at(**where: object) -> PoolSetup:
    fields = {"id": EndpointId("e"), "host": "localhost", "port": 0, "host_header": "engine", **where}
    return PoolSetup(name=POOL, endpoints=(EndpointSetup(**fields),))  # type: ignore[arg-type]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def test_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "engine.sock")
    async with raw_server(ONE, unix_path=path), running(setup_of(at(unix_path=path))) as run:
        assert (await run.ask(ask_for())).status == 200


async def test_no_unix_socket(tmp_path: Path) -> None:
    async with running(setup_of(at(unix_path=str(tmp_path / "none")))) as run:
        assert (await run.ask(ask_for())).status == 503
        assert run.gateway.figures().endpoints[0].failures == {"connect": 1}


@pytest.mark.parametrize(("host", "listen"), [("::1", "::1"), ("localhost", "127.0.0.1")])
async def test_ipv6_and_names(host: str, listen: str) -> None:
    async with raw_server(ONE, host=listen) as server, running(setup_of(at(host=host, port=server.port))) as run:
        assert (await run.ask(ask_for())).status == 200


async def test_a_name_that_does_not_exist() -> None:
    async with running(setup_of(at(host="no-such-host.invalid", port=80))) as run:
        assert (await run.ask(ask_for())).status == 503


async def test_tls_to_an_endpoint_with_a_private_ca_and_a_client_certificate(authority: Authority) -> None:
    server_side = authority.issue("server").server_context(authority.ca_file)
    mine = authority.issue("client")
    tls = TlsSpec(ca_file=str(authority.ca_file), cert_file=str(mine.cert_file), key_file=str(mine.key_file))
    stream = (script.Request(), script.Send(stream_answer("Hello")))
    async with (
        raw_server(ONE + stream, tls=server_side) as server,
        running(setup_of(at(port=server.port, tls=tls))) as run,
    ):
        assert (await run.ask(ask_for())).status == 200
        assert (await run.ask(ask_for(stream=True))).text == "Hello"
        assert len(server.connections) == 1


@pytest.mark.parametrize("expired", [False, True])
async def test_an_endpoint_that_is_not_trusted(authority: Authority, expired: bool) -> None:
    tls = TlsSpec(ca_file=str(authority.ca_file)) if expired else TlsSpec()
    async with (
        raw_server(ONE, tls=authority.issue("server", expired=expired).server_context()) as server,
        running(setup_of(at(port=server.port, tls=tls))) as run,
    ):
        assert (await run.ask(ask_for())).status == 503
        assert run.gateway.figures().endpoints[0].failures == {"connect": 1}


async def test_a_url_with_the_wrong_scheme_is_told_in_the_log(tmp_path: Path) -> None:
    plain = (script.Wait(0.02), script.Send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), script.Hang())
    alert = (script.Request(), script.Send(bytes.fromhex("15030100020246")), script.Close())
    for steps, tls, hint in (
        (plain, TlsSpec(verify=False), "the server does not speak TLS: use http://"),
        (alert, None, "the server speaks TLS: use https://"),
    ):
        log = tmp_path / "access.log"
        log.unlink(missing_ok=True)
        async with (
            raw_server(steps) as server,
            running(setup_of(at(port=server.port, tls=tls), access_log=str(log))) as run,
        ):
            assert (await run.ask(ask_for())).status in (502, 503)
            await run.idle()
        assert json.loads(log.read_text())["trouble"] == hint


async def test_trust_can_be_waived_and_names_given(authority: Authority) -> None:
    server_side = authority.issue("server", addresses=(), hosts=("engine.internal",)).server_context()
    for tls in (TlsSpec(verify=False), TlsSpec(ca_file=str(authority.ca_file), server_name="engine.internal")):
        async with raw_server(ONE, tls=server_side) as server, running(setup_of(at(port=server.port, tls=tls))) as run:
            assert (await run.ask(ask_for())).status == 200


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="endpoint e: its TLS files"):
        Gateway(setup_of(at(port=1, tls=TlsSpec(ca_file=str(tmp_path / "none")))), None)
    with pytest.raises(ValueError, match="TLS files"):
        Gateway(setup_of(pool(1), tls=ServerTls(cert_file="none.pem", key_file="none.key")), None)


async def test_clients_by_tls(authority: Authority) -> None:
    pair = authority.issue("gateway")
    client_tls = ssl.create_default_context(cafile=str(authority.ca_file))
    stream = (script.Request(), script.Send(stream_answer("Hel", "lo")))
    setup = {"tls": ServerTls(cert_file=str(pair.cert_file), key_file=str(pair.key_file))}
    async with (
        raw_server(ONE + stream) as server,
        running(setup_of(pool(server.port), **setup), client_tls=client_tls) as run,
        Client(run.port, client_tls) as client,
    ):
        assert (await client.ask(ask_for())).status == 200
        assert (await client.ask(ask_for(stream=True))).text == "Hello"
        assert (await run.ask(b"{")).status == 400
        async with Client(run.port) as plain:  # one that speaks no TLS is dropped
            assert not (await plain.raw(b"GET /health HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 2")


async def test_clients_by_tls_who_vanish(authority: Authority) -> None:
    pair = authority.issue("gateway")
    client_tls = ssl.create_default_context(cafile=str(authority.ca_file))
    setup = {"tls": ServerTls(cert_file=str(pair.cert_file), key_file=str(pair.key_file))}
    async with raw_server((script.Request(), script.Hang())) as server:
        async with running(setup_of(pool(server.port), **setup)) as run, Client(run.port, client_tls) as client:
            client.writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 17\r\n\r\n")
            client.writer.write(b'{"model":"small"}')
            await until(lambda: server.connections and server.connections[0].requests)
            client.writer.transport.abort()
            await run.idle()
        await server.all_closed()


async def test_a_client_that_is_still_shaking_hands_when_the_gateway_drains_is_served(authority: Authority) -> None:
    pair = authority.issue("gateway")
    client_tls = ssl.create_default_context(cafile=str(authority.ca_file))
    setup = {"tls": ServerTls(cert_file=str(pair.cert_file), key_file=str(pair.key_file))}
    async with (
        raw_server(ONE) as server,
        running(setup_of(pool(server.port), **setup)) as run,
        Client(run.port) as client,
    ):
        await asyncio.sleep(0.05)
        async with under_way(run.gateway.drain(5)) as draining:
            await asyncio.sleep(0.1)
            assert not draining.done(), "its worker would be gone"
            await client.writer.start_tls(client_tls, server_hostname="localhost")
            assert (await client.ask(ask_for())).status == 200
            assert await draining == 0


async def test_a_client_that_never_shakes_hands_holds_up_no_drain(authority: Authority) -> None:
    pair = authority.issue("gateway")
    setup = {"tls": ServerTls(cert_file=str(pair.cert_file), key_file=str(pair.key_file))}
    async with running(setup_of(pool(1), **setup)) as run, Client(run.port):
        await asyncio.sleep(0.05)
        async with asyncio.timeout(2):
            assert await run.gateway.drain(30) == 0
