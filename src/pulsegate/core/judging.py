"""From what happened at one endpoint to signals for its health record: the only place that knows both.

Holds no state of its own but the network watch; everything about an endpoint is in its ``Watched``.
"""

from collections.abc import Mapping
from types import MappingProxyType

from pulsegate.core.events import Alerted, AlertKind, CountersWanted, TrafficSeen
from pulsegate.core.evidence import Progress, flat_for_s, judge, moved_since, read, saw_tokens, settled
from pulsegate.core.health import Reason, Signal, State
from pulsegate.core.meaning import complaint, learn
from pulsegate.core.movement import Scene, signal
from pulsegate.core.network import NetworkWatch
from pulsegate.core.outcome import CONNECT_REASONS, Outcome, OutcomeKind, classify
from pulsegate.core.peers import MIN_ANSWERS, Compared
from pulsegate.core.probe import Counters, ProbeKind, ProbeResult
from pulsegate.core.prompts import is_expected
from pulsegate.core.status import ProbeNote
from pulsegate.core.suspicion import allay, arouse, compare_silences
from pulsegate.core.watched import Claim, Doubt, Watched

LATE_READ_S = 0.4
"""How often counters are read while a probe is late: twice before the default timeout."""

VERDICT_GRACE_S = 0.4
"""How much longer than the readings need a verdict may wait for them."""

OUTPACED_LIMIT = 3
"""Slow probes under load in a row, while most peers are fast, that mean slow: balanced queues even out sooner."""

_PLAIN: Mapping[OutcomeKind, Signal] = MappingProxyType(
    {
        OutcomeKind.TRUNCATED: Signal.TRUNCATED,
        OutcomeKind.FATAL: Signal.FATAL,
        OutcomeKind.ERROR: Signal.ERROR,
        OutcomeKind.BUSY: Signal.BUSY,
        OutcomeKind.WRONG: Signal.WRONG,
        OutcomeKind.REJECTED: Signal.REJECTED,
        OutcomeKind.STARTING: Signal.STARTING,
        OutcomeKind.SLEEPING: Signal.SLEEPING,
    }
)
_TIMEOUTS: Mapping[Progress, Signal] = MappingProxyType(
    {
        Progress.SEEN: Signal.TIMEOUT_PROGRESS,
        Progress.FLAT: Signal.TIMEOUT_FLAT,
        Progress.FROZEN: Signal.TIMEOUT_FROZEN,
        Progress.UNKNOWN: Signal.TIMEOUT,
    }
)
_SAID_SO: Mapping[Progress, str] = MappingProxyType(
    {
        Progress.SEEN: "the engine makes progress",
        Progress.FLAT: "its counters do not move",
        Progress.FROZEN: "its counters are frozen",
        Progress.UNKNOWN: "progress unknown",
    }
)
_FAILURES = frozenset(
    {OutcomeKind.TIMEOUT, OutcomeKind.STALLED, OutcomeKind.ERROR, OutcomeKind.REJECTED, OutcomeKind.WRONG}
)
_TOKENS = frozenset({OutcomeKind.TOKEN, OutcomeKind.TRUNCATED, OutcomeKind.WRONG})
_READABLE = frozenset({State.WARMING, State.HEALTHY, State.DEGRADED})
_WITNESS: Mapping[ProbeKind, Doubt] = MappingProxyType({ProbeKind.MICRO: Doubt.MICRO, ProbeKind.DEEP: Doubt.DEEP})


