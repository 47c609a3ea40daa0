"""Where a Redis is: one server, a Unix socket, what Sentinels look after, or a cluster."""

import re
from typing import Annotated
from urllib.parse import unquote

from pydantic import BeforeValidator

from pulsegate.config.address import listen
from pulsegate.config.units import rejected
from pulsegate.core.coordination import RedisAddress, RedisKind, RedisSpec
from pulsegate.core.fleet import TlsSpec

_KINDS = {
    "redis": RedisKind.SERVER,
    "rediss": RedisKind.SERVER,
    "redis+sentinel": RedisKind.SENTINEL,
    "rediss+sentinel": RedisKind.SENTINEL,
    "redis+cluster": RedisKind.CLUSTER,
    "rediss+cluster": RedisKind.CLUSTER,
}
_PORTS = {RedisKind.SERVER: 6379, RedisKind.SENTINEL: 26379, RedisKind.CLUSTER: 6379}
_EXAMPLE = "write for example redis://10.0.0.5:6379"
_KNOWN = f"use one of {', '.join(f'{scheme}://' for scheme in _KINDS)} or unix:///path/to.sock"
_SERVICE = re.compile(r"[A-Za-z0-9._-]+")
_MAX_DB = 65535


def redis_url(value: object) -> RedisSpec:
    """A URL with everything that it may say.

    ``redis://[user[:password]@]host[:port][/db]``, ``rediss://`` with TLS, ``unix:///path/to.sock``,
    ``redis+sentinel://host[:port],host[:port]/service[/db]``, ``redis+cluster://host[:port],host[:port]``.
    """
    if not isinstance(value, str) or not value or re.search(r"[\s\x00-\x1f\x7f]", value):
        raise rejected("is not a URL", _EXAMPLE)
    scheme, separator, rest = value.partition("://")
    if not separator:
        raise rejected("has no scheme", _KNOWN)
    if scheme == "unix":
        return _unix(rest)
    kind = _KINDS.get(scheme)
    if kind is None:
        raise rejected("has a scheme that is not known", _KNOWN)
    if "?" in rest or "#" in rest:
        raise rejected("holds a query or a fragment", "remove it, and escape ? as %3F and # as %23 in a password")
    credentials, _, rest = rest.rpartition("@")
    if "/" in credentials or "@" in credentials:
        raise rejected("holds a / or @ among user and password", "escape / as %2F and @ as %40")
    hosts, _, path = rest.partition("/")
    username, _, password = credentials.partition(":")
    service, db = _path(kind, path)
    return RedisSpec(
        kind=kind,
        addresses=_addresses(kind, hosts),
        service=service,
        db=db,
        username=unquote(username) or None,
        password=unquote(password) or None,
        tls=TlsSpec() if scheme.startswith("rediss") else None,
    )


def _unix(rest: str) -> RedisSpec:
    if not rest.startswith("/") or rest.endswith("/"):
        raise rejected("needs the absolute path of a socket", "write unix:///path/to.sock")
    if "?" in rest:
        raise rejected("holds a query", "remove everything from the ? on")
    return RedisSpec(unix_path=unquote(rest))


def _addresses(kind: RedisKind, hosts: str) -> tuple[RedisAddress, ...]:
    if not hosts:
        raise rejected("names no host", _EXAMPLE)
    found = tuple(_address(host, _PORTS[kind]) for host in hosts.split(","))
    if kind is RedisKind.SERVER and len(found) > 1:
        raise rejected("names several servers", "use redis+sentinel:// or redis+cluster:// if that is what they are")
    return found


def _address(host: str, default_port: int) -> RedisAddress:
    has_port = re.search(r":\d*\Z", host) is not None and not host.endswith("]")
    where = listen(host if has_port else f"{host}:{default_port}")
    if where.port == 0:
        raise rejected("has a port out of range (1 to 65535)")
    return RedisAddress(where.host, where.port)


def _path(kind: RedisKind, path: str) -> tuple[str, int]:
    """The service of Sentinels and the number of the database."""
    service = ""
    if kind is RedisKind.SENTINEL:
        service, _, path = path.partition("/")
        if not _SERVICE.fullmatch(service):
            raise rejected("names no service", "write redis+sentinel://host1,host2/mymaster")
    if not path:
        return service, 0
    if kind is RedisKind.CLUSTER:
        raise rejected("names a database, and clusters have one only", "remove everything from the / on")
    if not path.isdecimal() or int(path) > _MAX_DB:
        raise rejected("has a database that is not a number", "write for example redis://10.0.0.5:6379/0")
    return service, int(path)


RedisUrl = Annotated[RedisSpec, BeforeValidator(redis_url)]
