"""The sections ``probe`` and ``ejection``: for the whole file, and as overrides per model.

Defaults are those of the core's policies; a section knows which of its keys the operator set.
"""

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from pulsegate.config.section import Pattern, Section
from pulsegate.config.units import Percent, Seconds, Share, Whole, rejected, seconds
from pulsegate.core.fleet import EjectionPolicy, ProbePolicy

PROBE = ProbePolicy()
EJECTION = EjectionPolicy()
MIN_FROZEN_AFTER_S = 0.5

Count = Annotated[Whole, Field(ge=1, le=1000)]


def _ttft_mode(value: object) -> object:
    if value not in ("absolute", "auto"):
        raise rejected("is not one of the choices", "choose from absolute, auto")
    return value == "auto"


def _two_readings(value: float) -> float:
    if value < MIN_FROZEN_AFTER_S:
        raise rejected("is too short: counters are read half a second apart", "write at least 500ms")
    return value


def _seconds_or_off(value: object) -> float:
    return 0.0 if value == "off" else seconds(value)


class ProbeSection(Section):
    """When to probe and how to judge."""

    interval_s: Seconds = Field(default=PROBE.interval_s, alias="interval")
    jitter: Annotated[Share, Field(le=0.5)] = PROBE.jitter
    healthy_ttft_s: Seconds = Field(default=PROBE.healthy_ttft_s, alias="healthy_ttft")
    congested_ttft_s: Seconds = Field(default=PROBE.congested_ttft_s, alias="congested_ttft")
    timeout_s: Seconds = Field(default=PROBE.timeout_s, alias="timeout")
    rise: Count = PROBE.rise
    fall: Count = PROBE.fall
    startup_deadline_s: Seconds = Field(default=PROBE.startup_deadline_s, alias="startup_deadline")
    deep_interval_s: Annotated[float, BeforeValidator(_seconds_or_off)] = Field(
        default=PROBE.deep_interval_s, alias="deep_interval"
    )
    deep_timeout_s: Seconds = Field(default=PROBE.deep_timeout_s, alias="deep_timeout")
    busy_interval_s: Seconds = Field(default=PROBE.busy_interval_s, alias="busy_interval")
    auto_ttft: Annotated[bool, BeforeValidator(_ttft_mode)] = Field(default=PROBE.auto_ttft, alias="ttft")
    frozen_after_s: Annotated[Seconds, AfterValidator(_two_readings)] = Field(
        default=PROBE.frozen_after_s, alias="frozen_after"
    )
    lag_share: Annotated[Share, Field(gt=0)] = Field(default=PROBE.lag_share, alias="max_lag")
    expect: Pattern | None = PROBE.expect

    def over(self, base: ProbePolicy) -> ProbePolicy:
        """That policy with what the operator set here.

        Who probes rarely or waits long need not say so twice: what is left at ``base`` stretches with it.
        """
        policy = replace(base, **self.model_dump(exclude_unset=True))
        if "busy_interval_s" not in self.model_fields_set:
            policy = replace(policy, busy_interval_s=max(policy.busy_interval_s, policy.interval_s))
        if "deep_timeout_s" not in self.model_fields_set:
            policy = replace(policy, deep_timeout_s=max(policy.deep_timeout_s, 2 * policy.timeout_s))
        if "deep_interval_s" not in self.model_fields_set and base.deep_interval_s > 0:
            longest = max(policy.deep_interval_s, policy.interval_s, 2 * policy.deep_timeout_s)
            policy = replace(policy, deep_interval_s=longest)
        return policy


class EjectionSection(Section):
    """How much of a pool may be taken out and how it comes back."""

    max_ejection_percent: Annotated[Percent, Field(ge=1)] = Field(
        default=EJECTION.max_ejection_percent, alias="max_ejection"
    )
    hold_off_s: Seconds = Field(default=EJECTION.hold_off_s, alias="hold_off")
    hold_off_max_s: Seconds = Field(default=EJECTION.hold_off_max_s, alias="hold_off_max")
    flap_window_s: Seconds = Field(default=EJECTION.flap_window_s, alias="flap_window")
    slow_start_s: Seconds = Field(default=EJECTION.slow_start_s, alias="slow_start")
    slow_start_from_percent: Annotated[Percent, Field(ge=1)] = Field(
        default=EJECTION.slow_start_from_percent, alias="slow_start_from"
    )
    degraded_weight_percent: Annotated[Percent, Field(ge=1)] = Field(
        default=EJECTION.degraded_weight_percent, alias="degraded_weight"
    )
    degraded_max_inflight: Annotated[Whole, Field(ge=1)] = EJECTION.degraded_max_inflight
    suspect_network_windows: Annotated[Whole, Field(ge=0, le=100)] = EJECTION.suspect_network_windows

    def over(self, base: EjectionPolicy) -> EjectionPolicy:
        """That policy with what the operator set here."""
        return replace(base, **self.model_dump(exclude_unset=True))
