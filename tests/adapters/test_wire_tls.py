import asyncio
import dataclasses
import os
import socket
import ssl
from pathlib import Path

import pytest

from pulsegate.core.fleet import TlsSpec
from pulsegate.core.probe import FaultClass
from pulsegate.engines.exchange import Exchange
from pulsegate.engines.trust import client_context
from support import raw_server as script
from support.certificates import Authority, Pair
from support.raw_server import RawServer, raw_server
from support.wire_listener import Ear, ask, wire_to

ONE = (
    script.Request(),
    script.Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nTOKEN\r\n"),
    script.Send(b"0\r\n\r\n"),
)


@dataclasses.dataclass(frozen=True)
class Certificates:
    ca_file: str
    good: Pair
    expired: Pair
    elsewhere: Pair
    client: Pair
    locked: Pair
    stranger: Pair


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    ours = Authority(folder)
    return Certificates(
        ca_file=str(ours.ca_file),
        good=ours.issue("good"),
        expired=ours.issue("expired", expired=True),
        elsewhere=ours.issue("elsewhere", hosts=("engine.internal",), addresses=("10.9.9.9",)),
        client=ours.issue("client"),
        locked=ours.issue("locked", password=b"pw"),
        stranger=Authority(folder, "other ca").issue("stranger"),
    )


async def meet(server: RawServer, tls: TlsSpec | None, scheme: str = "https", deadline_s: float = 10.0) -> Exchange:
    wire = wire_to(f"{scheme}://127.0.0.1:{server.port}", tls=tls)
    got = await ask(wire, Ear(), deadline_s=deadline_s)
    await wire.close()
    await server.all_closed()
    assert "open=0" in repr(wire)
    return got


def tls_detail(got: Exchange) -> str:
    assert got.fault is not None
    assert got.fault.kind is FaultClass.TLS
    assert got.phases.connect_s is not None or "use https" in got.fault.detail
    return got.fault.detail


async def test_a_private_ca(certs: Certificates) -> None:
    async with raw_server((*ONE, *ONE), tls=certs.good.server_context()) as server:
        wire = wire_to(f"https://127.0.0.1:{server.port}", tls=TlsSpec(ca_file=certs.ca_file))
        first = await ask(wire)
        second = await ask(wire)
        await wire.close()
    assert first.whole
    assert first.phases.connect_s is not None
    assert first.phases.tls_s is not None
    assert first.phases.tls_s > first.phases.connect_s
    assert second.whole
    assert second.reused
    assert second.phases.tls_s is None


async def test_a_stream_is_left_and_a_deadline_kept_over_tls_too(certs: Certificates) -> None:
    spec = TlsSpec(ca_file=certs.ca_file)
    async with raw_server((*ONE[:2], script.Hang()), tls=certs.good.server_context()) as server:
        assert (await meet(server, spec)).left
    async with raw_server((script.Request(), script.Hang()), tls=certs.good.server_context()) as server:
        assert (await meet(server, spec, deadline_s=0.2)).deadline_hit


async def test_an_expired_certificate(certs: Certificates) -> None:
    async with raw_server(ONE, tls=certs.expired.server_context()) as server:
        assert "expired" in tls_detail(await meet(server, TlsSpec(ca_file=certs.ca_file)))


async def test_an_unknown_authority(certs: Certificates) -> None:
    async with raw_server(ONE, tls=certs.stranger.server_context()) as server:
        assert "certificate not accepted" in tls_detail(await meet(server, TlsSpec(ca_file=certs.ca_file)))
        assert "certificate not accepted" in tls_detail(await meet(server, None))


async def test_a_certificate_for_another_name(certs: Certificates) -> None:
    async with raw_server(ONE, tls=certs.elsewhere.server_context()) as server:
        assert "mismatch" in tls_detail(await meet(server, TlsSpec(ca_file=certs.ca_file)))
        named = TlsSpec(ca_file=certs.ca_file, server_name="engine.internal")
        assert (await meet(server, named)).whole


async def test_without_verification_anyone_will_do(certs: Certificates) -> None:
    for pair in (certs.expired, certs.stranger, certs.elsewhere):
        async with raw_server(ONE, tls=pair.server_context()) as server:
            assert (await meet(server, TlsSpec(verify=False))).whole


async def test_a_client_certificate(certs: Certificates) -> None:
    context = certs.good.server_context(client_ca=Path(certs.ca_file))
    spec = TlsSpec(ca_file=certs.ca_file, cert_file=str(certs.client.cert_file), key_file=str(certs.client.key_file))
    async with raw_server(ONE, tls=context) as server:
        assert (await meet(server, spec)).whole


