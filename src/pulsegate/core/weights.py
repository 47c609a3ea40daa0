"""How much traffic an endpoint may get: weight, lane and cap from its health and its standing."""

from dataclasses import dataclass

from pulsegate.core.ejection import Standing
from pulsegate.core.fleet import EjectionPolicy, EndpointSpec
from pulsegate.core.health import Reason, State
from pulsegate.core.record import HealthRecord

RAMP_STEP_PERCENT = 5
"""Slow start moves in steps, so that the routing table does not change with every tick."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one endpoint may get."""

    weight: int
    low_only: bool
    max_inflight: int | None


def ramp_percent(standing: Standing, policy: EjectionPolicy, at: float) -> int:
    """How far slow start has come, in steps of five per cent."""
    if standing.ramp_from is None or policy.slow_start_s <= 0:
        return 100
    lowest = policy.slow_start_from_percent
    gone = min(1.0, max(0.0, (at - standing.ramp_from) / policy.slow_start_s))
    percent = lowest + (100 - lowest) * gone
    return max(1, lowest, int(percent + 1e-6) // RAMP_STEP_PERCENT * RAMP_STEP_PERCENT)


def next_ramp_at(standing: Standing, policy: EjectionPolicy, at: float) -> float | None:
    """When slow start takes its next step; None when there is none."""
    if standing.ramp_from is None:
        return None
    lowest = policy.slow_start_from_percent
    wanted = min(100, ramp_percent(standing, policy, at) // RAMP_STEP_PERCENT * RAMP_STEP_PERCENT + RAMP_STEP_PERCENT)
    span = 100 - lowest
    share = 1.0 if span <= 0 else (wanted - lowest) / span
    return standing.ramp_from + policy.slow_start_s * share


def share(
    record: HealthRecord,
    *,
    standing: Standing,
    spec: EndpointSpec,
    policy: EjectionPolicy,
    sound: bool,
    at: float,
) -> Share:
    """Weight, lane and cap.

    ``sound``: a healthy endpoint of the pool takes traffic, so degraded ones may be spared; a pool that is degraded as
    a whole serves as a whole. Load is no illness: a busy endpoint gets what a healthy one gets, because requests in
    flight balance load by themselves, and what is taken from it makes its neighbours busy. An unhealthy endpoint that
    is not ejected (the brakes) is spared like a degraded one.
    """
    nothing = Share(0, low_only=False, max_inflight=spec.max_inflight)
    state = record.state
    if standing.enforced or state in (State.WARMING, State.MISCONFIGURED, State.DRAINING):
        return nothing
    if standing.hold_until is not None:
        return nothing
    if state is State.HEALTHY or (state is State.DEGRADED and record.reason is Reason.BUSY):
        base, spared = 100, False
    else:
        base, spared = policy.degraded_weight_percent, sound
    percent = base * ramp_percent(standing, policy, at)
    weight = max(1, round(percent * spec.weight / 10_000)) if spec.weight > 0 else 0
    if not spared:
        return Share(weight, low_only=False, max_inflight=spec.max_inflight)
    caps = [cap for cap in (policy.degraded_max_inflight, spec.max_inflight) if cap is not None]
    return Share(weight, low_only=True, max_inflight=min(caps))
