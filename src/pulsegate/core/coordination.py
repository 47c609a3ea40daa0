"""What the operator says about gateways that share their probes."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from pulsegate.core.fleet import TlsSpec
from pulsegate.core.sharding import Mode


class RedisKind(StrEnum):
    """What stands behind the addresses of a Redis."""

    SERVER = "server"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


class RedisAddress(NamedTuple):
    """Where a Redis, or a Sentinel, listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSpec:
    """The Redis (or Valkey) through which the members meet.

    ``addresses``: of the server, or of any of the Sentinels or of the cluster's nodes; empty with ``unix_path``.
    ``service``: what the Sentinels call it. ``tls``: None speaks plainly.
    """

    kind: RedisKind = RedisKind.SERVER
    addresses: tuple[RedisAddress, ...] = ()
    unix_path: str | None = None
    service: str = ""
    db: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: TlsSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinationSpec:
    """With whom this gateway shares its probes. ``redis``: None stays alone."""

    redis: RedisSpec | None = None
    fleet: str = "default"
    mode: Mode = Mode.SHARD
    heartbeat_s: float = 1.0
    member_timeout_s: float = 3.0
