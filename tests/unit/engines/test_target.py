import pytest

from pulsegate.core.fleet import EndpointSpec, TlsSpec
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.engines.target import Target, parse_target

SECRET = "s3cr3t-value"


def target_of(
    url: str, *, api_key: str | None = None, headers: tuple[tuple[str, str], ...] = (), tls: TlsSpec | None = None
) -> Target:
    return parse_target(
        EndpointSpec(id=EndpointId("gpu-7"), pool=PoolName("p"), url=url, api_key=api_key, headers=headers, tls=tls)
    )


@pytest.mark.parametrize(
    ("url", "host", "port", "base_path", "host_header"),
    [
        ("http://10.0.0.11:8000", "10.0.0.11", 8000, "", "10.0.0.11:8000"),
        ("http://10.0.0.11:8000/", "10.0.0.11", 8000, "", "10.0.0.11:8000"),
        ("http://engine", "engine", 80, "", "engine"),
        ("http://engine:80", "engine", 80, "", "engine"),
        ("https://engine", "engine", 443, "", "engine"),
        ("https://engine:8443/a/b/", "engine", 8443, "/a/b", "engine:8443"),
        ("http://engine:8000/v1", "engine", 8000, "", "engine:8000"),
        ("http://engine:8000/team/v1/", "engine", 8000, "/team", "engine:8000"),
        ("http://engine/team/v12", "engine", 80, "/team/v12", "engine"),
        ("HTTP://Engine.Example.:8000", "engine.example.", 8000, "", "engine.example.:8000"),
        ("http://[::1]:8000", "::1", 8000, "", "[::1]:8000"),
        ("http://[fe80::1%eth0]:8000", "fe80::1%eth0", 8000, "", "[fe80::1]:8000"),
        ("http://my_engine-0.svc:1", "my_engine-0.svc", 1, "", "my_engine-0.svc:1"),
    ],
)
def test_addresses(url: str, host: str, port: int, base_path: str, host_header: str) -> None:
    target = target_of(url)
    assert (target.host, target.port, target.base_path, target.host_header) == (host, port, base_path, host_header)
    assert target.unix_path is None
    assert (target.tls is not None) == url.startswith("https")


@pytest.mark.parametrize(
    ("url", "path", "base_path"),
    [
        ("unix:/run/engine.sock", "/run/engine.sock", ""),
        ("unix:///run/engine.sock", "/run/engine.sock", ""),
        ("unix:/run/engine.sock:/base/v1", "/run/engine.sock", "/base"),
        ("unix:/run/an engine.sock", "/run/an engine.sock", ""),
    ],
)
def test_unix_sockets(url: str, path: str, base_path: str) -> None:
    target = target_of(url)
    assert (target.unix_path, target.base_path, target.host_header) == (path, base_path, "localhost")


def test_literals_need_no_resolver() -> None:
    assert target_of("http://10.0.0.1").literal
    assert target_of("http://[::1]").literal
    assert not target_of("http://localhost").literal


def test_key_headers_and_host() -> None:
    target = target_of("http://e", api_key=SECRET, headers=(("Host", "virtual"), ("X-A", "1")))
    assert target.headers == (("X-A", "1"), ("Authorization", f"Bearer {SECRET}"))
    assert target.host_header == "virtual"
    assert SECRET not in repr(target)


def test_the_operators_own_authorization_counts() -> None:
    target = target_of("http://e", api_key="unused", headers=(("authorization", f"Basic {SECRET}"),))
    assert target.headers == (("authorization", f"Basic {SECRET}"),)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "must start with http://"),
        ("engine:8000", "must start with http://"),
        ("ftp://engine", "must start with http://"),
        ("http://", "names no valid host"),
        ("http:///path", "names no valid host"),
        ("http://:8000", "names no valid host"),
        ("http://a..b", "names no valid host"),
        ("http://-a", "names no valid host"),
        ("http://engine:port", "port"),
        ("http://engine:0", "port"),
        ("http://engine:65536", "port"),
        ("http://[::1", "cannot be read"),
        ("http://[zz]", "cannot be read"),
        (" http://engine", "a space"),
        ("http://engine/a\r\nb", "a space or a control"),
        ("http://engine/é", "percent-encoded"),
        (f"http://user:{SECRET}@engine", "use api_key or headers"),
        ("http://engine/?a=1", "query"),
        ("http://engine/#a", "query or fragment"),
        ("http://engine/a?", "query or fragment"),
        ("unix:engine.sock", "absolute path"),
        ("unix:", "absolute path"),
        ("unix:/a:base", "start with a slash"),
        (f"unix:/{'a' * 107}", "longer than 107 bytes"),
    ],
)
def test_what_is_wrong_with_an_address_is_said(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        target_of(url)
    assert str(raised.value).startswith("endpoint gpu-7: ")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (("X-A", f"{SECRET}\r\nEvil: 1"), "the value of header X-A holds a line break"),
        (("X A", SECRET), "invalid name"),
        (("", SECRET), "invalid name"),
        (("X-A", f"{SECRET}€"), "the value of header X-A"),
        (("Content-Length", "5"), "Content-Length is set by the prober itself"),
        (("connection", "close"), "connection is set by the prober itself"),
        (("Host", "a\r\nEvil: 1"), "the value of header Host"),
    ],
)
def test_headers_that_cannot_be_sent(header: tuple[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        target_of("http://e", headers=(header,))
    assert SECRET not in str(raised.value)


def test_a_key_that_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="the value of api_key holds a line break") as raised:
        target_of("http://e", api_key=f"{SECRET}\n")
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("url", ["http://e", "unix:/run/e.sock"])
def test_tls_without_https(url: str) -> None:
    with pytest.raises(ValueError, match="tls"):
        target_of(url, tls=TlsSpec())
