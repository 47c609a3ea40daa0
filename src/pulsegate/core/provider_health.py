"""Whether a hosted provider may be asked: judged by what users' requests met there and by token-free pings.

One provider has several keys and serves several models. What fails decides what rests:

==================  ===========================  ==================================================================
what                what rests                   how long
==================  ===========================  ==================================================================
billing, auth       the key, for all models      5 min, doubled each time, at most 1 h; or until the setup changes
                                                 (a ping that the key opens ends the rest of a refused one)
not_found           the model, for all keys      the same
rate_limit          the key, for this model      ``Retry-After``, else 1 s, doubled each time, at most 60 s
busy                the model, for all keys      ``Retry-After``, else 1 s, doubled each time, at most 30 s
outage              the model, for all keys      after 3 in a row, or half of the last 10: 5 s, doubled, at most 5 min
too_large, request  nothing                      the user's own: the provider is alive
==================  ===========================  ==================================================================

After its rest one request at a time is a trial (``breaker.py``). Slowness rests nothing, it is shown: what is slow is
what the provider's own habit says, since seconds to the first token are normal for one and not for another.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from pulsegate.core.baseline import FACTOR, Baseline
from pulsegate.core.breaker import Breaker, Phase, Rest
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.provider_fault import USERS, ProviderFault

REFUSED_REST: Final = Rest(first_s=300.0, longest_s=3600.0)
LIMIT_REST: Final = Rest(first_s=1.0, longest_s=60.0)
BUSY_REST: Final = Rest(first_s=1.0, longest_s=30.0)
OUTAGE_REST: Final = Rest(first_s=5.0, longest_s=300.0)

OUTAGES_IN_A_ROW: Final = 3
WINDOW: Final = 10
SLOW_FROM_S: Final = 2.0  # a first token within that is never slow
SLOW_IN_A_ROW: Final = 3
NORMAL_WEIGHT: Final = 100
SLOW_WEIGHT: Final = 30

_REASONS: Final = {
    ProviderFault.BILLING: Reason.BILLING,
    ProviderFault.AUTH: Reason.AUTH,
    ProviderFault.NOT_FOUND: Reason.NOT_FOUND,
    ProviderFault.RATE_LIMIT: Reason.RATE_LIMITED,
    ProviderFault.BUSY: Reason.BUSY,
    ProviderFault.OUTAGE: Reason.ERROR,
}
_HUMAN: Final = frozenset({Reason.BILLING, Reason.AUTH, Reason.NOT_FOUND})


class Place(NamedTuple):
    """One key at one model: what routing knows as an endpoint."""

    endpoint: EndpointId
    pool: PoolName
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceView:
    """How a place is now. ``weight`` 0: not to be asked. ``since`` (monotonic) None: it has always served."""

    state: State
    reason: Reason
    weight: int
    since: float | None


class _Model:
    """One model for all keys."""

    __slots__ = ("baseline", "breaker", "in_a_row", "recent", "slow_in_a_row")

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.baseline = Baseline()
        self.recent: deque[bool] = deque(maxlen=WINDOW)
        self.in_a_row = 0
        self.slow_in_a_row = 0

    def failed(self) -> bool:
        """An outage's sign; whether it is one."""
        self.in_a_row += 1
        self.recent.append(False)
        return self.in_a_row >= OUTAGES_IN_A_ROW or (len(self.recent) == WINDOW and 2 * sum(self.recent) <= WINDOW)

    def alive(self) -> None:
        """It answered."""
        self.in_a_row = 0
        self.recent.append(True)

    def took(self, ttft_s: float) -> None:
        """A first token came after that long."""
        median_s = self.baseline.median_s
        if median_s is not None and ttft_s > max(SLOW_FROM_S, FACTOR * median_s):
            self.slow_in_a_row += 1
        else:
            self.slow_in_a_row = 0
            self.baseline.add(ttft_s)

    @property
    def slow(self) -> bool:
        """Whether it has become slow for itself."""
        return self.slow_in_a_row >= SLOW_IN_A_ROW


