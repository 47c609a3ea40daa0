"""What one worker counted: running totals since it started, so that a lost batch loses nothing.

Histograms are counts per bucket (not cumulative), one more than there are bounds: the last one is for everything above.
msgspec carries these over a socket; ``export/`` makes Prometheus series of them and adds up the workers.
"""

from dataclasses import dataclass

from pulsegate.core.ids import EndpointId

TTFT_BOUNDS_S = (0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0)
GAP_BOUNDS_S = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
OWN_BOUNDS_S = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1)


@dataclass(slots=True, kw_only=True)
class Histogram:
    """Counts per bucket of one measure in seconds, and their sum."""

    counts: list[int]
    total_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class EndpointFigures:
    """One endpoint: attempts by how they ended, tokens, time to the first token, gap between tokens."""

    endpoint: EndpointId
    inflight: int = 0
    attempts: int = 0
    failures: dict[str, int]  # by FailureKind, and "stalled", "cut" after the first token
    tokens: int = 0  # relayed events that carried data; usage tells the true number per request
    ttft: Histogram
    gaps: Histogram


@dataclass(slots=True, kw_only=True)
class RouteFigures:
    """One public model name: requests by status, usage, how many were saved."""

    route: str
    requests: dict[int, int]  # by the status that the client got; 499 for a client that left before
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usage_missing: int = 0
    replays: dict[str, int]  # by cause
    hedges: int = 0
    rescued: int = 0  # requests that ended well although an attempt of theirs did not


@dataclass(slots=True, kw_only=True)
class WorkerFigures:
    """Everything that one worker counted. ``own`` is the time that a request spent inside the gateway itself."""

    connections: int
    in_flight: int
    retries_under_way: int
    refused: dict[str, int]  # requests that ended before routing, by error code
    endpoints: list[EndpointFigures]
    routes: list[RouteFigures]
    own: Histogram
