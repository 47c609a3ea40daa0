"""What the board keeps about one endpoint. Plain state: the decisions are elsewhere, the board alone writes here."""

from collections import deque
from enum import Enum, auto
from hashlib import blake2b

from pulsegate.core.baseline import Baseline
from pulsegate.core.ejection import INNOCENT, Standing
from pulsegate.core.events import ProbeCause
from pulsegate.core.evidence import Evidence
from pulsegate.core.fleet import EndpointSpec, ProbePolicy
from pulsegate.core.health import Signal, State
from pulsegate.core.ids import EndpointId, Incarnation
from pulsegate.core.outcome import OutcomeKind, Thresholds
from pulsegate.core.probe import ProbeKind
from pulsegate.core.prompts import Prompt
from pulsegate.core.record import HealthRecord, born
from pulsegate.core.schedule import phase
from pulsegate.core.snapshot import EndpointView
from pulsegate.core.status import DueProbe, EndpointStatus, ProbeNote, TransitionNote
from pulsegate.core.weights import Share

KEPT_SUCCESSES = 8
KEPT_FAILURES = 24
KEPT_TRANSITIONS = 32
_EWMA_NEW_SHARE = 0.3
_GOOD = frozenset({OutcomeKind.TOKEN})


class Doubt(Enum):
    """Who found an answer wrong: only the same witness can say that it is right again."""

    NOBODY = auto()
    MICRO = auto()
    DEEP = auto()
    PEERS = auto()


class Claim:
    """A probe in flight: since when, what was asked, which answers it can be compared with, and whether it is late."""

    __slots__ = ("due", "late", "prompt", "since", "turn")

    def __init__(self, due: DueProbe, prompt: Prompt, since: float, turn: tuple[int, int]) -> None:
        self.due = due
        self.prompt = prompt
        self.since = since
        self.turn = turn
        self.late = False


