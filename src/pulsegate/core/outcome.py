"""What the facts of one probe amount to. Decides nothing about the endpoint: that is ``health.py``.

The meaning of an answer (wrong, degenerate) is looked at by ``meaning.py``; here a token is a token.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, assert_never

from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason
from pulsegate.core.probe import Ending, Fault, FaultClass, ProbeKind, ProbeResult


class OutcomeKind(StrEnum):
    """The closed set of what a probe can amount to."""

    TOKEN = "token"  # noqa: S105 - the kind of token that a model makes
    TRUNCATED = "truncated"  # a token, but neither finish reason, usage nor [DONE]
    TIMEOUT = "timeout"
    STALLED = "stalled"  # a first token, the others not in time
    FATAL = "fatal"
    ERROR = "error"
    BUSY = "busy"
    WRONG = "wrong"
    REJECTED = "rejected"
    STARTING = "starting"
    SLEEPING = "sleeping"
    LOCAL = "local"


class Outcome(NamedTuple):
    """One judged probe: ``ttft_s`` for TOKEN and TRUNCATED; ``reason`` is what a state that follows would carry."""

    kind: OutcomeKind
    reason: Reason
    detail: str = ""
    ttft_s: float | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where fast ends, where late begins and when a probe is given up, in seconds from its start."""

    healthy_ttft_s: float
    congested_ttft_s: float
    timeout_s: float

    @classmethod
    def of(cls, policy: ProbePolicy) -> "Thresholds":
        """The absolute ones of a policy."""
        return cls(
            healthy_ttft_s=policy.healthy_ttft_s,
            congested_ttft_s=policy.congested_ttft_s,
            timeout_s=policy.timeout_s,
        )


_FAULTS: Mapping[FaultClass, tuple[OutcomeKind, Reason]] = MappingProxyType(
    {
        FaultClass.CUDA: (OutcomeKind.FATAL, Reason.CUDA),
        FaultClass.ENGINE_DEAD: (OutcomeKind.FATAL, Reason.ENGINE_DEAD),
        FaultClass.SERVER: (OutcomeKind.ERROR, Reason.ERROR),
        FaultClass.OVERLOAD: (OutcomeKind.BUSY, Reason.BUSY),
        FaultClass.STARTING: (OutcomeKind.STARTING, Reason.LOADING),
        FaultClass.SLEEPING: (OutcomeKind.SLEEPING, Reason.SLEEPING),
        FaultClass.AUTH: (OutcomeKind.REJECTED, Reason.AUTH),
        FaultClass.BILLING: (OutcomeKind.REJECTED, Reason.BILLING),
        FaultClass.NOT_FOUND: (OutcomeKind.REJECTED, Reason.NOT_FOUND),
        FaultClass.BAD_REQUEST: (OutcomeKind.REJECTED, Reason.REJECTED),
        FaultClass.OUTPUT_LIMIT: (OutcomeKind.TOKEN, Reason.OK),
        FaultClass.REFUSED: (OutcomeKind.ERROR, Reason.REFUSED),
        FaultClass.UNREACHABLE: (OutcomeKind.ERROR, Reason.UNREACHABLE),
        FaultClass.TLS: (OutcomeKind.ERROR, Reason.TLS),
        FaultClass.CLOSED: (OutcomeKind.ERROR, Reason.ERROR),
        FaultClass.PROTOCOL: (OutcomeKind.ERROR, Reason.PROTOCOL),
        FaultClass.REDIRECT: (OutcomeKind.ERROR, Reason.PROTOCOL),
        FaultClass.LOCAL: (OutcomeKind.LOCAL, Reason.LOCAL),
    }
)
_FINISHED_FULL = "insufficient_system_resource"  # DeepSeek: interrupted because the service is out of resources
_FINISHED_BADLY = frozenset({"abort", "error"})  # vLLM and SGLang: the engine gave the request up

CONNECT_REASONS = frozenset({Reason.REFUSED, Reason.UNREACHABLE})
"""Reasons that say that no connection came about: the network may be to blame, ours or theirs."""


