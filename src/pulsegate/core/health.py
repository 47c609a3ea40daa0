"""The state machine of one endpoint."""

from enum import StrEnum


class State(StrEnum):
    """What an endpoint is, as far as routing goes."""

    WARMING = "warming"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    MISCONFIGURED = "misconfigured"
    DRAINING = "draining"


class Reason(StrEnum):
    """Why it is in that state."""

    STARTING = "starting"  # warming: no three fast tokens yet
    LOADING = "loading"  # warming: the engine says that it is loading
    SLEEPING = "sleeping"  # warming: put to sleep on purpose
    OK = "ok"
    SLOW = "slow"
    CONGESTED = "congested"
    TIMEOUT = "timeout"
    BUSY = "busy"
    HUNG = "hung"
    CUDA = "cuda"
    ENGINE_DEAD = "engine_dead"
    ERROR = "error"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    PROTOCOL = "protocol"
    WRONG_OUTPUT = "wrong_output"
    STALLED = "stalled"  # first tokens come, later ones do not
    RECOVERING = "recovering"
    STARTUP_DEADLINE = "startup_deadline"
    AUTH = "auth"
    BILLING = "billing"
    NOT_FOUND = "not_found"
    REJECTED = "rejected"
    OPERATOR = "operator"  # draining