async def test_a_client_certificate_is_missing_with_tls_1_3(certs: Certificates) -> None:
    """The server's alert only comes after the client's side of the handshake is done: read as an answer."""
    context = certs.good.server_context(client_ca=Path(certs.ca_file))
    with socket.create_server(("127.0.0.1", 0)) as listener:  # asyncio's own servers close without the alert

        def accept_one() -> None:
            sock, _ = listener.accept()
            with context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False) as tls:
                with pytest.raises(ssl.SSLError):
                    tls.do_handshake()
                while os.read(tls.fileno(), 65536):  # closing with bytes unread would be a reset
                    pass

        refused = asyncio.get_running_loop().run_in_executor(None, accept_one)
        wire = wire_to(f"https://127.0.0.1:{listener.getsockname()[1]}", tls=TlsSpec(ca_file=certs.ca_file))
        got = await ask(wire)
        await refused
        await wire.close()
    assert "CERTIFICATE_REQUIRED" in tls_detail(got)


async def test_a_client_certificate_is_missing_with_tls_1_2(certs: Certificates) -> None:
    context = certs.good.server_context(client_ca=Path(certs.ca_file))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    async with raw_server(ONE, tls=context) as server:
        tls_detail(await meet(server, TlsSpec(ca_file=certs.ca_file)))


async def test_https_to_a_plain_server() -> None:
    bad_request = script.Send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    async with raw_server((script.Wait(0.02), bad_request, script.Hang())) as server:
        assert tls_detail(await meet(server, None)) == "the server does not speak TLS: use http://"


@pytest.mark.parametrize("end", [script.Close(), script.Reset()])
async def test_a_server_that_closes_during_the_handshake(end: script.Step) -> None:
    async with raw_server((script.Wait(0.02), end)) as server:
        assert "closed the connection during the handshake" in tls_detail(await meet(server, None))


async def test_a_server_that_speaks_first(certs: Certificates) -> None:
    async with raw_server((script.Send(b"SSH-2.0-OpenSSH\r\n"), script.Hang())) as server:
        tls_detail(await meet(server, TlsSpec(ca_file=certs.ca_file)))


async def test_a_handshake_that_hangs_is_late_not_misconfigured() -> None:
    async with raw_server((script.Hang(),)) as server:
        got = await meet(server, None, deadline_s=0.1)
    assert got.deadline_hit
    assert got.fault is None
    assert got.phases.connect_s is not None
    assert got.phases.tls_s is None


async def test_http_to_a_tls_server(certs: Certificates) -> None:
    alert = bytes.fromhex("15030100020246")  # what OpenSSL, Go and rustls send: a fatal alert record
    async with raw_server((script.Request(), script.Send(alert), script.Close())) as server:
        assert tls_detail(await meet(server, None, scheme="http")) == "the server speaks TLS: use https://"
    async with raw_server(ONE, tls=certs.good.server_context()) as server:
        got = await meet(server, None, scheme="http")
    assert got.fault is not None
    assert got.fault.kind in (FaultClass.TLS, FaultClass.CLOSED)  # Python's own server only closes


@pytest.mark.parametrize("part", ["ca_file", "cert_file", "encrypted key", "not pem", "wrong key"])
async def test_our_own_files_are_our_own_fault(certs: Certificates, part: str, tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    client, locked = certs.client, certs.locked
    spec = {
        "ca_file": TlsSpec(ca_file=str(tmp_path / "none.pem")),
        "cert_file": TlsSpec(ca_file=certs.ca_file, cert_file=str(tmp_path / "none.pem")),
        "encrypted key": TlsSpec(cert_file=str(locked.cert_file), key_file=str(locked.key_file)),
        "not pem": TlsSpec(ca_file=str(junk)),
        "wrong key": TlsSpec(cert_file=str(client.cert_file), key_file=str(certs.good.key_file)),
    }[part]
    async with raw_server(ONE, tls=certs.good.server_context()) as server:
        got = await meet(server, spec)
    assert got.fault is not None
    assert got.fault.kind is FaultClass.LOCAL
    assert "TLS files" in got.fault.detail


def test_contexts_are_shared_and_renewed_with_their_files(certs: Certificates, tmp_path: Path) -> None:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(Path(certs.ca_file).read_bytes())
    spec = TlsSpec(ca_file=str(ca_file))
    first = client_context(spec)
    assert client_context(dataclasses.replace(spec)) is first
    os.utime(ca_file, ns=(1, 1))
    assert client_context(spec) is not first
