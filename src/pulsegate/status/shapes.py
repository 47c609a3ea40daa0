"""The JSON that the admin API speaks, field by field: docs/api.md describes it for users.

Times are ISO 8601 in UTC with offset, durations milliseconds in names that end in ``_ms``; null: never, or not known.
"""

from collections.abc import Callable

import msgspec

from pulsegate.control.clock import iso8601
from pulsegate.control.fellowship import Company
from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.probe import Fault, Phases
from pulsegate.core.status import EndpointStatus, ProbeNote, TransitionNote

ToWall = Callable[[float], float]
"""From monotonic seconds to seconds since the epoch."""


class Health(msgspec.Struct, kw_only=True):
    """``GET /health``."""

    status: str
    uptime_s: float
    checked_at: str


class Endpoint(msgspec.Struct, kw_only=True):
    """One endpoint in a list."""

    id: str
    model: str
    url: str
    engine: str
    served_model: str | None
    state: str
    reason: str
    detail: str
    since: str
    weight: int
    low_only: bool
    max_inflight: int | None
    suspect: bool
    ejected: bool
    ejection_detected: bool
    ttft_ms: float | None
    inflight: int
    incarnation: int
    probes: int
    last_probe_at: str | None
    next_probe_at: str | None
    owner: str | None = None


class Coordination(msgspec.Struct, kw_only=True):
    """``GET /api/coordination``."""

    state: str
    mode: str | None = None
    member: str | None = None
    epoch: int | None = None
    members: tuple[str, ...] = ()
    owned: int
    endpoints: int
    detail: str = ""


class ProbeFault(msgspec.Struct, kw_only=True):
    """Why a probe brought no token."""

    kind: str
    detail: str
    status: int | None


class Probe(msgspec.Struct, kw_only=True):
    """One probe of the past."""

    at: str
    kind: str
    outcome: str
    reason: str
    detail: str
    ttft_ms: float | None
    phases_ms: dict[str, float | None]
    ending: str
    text: str
    tokens: int | None
    chunks: int
    finish_reason: str | None
    fault: ProbeFault | None
    bytes_read: int
    reused_connection: bool
    loop_lag_ms: float


class Transition(msgspec.Struct, kw_only=True):
    """One change of state or reason."""

    at: str
    incarnation: int
    old: str
    new: str
    old_reason: str
    reason: str
    detail: str


class EndpointDetail(Endpoint, kw_only=True):
    """One endpoint with its history, newest last."""

    judged: str
    hold_until: str | None
    last_probes: tuple[Probe, ...]
    transitions: tuple[Transition, ...]


class Verdict(msgspec.Struct, kw_only=True):
    """``GET /api/endpoints/{id}/verdict``."""

    id: str
    verdict: str
    reason: str
    weight: int
    since: str


class Problem(msgspec.Struct, kw_only=True):
    """What an error says: a stable code and a sentence."""

    code: str
    message: str


class ErrorBody(msgspec.Struct, kw_only=True):
    """Every error of the admin API."""

    error: Problem


def endpoint(spec: EndpointSpec, status: EndpointStatus, to_wall: ToWall, owner: str | None = None) -> Endpoint:
    """One endpoint as a row. ``owner``: the gateway that probes it, where several share the probes."""
    return Endpoint(
        id=status.id,
        model=status.pool,
        url=status.url,
        engine=status.engine.value,
        served_model=spec.model or status.served_model,
        state=status.state.value,
        reason=status.reason.value,
        detail=status.detail,
        since=iso8601(to_wall(status.since)),
        weight=status.weight,
        low_only=status.low_only,
        max_inflight=status.max_inflight,
        suspect=status.suspect,
        ejected=status.enforced,
        ejection_detected=status.detected,
        ttft_ms=_ms(status.ttft_s),
        inflight=status.inflight,
        incarnation=status.incarnation,
        probes=status.probes,
        last_probe_at=_iso(status.last_probe_at, to_wall),
        next_probe_at=_iso(status.next_probe_at, to_wall),
        owner=owner,
    )


def coordination(company: Company | None, endpoints: int) -> Coordination:
    """How this gateway stands with others; ``company`` None: there are none."""
    if company is None:
        return Coordination(state="alone", owned=endpoints, endpoints=endpoints)
    return Coordination(
        state=company.tie.value,
        mode=company.mode.value,
        member=company.me,
        epoch=company.epoch,
        members=company.members,
        owned=company.owned,
        endpoints=endpoints,
        detail=company.why,
    )


def endpoint_detail(
    spec: EndpointSpec, status: EndpointStatus, to_wall: ToWall, owner: str | None = None
) -> EndpointDetail:
    """One endpoint with its last probes and transitions."""
    notes = sorted((*status.successes, *status.failures), key=lambda note: note.at)
    return EndpointDetail(
        **msgspec.structs.asdict(endpoint(spec, status, to_wall, owner)),
        judged=status.judged.value,
        hold_until=_iso(status.hold_until, to_wall),
        last_probes=tuple(probe(note, to_wall) for note in notes),
        transitions=tuple(_transition(note, to_wall) for note in status.transitions),
    )


def verdict(status: EndpointStatus, to_wall: ToWall) -> Verdict:
    """The short answer for a load balancer."""
    return Verdict(
        id=status.id,
        verdict=status.state.value,
        reason=status.reason.value,
        weight=status.weight,
        since=iso8601(to_wall(status.since)),
    )


def probe(note: ProbeNote, to_wall: ToWall) -> Probe:
    """One probe with its facts and what they amounted to."""
    result, outcome = note.result, note.outcome
    return Probe(
        at=iso8601(to_wall(note.at)),
        kind=result.kind.value,
        outcome=outcome.kind.value,
        reason=outcome.reason.value,
        detail=outcome.detail,
        ttft_ms=_ms(result.phases.first_token_s),
        phases_ms=_phases(result.phases),
        ending=result.ending.value,
        text=result.text,
        tokens=result.tokens,
        chunks=result.chunks,
        finish_reason=result.finish_reason,
        fault=None if result.fault is None else _fault(result.fault),
        bytes_read=result.bytes_read,
        reused_connection=result.reused,
        loop_lag_ms=round(result.lag_s * 1000, 1),
    )


def _phases(phases: Phases) -> dict[str, float | None]:
    return {
        "dns": _ms(phases.dns_s),
        "connect": _ms(phases.connect_s),
        "tls": _ms(phases.tls_s),
        "send": _ms(phases.send_s),
        "first_byte": _ms(phases.first_byte_s),
        "first_token": _ms(phases.first_token_s),
        "end": _ms(phases.end_s),
    }


def _fault(fault: Fault) -> ProbeFault:
    return ProbeFault(kind=fault.kind.value, detail=fault.detail, status=fault.status)


def _transition(note: TransitionNote, to_wall: ToWall) -> Transition:
    return Transition(
        at=iso8601(to_wall(note.at)),
        incarnation=note.incarnation,
        old=note.old.value,
        new=note.new.value,
        old_reason=note.old_reason.value,
        reason=note.reason.value,
        detail=note.detail,
    )


def _iso(at: float | None, to_wall: ToWall) -> str | None:
    return None if at is None else iso8601(to_wall(at))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