def classify(result: ProbeResult, policy: ProbePolicy, limits: Thresholds, deadline_s: float | None = None) -> Outcome:
    """What ``result`` amounts to.

    ``deadline_s`` is by when the first token had to come, ``limits.timeout_s`` unless the probe was given another.
    A probe during which our own loop stood still for more than ``policy.lag_share`` of the deadline proves nothing,
    whatever it shows, except an engine that says that it is broken. Neither does a slow token that a shorter stall may
    have kept waiting, unread, while it was fast.
    """
    deadline_s = limits.timeout_s if deadline_s is None else deadline_s
    fault = result.fault
    if fault is not None and fault.kind in (FaultClass.LOCAL, FaultClass.CUDA, FaultClass.ENGINE_DEAD):
        return _of_fault(fault, result)
    if result.lag_s > policy.lag_share * deadline_s:
        return Outcome(OutcomeKind.LOCAL, Reason.LOCAL, f"our own loop stood still for {result.lag_s * 1000:.0f} ms")
    if fault is not None:
        return _of_fault(fault, result)
    match result.ending:
        case Ending.DEADLINE:
            return _given_up(result, deadline_s)
        case Ending.LEFT if result.kind is ProbeKind.DEEP and result.finish_reason is None and result.tokens is None:
            return _given_up(result, deadline_s)  # left because the other tokens did not come in time
        case Ending.COMPLETE | Ending.LEFT | Ending.CUT:
            return _ended(result, limits, deadline_s)
        case Ending.FAILED:
            return Outcome(OutcomeKind.ERROR, Reason.ERROR, "failed without a known fault")
        case _:
            assert_never(result.ending)


def _of_fault(fault: Fault, result: ProbeResult) -> Outcome:
    kind, reason = _FAULTS[fault.kind]
    ttft_s = result.phases.end_s if kind is OutcomeKind.TOKEN else None
    return Outcome(kind, reason, fault.detail, ttft_s, fault.retry_after_s)


def _given_up(result: ProbeResult, deadline_s: float) -> Outcome:
    """We closed it at a deadline: the first token's, or that of the others."""
    if not result.token_seen:
        return Outcome(OutcomeKind.TIMEOUT, Reason.TIMEOUT, f"no token in {deadline_s * 1000:.0f} ms")
    if result.kind is ProbeKind.DEEP:
        return Outcome(OutcomeKind.STALLED, Reason.STALLED, f"stalled after {result.chunks} token(s)")
    return Outcome(OutcomeKind.TRUNCATED, Reason.TRUNCATED, "a token, then nothing", _ttft_s(result))


def _ended(result: ProbeResult, limits: Thresholds, deadline_s: float) -> Outcome:
    if not result.token_seen:
        return Outcome(OutcomeKind.ERROR, Reason.PROTOCOL, "the answer ended without a token")
    if result.finish_reason == _FINISHED_FULL:
        return Outcome(OutcomeKind.BUSY, Reason.BUSY, "finish reason " + _FINISHED_FULL)
    if result.finish_reason in _FINISHED_BADLY:
        return Outcome(OutcomeKind.ERROR, Reason.ERROR, f"finish reason {result.finish_reason}")
    ttft_s = _ttft_s(result)
    if ttft_s is not None and ttft_s > deadline_s:
        return Outcome(OutcomeKind.TIMEOUT, Reason.TIMEOUT, f"the token came after {ttft_s * 1000:.0f} ms")
    if result.ending is Ending.CUT and result.finish_reason is None and result.tokens is None:
        return Outcome(OutcomeKind.TRUNCATED, Reason.TRUNCATED, "ended without finish reason, usage and [DONE]", ttft_s)
    if result.kind is not ProbeKind.MICRO or ttft_s is None or ttft_s <= limits.healthy_ttft_s:
        return Outcome(OutcomeKind.TOKEN, Reason.OK, "", ttft_s)
    detail = f"first token after {ttft_s * 1000:.0f} ms"
    if ttft_s - result.lag_s <= limits.healthy_ttft_s:  # it may have been here in time, unread
        stalled = f"our own loop stood still for {result.lag_s * 1000:.0f} ms"
        return Outcome(OutcomeKind.LOCAL, Reason.LOCAL, f"{detail}, but {stalled}")
    return Outcome(OutcomeKind.TOKEN, Reason.SLOW, detail, ttft_s)


def _ttft_s(result: ProbeResult) -> float | None:
    """The stamp of the first token; where only the end proved one (usage), the end."""
    return result.phases.end_s if result.phases.first_token_s is None else result.phases.first_token_s