class Judge:
    """Moves records."""

    def __init__(self, network: NetworkWatch) -> None:
        self._network = network

    def late(self, scene: Scene, lag_s: float) -> None:
        """No token yet: congested, and time to look at the counters; unless it is we who are late."""
        watched, claim = scene.watched, scene.watched.claim
        if claim is None:
            return
        due = claim.due
        ours = lag_s > watched.policy.lag_share * due.ask.deadline_s
        # Users who get tokens meanwhile show that it is load: it is told by the token, or by the timeout.
        flows = moved_since(watched.evidence, claim.since + due.late_after_s / 2)
        if due.ask.kind is ProbeKind.MICRO and not ours and not flows:
            detail = f"no token after {due.late_after_s * 1000:.0f} ms"
            signal(scene, Signal.LATE, Reason.CONGESTED, detail)
            claim.late = True
            compare_silences(watched, scene.pool)
        if due.counters_every_s is None and watched.record.judged.state in _READABLE:
            scene.effects.append(CountersWanted(endpoint=watched.id, every_s=LATE_READ_S))

    def done(self, scene: Scene, claim: Claim, result: ProbeResult) -> Outcome:
        """A probe of the present incarnation ended."""
        watched = scene.watched
        outcome = classify(result, watched.policy, watched.limits, claim.due.ask.deadline_s)
        if outcome.kind is OutcomeKind.TOKEN:
            wrong = _wrong(scene, claim, result)
            if wrong is not None:
                outcome = Outcome(OutcomeKind.WRONG, Reason.WRONG_OUTPUT, wrong, outcome.ttft_s)
        watched.note(ProbeNote(scene.at, result, outcome))
        if watched.record.state is State.WARMING:
            scene.pool.touch(watched)  # users may wait for how its start goes on
        if outcome.kind is OutcomeKind.LOCAL:
            return outcome
        self._note_reach(scene, result, outcome)
        watched.failed_kind = result.kind if outcome.kind in _FAILURES else None
        if outcome.kind in _TOKENS:
            _alive(scene, claim, result, outcome)
            _learn_model(scene, result)
        if outcome.kind is OutcomeKind.TOKEN:
            _token(scene, claim, result)
        elif outcome.kind in (OutcomeKind.TIMEOUT, OutcomeKind.STALLED):
            _timed_out(scene, claim, outcome)
        else:
            if outcome.kind is OutcomeKind.WRONG:
                watched.doubt = _WITNESS[result.kind]
            signal(scene, _PLAIN[outcome.kind], outcome.reason, outcome.detail, claim.prompt.id)
        return outcome

    def _note_reach(self, scene: Scene, result: ProbeResult, outcome: Outcome) -> None:
        if outcome.reason in CONNECT_REASONS:
            self._network.failed(scene.watched.id, scene.at)
        elif outcome.kind is not OutcomeKind.TIMEOUT or result.bytes_read > 0:
            self._network.connected(scene.watched.id)

    def counters(self, scene: Scene, counters: Counters | None) -> None:
        """One reading: it may show a new process, progress, or that the engine is frozen."""
        watched, policy = scene.watched, scene.watched.policy
        stale_s = policy.frozen_after_s
        watched.evidence, restarted = read(watched.evidence, counters, scene.at, stale_after_s=stale_s)
        if restarted:
            signal(scene, Signal.RESTARTED, Reason.STARTING, "its counters began anew")
            return
        record = watched.record.judged
        if record.state is not State.DEGRADED or record.fails == 0:
            return
        since = scene.at if watched.last_start_at is None else watched.last_start_at
        match judge(watched.evidence, since, scene.at, policy.frozen_after_s):
            case Progress.SEEN:
                watched.verdict_by = None
                signal(scene, Signal.PROGRESS, Reason.BUSY, "no token in time, but its counters move")
            case Progress.FROZEN:
                flat_s = flat_for_s(watched.evidence)
                detail = f"no token, and its counters have not moved for {flat_s:.1f} s"
                signal(scene, Signal.FROZEN, Reason.HUNG, detail)
            case _:
                pass

    def traffic(self, scene: Scene, seen: TrafficSeen) -> None:
        """Users' requests got tokens: progress, and an end of suspicion. Or they wait for them."""
        watched, pool = scene.watched, scene.pool
        watched.inflight = seen.inflight
        if seen.tokens > 0:
            watched.evidence = saw_tokens(watched.evidence, scene.at - seen.age_s)
            allay(watched, pool)
            if watched.record.state is State.UNHEALTHY:
                pool.touch(watched)
        elif seen.stalls > 0:
            watched.users_wait = True
            compare_silences(watched, pool)

    def expire(self, scene: Scene) -> None:
        """Time passed: deadlines of this endpoint that are over."""
        watched, at = scene.watched, scene.at
        if watched.verdict_by is not None and at >= watched.verdict_by:
            watched.verdict_by = None
            signal(scene, Signal.OVERDUE, Reason.HUNG, "no token, and its counters did not decide in time")
        if watched.startup_by is not None and at >= watched.startup_by:
            watched.startup_by = None
            signal(scene, Signal.EXPIRED, Reason.STARTUP_DEADLINE, f"last: {_last_detail(watched)}")


def _wrong(scene: Scene, claim: Claim, result: ProbeResult) -> str | None:
    """What is wrong with an answer, as far as can be told without its turn's other answers."""
    watched, conversation = scene.watched, scene.pool.conversation
    wrong = complaint(result, conversation.past, watched.policy.expect, claim.prompt)
    if wrong is None and result.kind is ProbeKind.DEEP:
        wrong = conversation.canary.complaint(watched.id, claim.prompt, result)
    return wrong


def _last_detail(watched: Watched) -> str:
    return watched.failures[-1].outcome.detail if watched.failures else "no probe yet"


def _alive(scene: Scene, claim: Claim, result: ProbeResult, outcome: Outcome) -> None:
    """A token came, whatever it says."""
    watched = scene.watched
    watched.verdict_by = None
    allay(watched, scene.pool)
    if outcome.ttft_s is not None:
        fast = outcome.ttft_s <= watched.limits.healthy_ttft_s
        watched.learn_ttft(result.kind, outcome.ttft_s, fast=fast and outcome.kind is OutcomeKind.TOKEN)
    if outcome.kind is OutcomeKind.TOKEN:
        _answered(scene, claim, result, outcome)
    watched.evidence = settled(watched.evidence)


