"""Which probe is due when: the fleet's timetable of probes, and what each of them asks."""

from random import Random

from pulsegate.core.asking import make_ask, next_turn, reads_from_start
from pulsegate.core.events import ProbeCause, ProbeWanted
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId
from pulsegate.core.movement import Scene
from pulsegate.core.network import NetworkWatch
from pulsegate.core.outcome import CONNECT_REASONS, Outcome, OutcomeKind
from pulsegate.core.peers import MIN_ANSWERS
from pulsegate.core.pool import Pool
from pulsegate.core.probe import ProbeKind
from pulsegate.core.prompts import Prompt
from pulsegate.core.schedule import Course, Timetable, first_due_at, jittered, next_slot, plan
from pulsegate.core.status import DueProbe
from pulsegate.core.watched import Claim, Doubt, Watched

MIN_GAP_S = 0.5
"""Between two probes that users' failures ask for."""

TAKE_OVER_SHARE = 0.5
"""Of an interval, that passes before the first probe of an endpoint which another gateway has probed, and after it."""

_WAITING = frozenset({State.UNHEALTHY, State.MISCONFIGURED})


class Agenda:
    """Due times of all endpoints. One probe in flight each: who is claimed has no due time."""

    def __init__(self, rng: Random, network: NetworkWatch) -> None:
        self._rng = rng
        self._network = network
        self._probes: Timetable[EndpointId] = Timetable()
        self.stretch = 1  # every interval is that many times as long
        self.shift = 0.0  # added to every endpoint's place in its interval

    def put(self, endpoint: EndpointId, at: float) -> None:
        """Make or move an appointment."""
        self._probes.put(endpoint, at)

    def drop(self, endpoint: EndpointId) -> None:
        """This endpoint is no longer watched."""
        self._probes.drop(endpoint)

    def at(self, endpoint: EndpointId) -> float | None:
        """When its next probe is due; None while one is in flight."""
        return self._probes.at(endpoint)

    def next_at(self) -> float | None:
        """When the first probe is due."""
        return self._probes.next_at()

    def pop(self, at: float) -> tuple[float, EndpointId] | None:
        """Who is due, with the due time."""
        return self._probes.pop(at)

    def begin(self, fresh: list[Watched], at: float) -> None:
        """First probes: soon, but not all at once."""
        fresh.sort(key=lambda watched: watched.phase)
        for rank, watched in enumerate(fresh):
            self.put(watched.id, first_due_at(rank, len(fresh), watched.policy.interval_s * self.stretch, at))

    def take_over(self, fresh: list[Watched], at: float) -> None:
        """Probes of endpoints that another gateway has probed so far, perhaps just now: each in its place, and soon.

        Not sooner than in almost half an interval: however often an endpoint is handed on, it is not probed more than
        twice in one interval. Not later than in almost one: the other gateway may have been dead for one already.
        """
        for watched in fresh:
            watched.taken_over = True
            share = TAKE_OVER_SHARE + (1.0 - TAKE_OVER_SHARE) * self._place(watched)
            self.put(watched.id, at + watched.policy.interval_s * self.stretch * share * 0.9)

    def hasten(self, watched: list[Watched], at: float) -> None:
        """Intervals are shorter than they were: nobody waits for a longer one."""
        for one in watched:
            due_at, latest = self.at(one.id), at + one.policy.interval_s * self.stretch * (1.0 + one.policy.jitter)
            if due_at is not None and due_at > latest and one.record.judged.state not in _WAITING:
                self.take_over([one], at)

    def postpone(self, watched: Watched, at: float) -> None:
        """To the next slot of the grid."""
        self.put(watched.id, self._slot(watched, watched.policy.interval_s, at))

    def _slot(self, watched: Watched, wait_s: float, at: float) -> float:
        policy = watched.policy
        wait_s *= self.stretch
        if watched.taken_over:
            watched.taken_over = False
            at += wait_s * (TAKE_OVER_SHARE - 0.1)  # its own place in the interval may be right ahead
        return jittered(next_slot(self._place(watched), wait_s, at, policy.jitter), policy, self._rng)

    def _place(self, watched: Watched) -> float:
        """Where in its interval it is probed, 0 to 1."""
        return (watched.phase + self.shift) % 1.0

    def claim(self, watched: Watched, pool: Pool, due_at: float, at: float) -> DueProbe | None:
        """Claim the endpoint for its due probe; None when users' tokens make the probe needless for now."""
        if _is_proven_by_users(watched, at):
            self.postpone(watched, at)
            return None
        turn = next_turn(watched, at)
        prompt = _prompt(watched, pool, turn)
        due = DueProbe(
            endpoint=watched.id,
            pool=watched.spec.pool,
            incarnation=watched.incarnation,
            ask=make_ask(watched, prompt, pool.conversation.nonce(turn)),
            due_at=due_at,
            late_after_s=watched.limits.congested_ttft_s,
            cause=watched.next_cause,
            counters_every_s=reads_from_start(watched),
        )
        watched.turn = turn
        watched.wanted_at = None
        watched.last_start_at = at
        watched.claim = Claim(due, prompt, at, turn)
        return due

    def after(self, scene: Scene, outcome: Outcome) -> None:
        """A probe ended: when and how is the next?"""
        watched, policy = scene.watched, scene.watched.policy
        if outcome.kind is OutcomeKind.LOCAL:
            self.postpone(watched, scene.at)  # not sooner: a prober that is overloaded would overload itself for ever
            return
        if watched.record.judged.state in _WAITING:
            watched.waits = self._waits(watched, outcome)
        following = plan(watched.record, policy, _course(watched, scene.pool, scene.at))
        watched.next_kind, watched.next_cause = following.kind, following.cause
        if following.delay_s is None:
            wait_s = following.wait_s
            if outcome.retry_after_s is not None:
                wait_s = max(wait_s, min(outcome.retry_after_s, policy.busy_interval_s))
            due_at = self._slot(watched, wait_s, scene.at)
        else:
            due_at = scene.at + following.delay_s
        if watched.wanted_at is not None and watched.wanted_at < due_at:
            due_at, watched.next_cause = max(scene.at, watched.wanted_at), ProbeCause.TRAFFIC
        self.put(watched.id, due_at)
        cause = watched.next_cause
        if cause is not None and cause is not ProbeCause.DEEP:
            delay_s = due_at - scene.at
            wanted = ProbeWanted(endpoint=watched.id, kind=following.kind, cause=cause, delay_s=delay_s)
            scene.effects.append(wanted)

    def _waits(self, watched: Watched, outcome: Outcome) -> int:
        """One more, unless it answers or may well answer: a suspect network should be seen to come back."""
        doubtful = self._network.suspect_since is not None and outcome.reason in CONNECT_REASONS
        return 0 if outcome.kind is OutcomeKind.TOKEN or doubtful else watched.waits + 1

    def want(self, scene: Scene) -> None:
        """Users' requests fail or stall there: probe now, but not in a tight loop."""
        watched = scene.watched
        if watched.resting:
            return
        last = watched.last_start_at
        wanted_at = scene.at if last is None else max(scene.at, last + MIN_GAP_S)
        if watched.claim is not None:
            watched.wanted_at = wanted_at
            return
        due_at = self.at(watched.id)
        if due_at is not None and due_at <= wanted_at:
            return
        self.put(watched.id, wanted_at)
        watched.next_cause = ProbeCause.TRAFFIC
        delay_s = wanted_at - scene.at
        wanted = ProbeWanted(endpoint=watched.id, kind=watched.next_kind, cause=ProbeCause.TRAFFIC, delay_s=delay_s)
        scene.effects.append(wanted)


