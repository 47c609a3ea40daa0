"""Where an endpoint is and how to address it: read once from its URL, headers and keys."""

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from pulsegate.core.fleet import EndpointSpec, TlsSpec
from pulsegate.engines.fields import is_field_name, is_field_value, is_path

_HOSTNAME = re.compile(r"(?=.{1,253}\.?$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")
_OWNED_BY_THE_WIRE = frozenset(
    {"connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "expect", "accept-encoding"}
)
_UNIX_PATH_BYTES = 107  # sun_path of Linux, without the closing zero


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parsed endpoint address.

    Attributes:
        host: a name or an IP literal without brackets; ``localhost`` behind a Unix socket.
        port: unused behind a Unix socket.
        unix_path: the socket's path, or None for TCP.
        tls: None for plain HTTP.
        base_path: empty or ``/like/this``; a closing ``/v1`` is dropped, because dialects name it in their paths.
        host_header: what goes into ``Host``.
        headers: the operator's headers and the key, with their secrets; never shown.
    """

    host: str
    port: int
    unix_path: str | None = None
    tls: TlsSpec | None = None
    base_path: str = ""
    host_header: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def literal(self) -> bool:
        """Whether the host is an IP address, so that no name has to be resolved."""
        return _is_ip(self.host)


def parse_target(spec: EndpointSpec) -> Target:
    """Read an endpoint's address.

    Raises:
        ValueError: names the endpoint, what is wrong and how to right it; never a secret.
    """
    try:
        headers = _headers(spec)
        host_header = next((value for name, value in headers if name.lower() == "host"), None)
        headers = tuple((name, value) for name, value in headers if name.lower() != "host")
        if spec.url.startswith("unix:"):
            return _unix_target(spec, headers, host_header)
        return _tcp_target(spec, headers, host_header)
    except ValueError as exc:
        raise ValueError(f"endpoint {spec.id}: {exc}") from exc


def _unix_target(spec: EndpointSpec, headers: tuple[tuple[str, str], ...], host_header: str | None) -> Target:
    if spec.tls is not None:
        raise ValueError("tls does not go with a unix: url; leave tls out")
    path, _, base = spec.url.removeprefix("unix:").partition(":")
    if path.startswith("//"):
        path = "/" + path.lstrip("/")
    if not path.startswith("/") or "\0" in path:
        raise ValueError("a unix: url needs an absolute path, such as unix:/run/engine.sock")
    if len(path.encode()) > _UNIX_PATH_BYTES:
        raise ValueError(f"the socket path is longer than {_UNIX_PATH_BYTES} bytes; use a shorter one")
    return Target(
        host="localhost",
        port=0,
        unix_path=path,
        base_path=_base_path(base),
        host_header=host_header or "localhost",
        headers=headers,
    )


def _tcp_target(spec: EndpointSpec, headers: tuple[tuple[str, str], ...], host_header: str | None) -> Target:
    parts = _split(spec.url)
    secure = parts.scheme == "https"
    if spec.tls is not None and not secure:
        raise ValueError("tls is given but the url says http://; write https://")
    host = parts.hostname or ""
    if not (_is_ip(host) or _HOSTNAME.fullmatch(host)):
        raise ValueError("the url names no valid host; write http://host:port")
    port = _port(parts)
    default_port = 443 if secure else 80
    shown = f"[{host.partition('%')[0]}]" if ":" in host else host
    return Target(
        host=host,
        port=port or default_port,
        tls=(spec.tls or TlsSpec()) if secure else None,
        base_path=_base_path(parts.path),
        host_header=host_header or (shown if port in (None, default_port) else f"{shown}:{port}"),
        headers=headers,
    )


def _split(url: str) -> SplitResult:
    if url != url.strip() or any(char <= " " or char == "\x7f" for char in url):
        raise ValueError("the url holds a space or a control character; remove it")
    try:
        parts = urlsplit(url)
    except ValueError as exc:
        raise ValueError("the url cannot be read; write http://host:port, IPv6 as http://[::1]:8000") from exc
    if parts.scheme not in ("http", "https"):
        raise ValueError("the url must start with http://, https:// or unix:/")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the url holds a user name or password; use api_key or headers instead")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("the url ends in a query or fragment; give only the base path")
    return parts


def _port(parts: SplitResult) -> int | None:
    try:
        port = parts.port
    except ValueError as exc:
        raise ValueError("the port of the url is not a number from 1 to 65535") from exc
    if port == 0:
        raise ValueError("the port of the url is not a number from 1 to 65535")
    return port


def _base_path(path: str) -> str:
    base = path.rstrip("/")
    if base and not base.startswith("/"):
        raise ValueError("the base path must start with a slash")
    if not is_path(base) or "?" in base:
        raise ValueError("the base path holds characters that must be percent-encoded")
    return base.removesuffix("/v1")


def _headers(spec: EndpointSpec) -> tuple[tuple[str, str], ...]:
    headers = spec.headers
    names = {name.lower() for name, _ in headers}
    if spec.api_key is not None and "authorization" not in names:
        headers = (*headers, ("Authorization", f"Bearer {spec.api_key}"))
    for name, value in headers:
        if not is_field_name(name):
            raise ValueError("a header has an invalid name; use letters, digits and dashes")
        if name.lower() in _OWNED_BY_THE_WIRE:
            raise ValueError(f"the header {name} is set by the prober itself; leave it out")
        if not is_field_value(value):
            what = "api_key" if name == "Authorization" and "authorization" not in names else f"header {name}"
            raise ValueError(f"the value of {what} holds a line break or a character that headers cannot carry")
    return headers


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
