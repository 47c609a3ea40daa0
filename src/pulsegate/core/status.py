"""What can be asked of the board: one endpoint as a person sees it, and one probe that is due.

Values only; ``board.py`` fills them in.
"""

from dataclasses import dataclass
from typing import NamedTuple

from pulsegate.core.events import ProbeCause
from pulsegate.core.fleet import EngineName
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.outcome import Outcome
from pulsegate.core.probe import ProbeAsk, ProbeResult


class DueProbe(NamedTuple):
    """A probe that must start now. Its endpoint is claimed until the ``ProbeDone`` (or ``Board.give_back``).

    ``due_at`` is when it should have started (monotonic seconds): ``now - due_at`` is the prober's own lateness.
    Send ``ProbeLate`` when no token has come ``late_after_s`` after the start. ``counters_every_s``: read the
    engine's counters from the very start and go on every so many seconds while this probe is in flight, because the
    endpoint is under suspicion already; None: wait for ``CountersWanted``. ``cause`` is None for a scheduled probe.
    """

    endpoint: EndpointId
    pool: PoolName
    incarnation: Incarnation
    ask: ProbeAsk
    due_at: float
    late_after_s: float
    cause: ProbeCause | None = None
    counters_every_s: float | None = None


class ProbeNote(NamedTuple):
    """One probe of the past: when it ended (monotonic seconds), its facts and what they amounted to."""

    at: float
    result: ProbeResult
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionNote:
    """One change of state or reason; ``at`` in monotonic seconds."""

    at: float
    incarnation: Incarnation
    old: State
    new: State
    old_reason: Reason
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStatus:
    """Everything about one endpoint. Times are monotonic seconds; None: never.

    ``judged`` is what the probes say; it differs from ``state`` only while draining. ``weight`` is 0 to 100 times the
    share of the endpoint's own configured weight. ``ttft_s`` is a moving average over probes that brought a token.
    ``served_model`` is the name under which it gave tokens.
    ``detected``: it should be ejected; ``enforced``: it is. ``successes`` and ``failures`` are the last probes, newest
    last; failures are kept longer, because they are rarer.
    """

    id: EndpointId
    pool: PoolName
    url: str
    engine: EngineName
    served_model: str | None
    state: State
    reason: Reason
    judged: State
    detail: str
    since: float
    weight: int
    low_only: bool
    max_inflight: int | None
    suspect: bool
    ttft_s: float | None
    inflight: int
    incarnation: Incarnation
    last_probe_at: float | None
    next_probe_at: float | None
    detected: bool
    enforced: bool
    hold_until: float | None
    successes: tuple[ProbeNote, ...]
    failures: tuple[ProbeNote, ...]
    transitions: tuple[TransitionNote, ...]
    probes: int
