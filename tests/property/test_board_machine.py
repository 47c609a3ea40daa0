"""What must hold whatever engines, users, operators and our own loop do, in any order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pulsegate.core.ejection import budget
from pulsegate.core.events import (
    Alerted,
    AlertKind,
    DrainAsked,
    Effect,
    Event,
    ProbeDone,
    SnapshotChanged,
    TrafficSeen,
    Transitioned,
)
from pulsegate.core.fleet import EjectionPolicy, PoolSpec, ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import FaultClass
from pulsegate.core.snapshot import EndpointView, PoolView, Snapshot
from support.core_world import HANGS, SOUND, Manner, World, failing, frozen, moving
from support.samples import spec

NAMES = "abcdef"
HARD = {Reason.CUDA, Reason.ENGINE_DEAD, Reason.WRONG_OUTPUT, Reason.STARTUP_DEADLINE}
FAILED = {OutcomeKind.TIMEOUT, OutcomeKind.STALLED, OutcomeKind.ERROR, OutcomeKind.REJECTED}
SERVING = {State.HEALTHY, State.DEGRADED}
EJECTION = EjectionPolicy(hold_off_max_s=40.0, slow_start_s=10.0)

MANNERS = st.sampled_from(
    [
        SOUND,
        SOUND,
        HANGS,
        Manner(ttft_s=0.25),
        Manner(ttft_s=0.5, counters=moving()),
        Manner(ttft_s=None, counters=moving()),
        Manner(ttft_s=None, counters=frozen()),
        Manner(ttft_s=None, counters=frozen(9, 0, 0)),
        Manner(text="!"),
        Manner(text="purple"),
        Manner(deep_text="GGGG"),
        Manner(decodes=False),
        Manner(lag_s=1.0),
        Manner(ttft_s=None, lag_s=1.0),
        *(failing(kind) for kind in FaultClass),
        failing(FaultClass.OVERLOAD, retry_after_s=8.0),
    ]
)

TIMES = st.sampled_from([0.3, 0.9, 2.0, 5.0, 5.0, 20.0, 65.0])


class Checked(World):
    """Looks at every single event and what came of it."""

    def apply(self, event: Event) -> tuple[Effect, ...]:
        before = self.board.snapshot
        was = self.board.status(event.endpoint) if isinstance(event, ProbeDone) else None
        effects = super().apply(event)
        after = self.board.snapshot
        if SnapshotChanged() in effects:
            assert after.version == before.version + 1
            assert effects.count(SnapshotChanged()) == 1
        else:
            assert after is before, "the same object when nothing changed"
        if isinstance(event, ProbeDone) and was is not None:
            outcome = self.board.outcome(event.endpoint, event.at)
            now = self.board.status(event.endpoint)
            if outcome is not None and outcome.kind is OutcomeKind.LOCAL and now is not None:
                assert (was.state, was.reason, was.since, was.weight) == (now.state, now.reason, now.since, now.weight)
        for effect in effects:
            if isinstance(effect, Transitioned) and effect.new is State.UNHEALTHY:
                self._check_condemned(effect)
        self._check_brakes(effects, after)
        for pool in after.pools:
            _check_views(pool)
        return effects

    def _check_condemned(self, effect: Transitioned) -> None:
        """Only failures in a row or a hard class make unhealthy."""
        if effect.reason in HARD or effect.old is State.DRAINING:
            return
        status = self.board.status(effect.endpoint)
        assert status is not None
        notes = sorted((*status.successes, *status.failures), key=lambda note: note.at)
        last = [note.outcome.kind for note in notes if note.outcome.kind is not OutcomeKind.LOCAL][-2:]
        assert len(last) == 2
        assert set(last) <= FAILED, (effect, last)

    def _check_brakes(self, effects: tuple[Effect, ...], snapshot: Snapshot) -> None:
        """No soft ejection beyond the budget while others in the pool give tokens."""
        for effect in effects:
            if not isinstance(effect, Alerted) or effect.kind is not AlertKind.EJECTION_ENFORCED:
                continue
            pool = next(pool for pool in snapshot.pools if pool.name == effect.pool)
            views = {view.id: view for view in pool.endpoints}
            status = self.board.status(effect.endpoint) if effect.endpoint else None
            assert status is not None
            certain = status.reason in HARD or (status.reason is Reason.HUNG and "counters" in status.detail)
            others_give = any(view.state in SERVING for view in views.values())
            if others_give and not certain:
                enforced = [view for view in views.values() if view.state is State.UNHEALTHY and view.ejected]
                assert len(enforced) <= budget(len(views), EJECTION)


def _check_views(pool: PoolView) -> None:
    assert pool.down == all(view.weight == 0 for view in pool.endpoints)
    sound = any(view.state is State.HEALTHY and view.weight > 0 for view in pool.endpoints)
    for view in pool.endpoints:
        _check_view(view, sound=sound)
    if any(view.state in SERVING for view in pool.endpoints):
        assert not pool.down, "a pool with somebody who gives tokens serves"


def _check_view(view: EndpointView, *, sound: bool) -> None:
    assert 0 <= view.weight <= 100
    if view.ejected or view.state in (State.WARMING, State.MISCONFIGURED, State.DRAINING):
        assert view.weight == 0
    if view.low_only:
        assert sound, "lanes hold only while the pool has a healthy one"
        assert view.state is not State.HEALTHY


class Board(RuleBasedStateMachine):
    """Two pools, six endpoints."""

    @initialize(seed=st.integers(0, 1000), peers=st.booleans())
    def start(self, seed: int, peers: bool) -> None:
        first = NAMES if peers else NAMES[:2]
        pools = [
            PoolSpec(
                name=PoolName(name),
                endpoints=tuple(spec(one, pool=name) for one in members),
                probe=ProbePolicy(startup_deadline_s=60.0),
                ejection=EJECTION,
            )
            for name, members in (("m", first), ("n", NAMES[len(first) :]))
            if members
        ]
        self.world = Checked(*pools, seed=seed)
        self.world.run(5.0)

    @rule(names=st.sets(st.sampled_from(NAMES), min_size=1), manner=MANNERS, seconds=TIMES)
    def behave(self, names: set[str], manner: Manner, seconds: float) -> None:
        self.world.set(manner, *sorted(names))
        self.world.run(self.world.now + seconds)

    @rule(seconds=TIMES)
    def all_are_sound(self, seconds: float) -> None:
        self.world.set(SOUND, *NAMES)
        self.world.run(self.world.now + seconds)

    @rule(name=st.sampled_from(NAMES), drain=st.booleans())
    def operator(self, name: str, drain: bool) -> None:
        self.world.apply(DrainAsked(at=self.world.now, endpoint=EndpointId(name), drain=drain))

    @rule(name=st.sampled_from(NAMES), tokens=st.integers(0, 3), failures=st.integers(0, 2), stalls=st.integers(0, 1))
    def users(self, name: str, tokens: int, failures: int, stalls: int) -> None:
        endpoint = EndpointId(name)
        seen = TrafficSeen(at=self.world.now, endpoint=endpoint, tokens=tokens, failures=failures, stalls=stalls)
        self.world.apply(seen)

    @invariant()
    def everybody_has_an_appointment_or_a_probe_in_flight(self) -> None:
        if not hasattr(self, "world"):
            return
        for status in self.world.board.statuses():
            due = status.next_probe_at
            if due is not None:
                assert due <= self.world.now + 33.0

    def teardown(self) -> None:
        """Whatever happened: sound engines are healthy and serve in the end."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.set(SOUND, *NAMES)
        for name in NAMES:
            world.apply(DrainAsked(at=world.now, endpoint=EndpointId(name), drain=False))
        world.run(world.now + 120.0)
        for pool in world.board.snapshot.pools:
            assert [(view.state, view.weight) for view in pool.endpoints] == [(State.HEALTHY, 100)] * len(
                pool.endpoints
            )


TestBoard = Board.TestCase
TestBoard.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
