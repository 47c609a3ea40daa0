"""What a worker needs to know before it can serve: built by the control process, sent as one message.

Plain frozen msgspec structs: ``msgspec.msgpack.encode(setup)`` and ``decode(data, type=Setup)`` round-trip. It holds
secrets (headers with keys): never log it. A new Setup replaces the old one as a whole; endpoints that stay keep their
connections. Times in seconds, sizes in bytes.
"""

import msgspec

from pulsegate.core.fleet import TlsSpec
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.money import Price


class EndpointSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Where an endpoint is and how to address it.

    Attributes:
        host: a name or an IP literal without brackets; ignored behind ``unix_path``.
        tls: None for plain HTTP.
        base_path: empty or ``/like/this``, without ``/v1``; the request's own path is appended.
        host_header: what goes into ``Host``.
        headers: sent with every request, keys included (``Authorization: Bearer ...``).
        model: what the engine calls the model; None leaves it to the snapshots, which know what the prober found.
        max_inflight: the operator's cap on requests that it may hold; None for no cap.
        api_path: what stands there for ``/v1`` of our own paths, base path included; None: ``base_path`` and ``/v1``.
        key: which of a provider's keys is sent (its name, not the key itself); None where there is no provider.
        idle_s: how long a connection may be kept unused; ``connect_timeout_s`` how long making one may take; None: as
            ``Limits`` say.
    """

    id: EndpointId
    host: str
    port: int
    unix_path: str | None = None
    tls: TlsSpec | None = None
    base_path: str = ""
    host_header: str
    headers: tuple[tuple[str, str], ...] = ()
    model: str | None = None
    max_inflight: int | None = None
    api_path: str | None = None
    key: str | None = None
    idle_s: float | None = None
    connect_timeout_s: float | None = None

    def __repr__(self) -> str:
        return f"EndpointSetup(id={self.id!r})"


class PoolSetup(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoints behind one pool and how patient we are with them.

    Attributes:
        ttft_deadline_s: streams: how long one attempt may take to its first token before it is replayed elsewhere.
        answer_deadline_s: without streaming: how long one attempt may take to its whole answer.
        itl_deadline_s: longest silence between two tokens of a stream; comments do not count.
        late_after_s: no first token after that long is reported as a stall, so that the endpoint is probed now.
        ask_usage: add ``stream_options.include_usage`` to streams that do not ask for it, and hide the extra chunk.
        forward_authorization: send the client's own Authorization on instead of ours (hosted providers with users'
            keys).
        provider: whose models these are, None for self-hosted ones; ``price`` is what they cost, None if nobody knows.
    """

    name: PoolName
    endpoints: tuple[EndpointSetup, ...]
    ttft_deadline_s: float = 30.0
    answer_deadline_s: float = 600.0
    itl_deadline_s: float = 30.0
    late_after_s: float = 0.5
    ask_usage: bool = True
    forward_authorization: bool = False
    provider: str | None = None
    price: Price | None = None


class LedgerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """Where attempts are written down, and what follows from it.

    Attributes:
        path: of the ledger; ``fsync``, ``fsync_interval_s``, ``rotate_bytes``, ``rotate_daily`` and ``time_zone`` say
            how it is written.
        refuses: paid calls are refused while it cannot be written.
        limited: paid calls ask the control process first.
    """

    path: str
    fsync: str = "interval"
    fsync_interval_s: float = 1.0
    rotate_bytes: int = 2**30
    rotate_daily: bool = False
    time_zone: str = "UTC"
    refuses: bool = True
    limited: bool = False


class ProviderSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A hosted provider. ``configured``: it has what it takes to be asked."""

    name: str
    configured: bool = True


class RouteSetup(msgspec.Struct, frozen=True, kw_only=True):
    """A public model name and the pools that may serve it, in order. Deadlines are those of the first pool."""

    name: str
    tiers: tuple[PoolName, ...]
    owned_by: str = "pulsegate"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What clients and endpoints may cost us."""

    header_bytes: int = 32 * 1024
    body_bytes: int = 32 * 1024 * 1024
    held_bytes: int = 64 * 1024 * 1024  # an answer without streaming is held back as a whole
    header_timeout_s: float = 10.0  # from the first byte of a request to the end of its headers
    body_timeout_s: float = 60.0  # longest silence within a body
    idle_timeout_s: float = 120.0  # keep-alive without a request
    send_timeout_s: float = 120.0  # a client that does not read while we have something for it
    connect_timeout_s: float = 2.0
    upstream_idle_s: float = 4.0  # below the 5 s of uvicorn, so that we close first
    upstream_idle_max: int = 256  # idle connections kept per endpoint
    connections: int = 20_000  # open client connections per worker
    total_deadline_s: float = 900.0  # all attempts of a request together
    max_attempts: int = 3
    retry_percent: int = 20
    retry_floor: int = 3


class ServerTls(msgspec.Struct, frozen=True, kw_only=True):
    """Certificate files for clients that come by TLS."""

    cert_file: str
    key_file: str
    client_ca_file: str | None = None


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker needs beside the listening socket and the first snapshot.

    Attributes:
        keys_file: hashed API keys (``gateway/keys.py`` says how it looks); None lets everyone in.
        response_headers: whether answers name the endpoint and the number of attempts.
        affinity_header: requests with the same value go to the same endpoint while it is well; None switches it off.
        affinity_user: whether the ``user`` field does the same.
        hedge: whether a request that waits on a suspect endpoint may be sent elsewhere too.
        access_log: a file path, ``-`` for standard output, None for none.
        ledger: None for none.
        drain_timeout_s: how long streams may go on after a drain was asked for.
    """

    pools: tuple[PoolSetup, ...]
    routes: tuple[RouteSetup, ...]
    providers: tuple[ProviderSetup, ...] = ()
    limits: Limits = Limits()
    tls: ServerTls | None = None
    keys_file: str | None = None
    response_headers: bool = True
    affinity_header: str | None = None
    affinity_user: bool = False
    hedge: bool = True
    access_log: str | None = None
    ledger: LedgerSetup | None = None
    drain_timeout_s: float = 30.0