def _learn_model(scene: Scene, result: ProbeResult) -> None:
    """The name under which it gave a token is the one that users' requests must give, too."""
    if result.served_model not in (None, scene.watched.served_model):
        scene.watched.served_model = result.served_model
        scene.pool.touch(scene.watched)


def _answered(scene: Scene, claim: Claim, result: ProbeResult, outcome: Outcome) -> None:
    """A token that nothing is wrong with, as far as it can be told without peers."""
    watched, conversation = scene.watched, scene.pool.conversation
    conversation.past = learn(claim.prompt, result, conversation.past)
    if watched.doubt is Doubt.DEEP and result.kind is ProbeKind.DEEP and not _settles_doubt(scene, claim, result):
        watched.last_deep_at = scene.at
        signal(scene, Signal.HELD)
        return
    if watched.doubt is _WITNESS[result.kind]:
        watched.doubt = Doubt.NOBODY
        signal(scene, Signal.RIGHT)
    if result.kind is ProbeKind.DEEP:
        watched.last_deep_at = scene.at
        signal(scene, Signal.DEEP)
    elif outcome.reason is not Reason.SLOW:
        watched.outpaced = 0
        if watched.unproven and scene.pool.answering(watched.id) >= MIN_ANSWERS:
            watched.token_held = True  # counts when its peers have agreed
            signal(scene, Signal.HELD)
        else:
            signal(scene, Signal.FAST)
    else:
        loaded = _is_load(scene, claim)
        signal(scene, Signal.SLOW_LOADED if loaded else Signal.SLOW, Reason.SLOW, outcome.detail)


def _is_load(scene: Scene, claim: Claim) -> bool:
    """Whether a slow answer is explained by users' load, which its peers bear as well."""
    watched = scene.watched
    if not moved_since(watched.evidence, claim.since):
        return False
    watched.outpaced = watched.outpaced + 1 if scene.pool.outruns(watched.id) else 0
    return watched.outpaced < OUTPACED_LIMIT


def _settles_doubt(scene: Scene, claim: Claim, result: ProbeResult) -> bool:
    """Whether a deep answer clears its endpoint: where the model can go on with series, it must have done so."""
    return is_expected(claim.prompt, result.text) or not scene.pool.conversation.past.competent


def _token(scene: Scene, claim: Claim, result: ProbeResult) -> None:
    """Compare with the peers' answers, where there are peers."""
    pool = scene.pool
    if result.kind is ProbeKind.DEEP or result.fault is not None or len(pool.members) < MIN_ANSWERS:
        return
    peers = pool.conversation.peers
    compared = peers.answered(
        scene.watched.id, claim.turn, claim.prompt.id, result.text, pool.answering(scene.watched.id)
    )
    if not compared:
        return
    for one in compared:
        other = pool.members.get(one.endpoint)
        if other is not None:
            _compared(Scene(other, pool, scene.at, scene.effects), one)
    for prompt in peers.near_ties(pool.conversation.is_droppable):
        pool.conversation.drop(prompt)
        detail = f"sound endpoints disagree on {prompt!r}"
        scene.effects.append(
            Alerted(at=scene.at, kind=AlertKind.PROMPT_DROPPED, pool=pool.spec.name, endpoint=None, detail=detail)
        )


def _compared(scene: Scene, one: Compared) -> None:
    """What the comparison with its peers means for one endpoint."""
    watched = scene.watched
    held, watched.token_held = watched.token_held, False
    if one.right is False:
        watched.doubt = Doubt.PEERS
        signal(scene, Signal.WRONG, Reason.WRONG_OUTPUT, one.detail, one.prompt)
        return
    if one.right and watched.doubt is Doubt.PEERS:
        watched.doubt = Doubt.NOBODY
        signal(scene, Signal.RIGHT)
    if held:
        signal(scene, Signal.FAST)


def _timed_out(scene: Scene, claim: Claim, outcome: Outcome) -> None:
    """No token, or not all of them: what is known about progress decides how much that says."""
    watched, policy = scene.watched, scene.watched.policy
    arouse(watched, scene.pool)
    progress = judge(watched.evidence, claim.since, scene.at, policy.frozen_after_s)
    detail = f"{outcome.detail}; {_SAID_SO[progress]}"
    if outcome.kind is OutcomeKind.STALLED and progress is not Progress.SEEN:
        signal(scene, Signal.STALLED, Reason.STALLED, detail)
        return
    signal(scene, _TIMEOUTS[progress], outcome.reason, detail)
    record = watched.record.judged
    waits = progress is Progress.FLAT and record.state is State.DEGRADED and record.fails >= policy.fall
    if waits and watched.verdict_by is None:
        missing_s = max(0.0, policy.frozen_after_s - flat_for_s(watched.evidence))
        watched.verdict_by = scene.at + missing_s + VERDICT_GRACE_S
        scene.pool.touch(watched)
