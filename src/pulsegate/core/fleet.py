"""What there is to watch and to route to: endpoints, pools, thresholds. Built by ``config/``, read by everyone."""

from dataclasses import dataclass, field
from enum import StrEnum

from pulsegate.core.ids import EndpointId, PoolName


class EngineName(StrEnum):
    """The dialects that Pulsegate speaks; AUTO finds out."""

    AUTO = "auto"
    VLLM = "vllm"
    SGLANG = "sglang"
    TGI = "tgi"
    TRTLLM = "trtllm"
    TRITON = "triton"
    LLAMACPP = "llamacpp"
    OLLAMA = "ollama"
    LMDEPLOY = "lmdeploy"
    OPENAI = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec:
    """How to trust a server: a private CA, a client certificate, a server name; ``verify`` False trusts anyone."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSpec:
    """One inference server process.

    ``url`` is ``http(s)://host:port/base/path`` or ``unix:/path/to.sock[:/base/path]``. ``model`` is the name to ask
    the server for; None asks the server which one it serves. ``headers`` and ``api_key`` are secrets.
    ``dp_rank`` pins one rank of a data-parallel server.
    """

    id: EndpointId
    pool: PoolName
    url: str
    engine: EngineName = EngineName.AUTO
    model: str | None = None
    api_key: str | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: TlsSpec | None = None
    dp_rank: int | None = None
    weight: int = 100
    max_inflight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePolicy:
    """When to probe and how to judge; the defaults are those of the mission's tables. Times in seconds."""

    interval_s: float = 3.0
    jitter: float = 0.1  # share of the interval, earlier or later
    healthy_ttft_s: float = 0.2
    congested_ttft_s: float = 0.3
    timeout_s: float = 0.8
    rise: int = 3
    fall: int = 2
    startup_deadline_s: float = 1800.0
    deep_interval_s: float = 60.0
    deep_timeout_s: float = 5.0  # by when a deep probe must have all its tokens
    busy_interval_s: float = 20.0  # the interval while tokens flow to users or the engine is busy
    auto_ttft: bool = False  # learn a baseline; thresholds become max(absolute, 3 x learned median)
    frozen_after_s: float = 1.5  # counters unchanged that long, with work to do, are frozen
    lag_share: float = 0.2  # of the deadline; a result measured while our loop was later than that is LOCAL
    expect: str | None = None  # a regular expression that a right answer matches


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectionPolicy:
    """How much of a pool may be taken out and how it comes back. Times in seconds."""

    max_ejection_percent: int = 50
    hold_off_s: float = 10.0
    hold_off_max_s: float = 300.0
    flap_window_s: float = 600.0
    slow_start_s: float = 30.0
    slow_start_from_percent: int = 10
    degraded_weight_percent: int = 30
    degraded_max_inflight: int = 4  # new concurrent requests that a degraded endpoint may hold
    suspect_network_windows: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """The endpoints behind one public model name and how they are judged."""

    name: PoolName
    endpoints: tuple[EndpointSpec, ...]
    probe: ProbePolicy = ProbePolicy()
    ejection: EjectionPolicy = EjectionPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteSpec:
    """A public model name and the pools that may serve it, in order: its own first, then the fallbacks.

    The models of providers are pools here, too, of a kind that is not probed.
    """

    name: str
    tiers: tuple[PoolName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSpec:
    """A hosted provider, as far as it can be pinged: one endpoint per key, whose id is the key's name.

    ``configured``: it has what it takes to be asked. ``ping_interval_s`` 0: only when somebody asks for it.
    """

    name: str
    keys: tuple[EndpointSpec, ...]
    configured: bool = True
    ping_interval_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All pools and routes of one configuration."""

    pools: tuple[PoolSpec, ...]
    routes: tuple[RouteSpec, ...]
