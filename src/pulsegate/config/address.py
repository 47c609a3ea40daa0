"""Where things are: URLs of endpoints and providers, addresses to listen on.

Says what is wrong with an address without looking anything up: whether a name resolves is not a matter of
configuration.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator

from pulsegate.config.units import rejected

_DEFAULT_PORT = {"http": 80, "https": 443}
_MAX_PORT = 65535
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*\.?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOOKS_LIKE_HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d+)?(?:/.*)?")
_MAX_SOCKET_PATH = 107  # sun_path of Linux, without its closing NUL


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A server's address: ``text`` is the normal form, ``host:port`` and ``base_path`` its parts.

    For a Unix socket ``host`` is empty, ``port`` 0 and ``socket_path`` set.
    """

    text: str
    host: str
    port: int
    base_path: str
    socket_path: str | None = None

    @property
    def default_id(self) -> str:
        """How an endpoint there is called when the operator gives no id."""
        if self.socket_path is not None:
            return "unix:" + self.socket_path.strip("/").replace("/", "-")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" + self.base_path.replace("/", "-")

    @property
    def is_tls(self) -> bool:
        """Whether the server is spoken to over TLS."""
        return self.text.startswith("https:")


@dataclass(frozen=True, slots=True)
class Listen:
    """An address to listen on; port 0 takes a free one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoint_url(value: object) -> HttpUrl:
    """``http(s)://host[:port][/base/path]`` or ``unix:/path/to.sock[:/base/path]``."""
    text = _url_text(value, "http://10.0.0.11:8000")
    if text.startswith("unix:"):
        return _unix_url(text)
    return _http_url(text, also=" or unix:/path/to.sock")


def provider_url(value: object) -> HttpUrl:
    """``http(s)://host[:port][/base/path]``."""
    return _http_url(_url_text(value, "https://api.deepseek.com/v1"), also="")


def listen(value: object) -> Listen:
    """``127.0.0.1:8080``, ``[::1]:8080``, ``localhost:8080``."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise rejected("names no host", f"write 127.0.0.1:{value} for this machine only, 0.0.0.0:{value} for all")
    if not isinstance(value, str):
        raise rejected("must be an address", "write host:port, e.g. 127.0.0.1:8080")
    if "://" in value:
        raise rejected("is a URL, not an address", "write host:port without a scheme")
    host, colon, port = value.rpartition(":")
    if colon and not host and port.isdecimal():
        raise rejected("names no host", f"write 127.0.0.1{value} for this machine only, 0.0.0.0{value} for all")
    if not colon or not port.isdecimal():
        raise rejected("has no port", "write host:port, e.g. 127.0.0.1:8080")
    if int(port) > _MAX_PORT:
        raise rejected(f"has a port out of range (0 to {_MAX_PORT})")
    return Listen(_host(host), int(port))


def _url_text(value: object, example: str) -> str:
    if not isinstance(value, str):
        raise rejected("must be a URL", f"write for example {example}")
    if not value or re.search(r"[\s\x00-\x1f\x7f]", value):
        raise rejected("is empty or holds a space or control character", f"write for example {example}")
    return value


def _unix_url(text: str) -> HttpUrl:
    path, _, base_path = re.sub(r"^unix:(?://(?=/))?", "", text).partition(":")
    if not path.startswith("/") or path.endswith("/"):
        raise rejected("needs the absolute path of a socket", "write unix:/path/to.sock")
    if base_path and not base_path.startswith("/"):
        raise rejected("has a base path that does not begin with /", "write unix:/path/to.sock:/base/path")
    if len(path.encode()) > _MAX_SOCKET_PATH:
        raise rejected(f"has a socket path of more than {_MAX_SOCKET_PATH} bytes, which the system does not take")
    base_path = base_path.rstrip("/")
    normal = f"unix:{path}:{base_path}" if base_path else f"unix:{path}"
    return HttpUrl(normal, host="", port=0, base_path=base_path, socket_path=path)


def _http_url(text: str, also: str) -> HttpUrl:
    scheme = _SCHEME.match(text)
    if "://" not in text and _LOOKS_LIKE_HOST.fullmatch(text):
        raise rejected("has no scheme", "put http:// or https:// in front")
    if scheme is None or scheme[1].lower() not in _DEFAULT_PORT:
        found = f"has the scheme {scheme[1]}" if scheme else "has no scheme"
        raise rejected(found, f"use http:// or https://{also}")
    if not text[scheme.end() :].startswith("//"):
        raise rejected(f"lacks the // after {scheme[1]}:", f"write {scheme[1]}://host:port")
    if re.match(r"//[0-9A-Fa-f]*:[0-9A-Fa-f]*:", text[scheme.end() :]):
        raise rejected("has an IPv6 address without brackets", "write for example http://[::1]:8000")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as exc:
        if "ort" in str(exc):
            raise rejected(f"has a port that is not a number from 1 to {_MAX_PORT}") from exc
        raise rejected("has a host that cannot be read", "put IPv6 addresses in brackets: http://[::1]:8000") from exc
    _refuse_extras(parts)
    if port == 0:
        raise rejected(f"has a port that is not a number from 1 to {_MAX_PORT}")
    return _normal(parts, port)


def _refuse_extras(parts: SplitResult) -> None:
    if parts.username is not None or parts.password is not None:
        raise rejected("holds credentials, which end up in logs", "remove them and set `api_key` or `headers`")
    if parts.query:
        raise rejected("holds a query", "remove everything from the ? on")
    if parts.fragment:
        raise rejected("holds a fragment", "remove everything from the # on")
    if not parts.hostname:
        raise rejected("names no host", f"write {parts.scheme}://host:port")


def _normal(parts: SplitResult, port: int | None) -> HttpUrl:
    host = _host(f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or "")
    base_path = parts.path.rstrip("/")
    in_url = f"[{host}]" if ":" in host else host
    number = _DEFAULT_PORT[parts.scheme] if port is None else port
    return HttpUrl(f"{parts.scheme}://{in_url}:{number}{base_path}", host, number, base_path)


def _host(text: str) -> str:
    """A host name or IP address; IPv6 comes in brackets and leaves without."""
    if text.startswith("[") and text.endswith("]"):
        try:
            return str(IPv6Address(text[1:-1]))
        except ValueError as exc:
            raise rejected("has an IPv6 address that cannot be read") from exc
    if ":" in text:
        raise rejected("has a colon too many", "put IPv6 addresses in brackets: [::1]:8080")
    if re.fullmatch(r"[\d.]+", text):
        try:
            return str(ip_address(text))
        except ValueError as exc:
            raise rejected("has an IPv4 address that cannot be read", "write four numbers from 0 to 255") from exc
    if not _HOST.fullmatch(text):
        raise rejected("has a host name that cannot be read", "use letters, digits, dots and hyphens")
    return text.lower()


EndpointUrl = Annotated[HttpUrl, BeforeValidator(endpoint_url)]
ProviderUrl = Annotated[HttpUrl, BeforeValidator(provider_url)]
ListenAddress = Annotated[Listen, BeforeValidator(listen)]