def _prompt(watched: Watched, pool: Pool, turn: tuple[int, int]) -> Prompt:
    if watched.next_kind is ProbeKind.MICRO:
        return pool.conversation.micro_prompt(turn)
    watched.deep_asked += 1
    return pool.conversation.deep_prompt(watched)


def _course(watched: Watched, pool: Pool, at: float) -> Course:
    policy = watched.policy
    last = watched.last_deep_at  # the probe that is planned here comes an interval later
    return Course(
        failed_kind=watched.failed_kind,
        deep_is_due=last is None or at - last >= policy.deep_interval_s - 1.5 * policy.interval_s,
        waits=watched.waits,
        doubted=watched.doubt is Doubt.DEEP,
        unproven=watched.unproven and pool.answering(watched.id) >= MIN_ANSWERS,
    )


def _is_proven_by_users(watched: Watched, at: float) -> bool:
    """Whether users got tokens there so lately that a scheduled probe can wait, within ``busy_interval_s``.

    "Lately" is half an interval, so that tokens that stop to flow are missed no later than at the slot after.
    """
    tokens_at, last = watched.evidence.tokens_at, watched.last_start_at
    if watched.next_cause is not None or watched.next_kind is ProbeKind.DEEP or tokens_at is None or last is None:
        return False
    record, policy = watched.record.judged, watched.policy
    calm = record.state is State.HEALTHY or (record.state is State.DEGRADED and record.reason is Reason.BUSY)
    flowing = at - tokens_at <= policy.interval_s / 2
    return calm and flowing and at - last + policy.interval_s / 2 < policy.busy_interval_s