class Watched:
    """One endpoint. Times are monotonic seconds; None: never or not running."""

    def __init__(self, spec: EndpointSpec, policy: ProbePolicy, at: float) -> None:
        self.spec = spec
        self.policy = policy
        self.phase = phase(spec.id)
        self.server = blake2b(repr(_identity(spec)).encode(), digest_size=8).hexdigest()  # the same at all gateways
        self.incarnation = Incarnation(1)
        self.resting = False  # another gateway probes it
        self.taken_over = False  # another gateway did, and it has not been probed here since
        self.told: tuple[object, ...] | None = None  # what other gateways were told last, see ``verdicts.news_of``
        self.record: HealthRecord = born(at)
        self.served = False  # was healthy or degraded once: requests may wait there
        self.standing: Standing = INNOCENT
        self.evidence = Evidence()
        self.baseline = Baseline()
        self.limits = self._limits()
        self.served_model: str | None = None
        self.ttft_s: float | None = None
        self.deep_ttft_s: float | None = None
        self.suspect = False
        self.users_wait = False  # for longer than they should, and no token came since
        self.inflight = 0
        self.outpaced = 0  # slow probes under load in a row at which most of its peers were fast
        # the way the probes go
        self.claim: Claim | None = None
        self.next_kind = ProbeKind.MICRO
        self.next_cause: ProbeCause | None = None
        self.wanted_at: float | None = None  # users' requests failed: not later than this
        self.last_start_at: float | None = None
        self.last_probe_at: float | None = None
        self.last_note: ProbeNote | None = None
        self.last_deep_at: float | None = None
        self.deep_asked = 0
        self.turn: tuple[int, int] = (-1, 0)
        self.failed_kind: ProbeKind | None = None
        self.waits = 0
        self.probes = 0
        # what is still open
        self.doubt = Doubt.NOBODY
        self.unproven = False  # condemned by its peers: tokens count only once they have agreed
        self.token_held = False
        self.moves_nothing: Signal | None = None  # the last signal left the record as it was; it would again
        self.verdict_by: float | None = None
        self.startup_by: float | None = at + policy.startup_deadline_s
        # what others see
        self.share = Share(0, low_only=False, max_inflight=spec.max_inflight)
        self.view: EndpointView = self.make_view()
        self.successes: deque[ProbeNote] = deque(maxlen=KEPT_SUCCESSES)
        self.failures: deque[ProbeNote] = deque(maxlen=KEPT_FAILURES)
        self.transitions: deque[TransitionNote] = deque(maxlen=KEPT_TRANSITIONS)

    @property
    def id(self) -> EndpointId:
        """Its id."""
        return self.spec.id

    @property
    def starting(self) -> bool:
        """Whether it may serve within a moment for the first time: not asked yet, or on its way to being healthy."""
        record = self.record
        return record.state is State.WARMING and not self.served and (self.last_probe_at is None or record.streak > 0)

    def _limits(self) -> Thresholds:
        return self.baseline.thresholds(self.policy) if self.policy.auto_ttft else Thresholds.of(self.policy)

    def reconfigure(self, spec: EndpointSpec, policy: ProbePolicy) -> None:
        """New settings, the same life."""
        self.spec = spec
        self.policy = policy
        self.limits = self._limits()
        self.moves_nothing = None

    def note(self, note: ProbeNote) -> None:
        """Remember a probe: failures longer than successes, and of faults of our own in a row only the last."""
        self.probes += 1
        self.last_probe_at = note.at
        self.last_note = note
        kept = self.successes if note.outcome.kind in _GOOD else self.failures
        if kept and kept[-1].outcome.kind is note.outcome.kind is OutcomeKind.LOCAL:
            kept.pop()
        kept.append(note)

    def learn_ttft(self, kind: ProbeKind, ttft_s: float, *, fast: bool) -> None:
        """A token came after so long."""
        if kind is ProbeKind.DEEP:
            self.deep_ttft_s = _smoothed(self.deep_ttft_s, ttft_s)
            return
        self.ttft_s = _smoothed(self.ttft_s, ttft_s)
        if fast and self.policy.auto_ttft:
            self.baseline.add(ttft_s)
            self.limits = self._limits()

    def make_view(self) -> EndpointView:
        """What the data plane is to see."""
        state = self.record.state
        return EndpointView(
            id=self.spec.id,
            state=state,
            reason=self.record.reason,
            weight=self.share.weight,
            low_only=self.share.low_only,
            max_inflight=self.share.max_inflight,
            ejected=self.standing.enforced or (state is State.WARMING and self.served),
            suspect=self.suspect,
            incarnation=self.incarnation,
            served_model=self.served_model,
        )

    def status(self, next_probe_at: float | None) -> EndpointStatus:
        """What a person is to see."""
        return EndpointStatus(
            id=self.spec.id,
            pool=self.spec.pool,
            url=self.spec.url,
            engine=self.spec.engine,
            served_model=self.served_model,
            state=self.record.state,
            reason=self.record.reason,
            judged=self.record.judged.state,
            detail=self.record.detail,
            since=self.record.since,
            weight=self.share.weight,
            low_only=self.share.low_only,
            max_inflight=self.share.max_inflight,
            suspect=self.suspect,
            ttft_s=self.ttft_s,
            inflight=self.inflight,
            incarnation=self.incarnation,
            last_probe_at=self.last_probe_at,
            next_probe_at=next_probe_at,
            detected=self.record.judged.state is State.UNHEALTHY,
            enforced=self.standing.enforced,
            hold_until=self.standing.hold_until,
            successes=tuple(self.successes),
            failures=tuple(self.failures),
            transitions=tuple(self.transitions),
            probes=self.probes,
        )


def _smoothed(old: float | None, new: float) -> float:
    return new if old is None else old + _EWMA_NEW_SHARE * (new - old)


def keep_or_begin(kept: Watched | None, spec: EndpointSpec, policy: ProbePolicy, at: float) -> Watched:
    """The same endpoint with new settings, or, if it is another server now, a new incarnation of the id."""
    if kept is not None and _identity(kept.spec) == _identity(spec):
        kept.reconfigure(spec, policy)
        return kept
    watched = Watched(spec, policy, at)
    if kept is not None:
        watched.incarnation = Incarnation(kept.incarnation + 1)
        watched.view = watched.make_view()
    return watched


def _identity(spec: EndpointSpec) -> tuple[object, ...]:
    """What makes an endpoint another server when it changes; keys, headers and weights do not."""
    return (spec.pool, spec.url, spec.engine, spec.model, spec.dp_rank)