class ProviderHealth:
    """One provider in one process.

    An attempt calls ``begin`` and then one of ``served``, ``failed`` and ``neutral``, and hands back whether it was a
    trial. Each returns whether views may have changed.
    """

    __slots__ = ("_keys", "_limits", "_models", "_places", "answered_at")

    def __init__(self, places: Iterable[Place]) -> None:
        self._places: dict[EndpointId, Place] = {}
        self._keys: dict[str, Breaker] = {}
        self._models: dict[PoolName, _Model] = {}
        self._limits: dict[EndpointId, Breaker] = {}
        self.answered_at: float | None = None
        self.configure(places)

    def configure(self, places: Iterable[Place]) -> None:
        """Take over a setup. What stays keeps its state, but what rests until a human acts is tried again."""
        self._places = {place.endpoint: place for place in places}
        every = self._places.values()
        self._keys = {place.key: self._keys.get(place.key) or Breaker() for place in every}
        self._models = {place.pool: self._models.get(place.pool) or _Model() for place in every}
        self._limits = {place.endpoint: self._limits.get(place.endpoint) or Breaker() for place in every}
        for breaker in self._breakers():
            if breaker.reason in _HUMAN:
                breaker.hint()

    def _breakers(self) -> list[Breaker]:
        return [*self._keys.values(), *(model.breaker for model in self._models.values()), *self._limits.values()]

    def _of(self, place: Place) -> tuple[Breaker, Breaker, Breaker]:
        return self._keys[place.key], self._models[place.pool].breaker, self._limits[place.endpoint]

    # what attempts tell

    def begin(self, endpoint: EndpointId, now: float) -> bool:
        """An attempt starts there; whether it is a trial, so that views have changed."""
        place = self._places.get(endpoint)
        if place is None:
            return False
        due = [breaker for breaker in self._of(place) if breaker.phase is Phase.TRIAL_DUE]
        for breaker in due:
            breaker.begin(now)
        return bool(due)

    def served(self, endpoint: EndpointId, now: float, *, trial: bool, ttft_s: float | None = None) -> bool:
        """It answered, if only with the user's own error; ``ttft_s`` for streams."""
        place = self._places.get(endpoint)
        if place is None:
            return False
        self.answered_at = now
        model = self._models[place.pool]
        was_slow = model.slow
        model.alive()
        if ttft_s is not None:
            model.took(ttft_s)
        if trial:
            for breaker in self._of(place):
                if breaker.phase is Phase.TRYING:
                    breaker.well()
            if model.breaker.phase is Phase.SERVING:
                model.recent.clear()  # what failed before its rest is past
        return trial or was_slow is not model.slow

    def failed(
        self, endpoint: EndpointId, fault: ProviderFault, now: float, *, trial: bool, retry_after_s: float | None = None
    ) -> bool:
        """It did not answer, or not to the end."""
        if fault in USERS:
            return self.served(endpoint, now, trial=trial)
        place = self._places.get(endpoint)
        if place is None:
            return False
        reason, asked_s = _REASONS[fault], retry_after_s or 0.0
        key, breaker, limit = self._of(place)
        if fault is not ProviderFault.OUTAGE:
            self.answered_at = now
        match fault:
            case ProviderFault.BILLING | ProviderFault.AUTH:
                self._trip(key, reason, REFUSED_REST, now, trial=trial)
            case ProviderFault.NOT_FOUND:
                self._trip(breaker, reason, REFUSED_REST, now, trial=trial)
            case ProviderFault.RATE_LIMIT:
                self._trip(limit, reason, LIMIT_REST, now, trial=trial, at_least_s=asked_s)
            case ProviderFault.BUSY:
                self._trip(breaker, reason, BUSY_REST, now, trial=trial, at_least_s=asked_s)
            case _:
                if self._models[place.pool].failed() or (trial and breaker.phase is Phase.TRYING):
                    self._trip(breaker, reason, OUTAGE_REST, now, trial=trial, at_least_s=asked_s)
        if trial:  # what was tried beside it is as unknown as before
            for other in (key, breaker, limit):
                other.neutral()
        return True

    @staticmethod
    def _trip(
        breaker: Breaker, reason: Reason, rest: Rest, now: float, *, trial: bool, at_least_s: float = 0.0
    ) -> None:
        if breaker.phase is Phase.TRYING:
            if trial and breaker.reason is reason:
                breaker.ill(now, at_least_s=at_least_s)
                return
            if not trial:
                return  # an older attempt: the trial decides
        breaker.trip(reason, rest, now, at_least_s=at_least_s)

    def neutral(self, endpoint: EndpointId, *, trial: bool) -> bool:
        """The attempt ended and told nothing: its client left, it was cancelled, we failed ourselves."""
        place = self._places.get(endpoint)
        if place is None or not trial:
            return False
        for breaker in self._of(place):
            breaker.neutral()
        return True

    # what pings and time tell

    def pinged(self, key: str, fault: ProviderFault | None, now: float) -> bool:
        """A token-free ping with this key came to that; None: it was answered well.

        A list of models proves no model, so that a good ping only shortens rests, and a list that is not there
        (``not_found``) says nothing at all.
        """
        breaker = self._keys.get(key)
        if breaker is None:
            return False
        if fault is ProviderFault.BILLING or fault is ProviderFault.AUTH:
            self._trip(breaker, _REASONS[fault], REFUSED_REST, now, trial=False)
        elif fault is None:
            self.answered_at = now
            if breaker.reason is Reason.AUTH:
                breaker.hint()
            for model in self._models.values():
                if model.breaker.reason is Reason.ERROR:
                    model.breaker.hint()
        return True

    @property
    def due_at(self) -> float | None:
        """When ``tick`` changes something."""
        return min((breaker.due_at for breaker in self._breakers() if breaker.due_at is not None), default=None)

    def tick(self, now: float) -> bool:
        """Time passed; whether views have changed."""
        changed = [breaker for breaker in self._breakers() if breaker.tick(now)]
        return bool(changed)

    # what is known

    def view(self, endpoint: EndpointId) -> PlaceView:
        """How that place is now."""
        place = self._places[endpoint]
        away = [breaker for breaker in self._of(place) if breaker.phase is not Phase.SERVING]
        if not away:
            if self._models[place.pool].slow:
                return PlaceView(state=State.DEGRADED, reason=Reason.SLOW, weight=SLOW_WEIGHT, since=None)
            return PlaceView(state=State.HEALTHY, reason=Reason.OK, weight=NORMAL_WEIGHT, since=None)
        worst = min(away, key=lambda breaker: (breaker.reason not in _HUMAN, breaker.since))
        if all(breaker.phase is Phase.TRIAL_DUE for breaker in away):
            return PlaceView(state=State.DEGRADED, reason=Reason.RECOVERING, weight=NORMAL_WEIGHT, since=worst.since)
        state = State.MISCONFIGURED if worst.reason in _HUMAN else State.UNHEALTHY
        return PlaceView(state=state, reason=worst.reason, weight=0, since=worst.since)

    def back_in_s(self, now: float) -> Mapping[EndpointId, float]:
        """For places that rest: how long until they may be tried."""
        rests: dict[EndpointId, float] = {}
        for place in self._places.values():
            due = [b.due_at for b in self._of(place) if b.phase is Phase.RESTING and b.due_at is not None]
            if due:
                rests[place.endpoint] = max(due) - now
        return rests
