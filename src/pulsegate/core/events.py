"""What can happen to the board, and what it asks for in return.

Times (``at``) are monotonic seconds. Every event about an endpoint names the incarnation that it was seen in: the board
drops what belongs to an earlier life.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pulsegate.core.fleet import Fleet
from pulsegate.core.health import Reason, State
from pulsegate.core.hearing import Verdict
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.probe import Counters, ProbeKind, ProbeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChanged:
    """A configuration was loaded; endpoints that stay keep their state."""

    at: float
    fleet: Fleet


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeLate:
    """No token at ``congested_ttft_s``; the probe goes on.

    ``lag_s``: the longest time that our own loop has stood still since the probe began.
    """

    at: float
    endpoint: EndpointId
    incarnation: Incarnation
    lag_s: float = 0.0


class ProbeDone(NamedTuple):
    """A probe ended."""

    at: float
    endpoint: EndpointId
    incarnation: Incarnation
    result: ProbeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CountersRead:
    """The engine's counters were read (or could not be: ``counters`` is None), always while a probe was in flight."""

    at: float
    endpoint: EndpointId
    incarnation: Incarnation
    counters: Counters | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSeen:
    """What a worker saw of users' requests at one endpoint since its last report.

    ``inflight`` is no difference but a level: the worker's own on its way here, that of all workers on the board.
    ``age_s``: how long ago the last of the tokens came, where the report was on its way for longer than usual.
    """

    at: float
    endpoint: EndpointId
    tokens: int = 0
    failures: int = 0
    stalls: int = 0
    inflight: int = 0
    age_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainAsked:
    """The operator takes an endpoint out (``drain`` True) or gives it back."""

    at: float
    endpoint: EndpointId
    drain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time passed: slow start, hold-off and deadlines move on."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DutiesChanged:
    """Other gateways probe the same fleet: what this one has to do from now on. Endpoints not named stay as they are.

    ``own``: probe them and judge. ``witness``: ask them at once, because their owner condemns them; one failure
    confirms it. ``rest``: others probe them. ``stretch``: every interval is that many times as long, because so many
    gateways cannot reach one another and each probes everything; ``shift`` moves our places in it away from theirs.
    """

    at: float
    own: tuple[EndpointId, ...] = ()
    witness: tuple[EndpointId, ...] = ()
    rest: tuple[EndpointId, ...] = ()
    stretch: int = 1
    shift: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictHeard:
    """Another gateway judged an endpoint that rests here, at ``said_at``."""

    at: float
    verdict: Verdict
    said_at: float


Event = (
    FleetChanged | ProbeLate | ProbeDone | CountersRead | TrafficSeen | DrainAsked | Tick | DutiesChanged | VerdictHeard
)


class ProbeCause(StrEnum):
    """Why a probe is asked for outside the schedule."""

    CONFIRM = "confirm"  # a first failure: ask again at once
    RISE = "rise"  # warming or recovering: do not wait a whole interval for the next success
    TRAFFIC = "traffic"  # users' requests failed or stalled there
    DEEP = "deep"  # the longer probe is due


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWanted:
    """Probe this endpoint after ``delay_s``, ahead of its schedule."""

    endpoint: EndpointId
    kind: ProbeKind
    cause: ProbeCause
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountersWanted:
    """Read this endpoint's counters now and go on every ``every_s`` while its probe is in flight."""

    endpoint: EndpointId
    every_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitioned:
    """The state or the reason of an endpoint changed."""

    at: float
    endpoint: EndpointId
    pool: PoolName
    incarnation: Incarnation
    old: State
    new: State
    old_reason: Reason
    reason: Reason
    detail: str


class AlertKind(StrEnum):
    """What a human should look at."""

    EJECTION_DETECTED = "ejection_detected"
    EJECTION_ENFORCED = "ejection_enforced"
    READMITTED = "readmitted"
    POOL_DOWN = "pool_down"
    POOL_BACK = "pool_back"
    NETWORK_SUSPECT = "network_suspect"
    NETWORK_CLEAR = "network_clear"
    PROMPT_DROPPED = "prompt_dropped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerted:
    """Something happened that is worth a line in the log, a counter and perhaps a call."""

    at: float
    kind: AlertKind
    pool: PoolName | None
    endpoint: EndpointId | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChanged:
    """What the data plane follows has changed: publish ``board.snapshot``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChanged:
    """Other gateways should hear of this endpoint, which is probed here: see ``Board.verdict``."""

    endpoint: EndpointId


Effect = ProbeWanted | CountersWanted | Transitioned | Alerted | SnapshotChanged | VerdictChanged
