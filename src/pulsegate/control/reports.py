"""What the prober tells about one probe, for metrics and histories."""

from typing import NamedTuple

from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.ids import Incarnation
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import ProbeResult


class ProbeReport(NamedTuple):
    """One probe that is over.

    ``at`` is when it ended (monotonic seconds), ``late_s`` how much later than scheduled it began. ``outcome`` is
    what the core made of the facts.
    """

    spec: EndpointSpec
    incarnation: Incarnation
    at: float
    late_s: float
    outcome: OutcomeKind | None
    result: ProbeResult
