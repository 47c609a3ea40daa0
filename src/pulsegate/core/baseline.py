"""The learned baseline behind ``auto_ttft``: what is normal for one endpoint, as the median of its fast tokens.

Thresholds are never tighter than the absolute ones, and keep their proportions when they are wider.
"""

from collections import deque
from statistics import median

from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.outcome import Thresholds

SAMPLES = 64
MIN_SAMPLES = 5
FACTOR = 3.0
_RELEARN_EVERY = 8


class Baseline:
    """The last times to first token of one endpoint, those that were not slow for it."""

    __slots__ = ("_count", "_last", "median_s")

    def __init__(self) -> None:
        self._last: deque[float] = deque(maxlen=SAMPLES)
        self._count = 0
        self.median_s: float | None = None

    def add(self, ttft_s: float) -> None:
        """One more fast token."""
        self._last.append(ttft_s)
        self._count += 1
        if self._count == MIN_SAMPLES or (self._count > MIN_SAMPLES and self._count % _RELEARN_EVERY == 0):
            self.median_s = median(self._last)

    def thresholds(self, policy: ProbePolicy) -> Thresholds:
        """What counts as fast, late and too late now. Until something is learned, anything that comes is fine."""
        if self.median_s is None:
            patience_s = max(policy.timeout_s, policy.deep_timeout_s)
            return Thresholds(healthy_ttft_s=patience_s, congested_ttft_s=patience_s, timeout_s=patience_s)
        factor = max(1.0, FACTOR * self.median_s / policy.healthy_ttft_s)
        return Thresholds(
            healthy_ttft_s=policy.healthy_ttft_s * factor,
            congested_ttft_s=policy.congested_ttft_s * factor,
            timeout_s=policy.timeout_s * factor,
        )
