"""What one gateway tells of an endpoint and what it takes from others: between ``Watched`` and ``Verdict``."""

from dataclasses import replace

from pulsegate.core.evidence import Evidence
from pulsegate.core.health import Reason, State
from pulsegate.core.hearing import Verdict
from pulsegate.core.ids import MemberId
from pulsegate.core.movement import Scene, begin_life, note_transition
from pulsegate.core.probe import ProbeKind
from pulsegate.core.record import HealthRecord
from pulsegate.core.watched import Watched


def news_of(watched: Watched) -> tuple[object, ...]:
    """What others should hear of at once when it changes."""
    record = watched.record.judged
    return (record.state, record.reason, record.hard, watched.suspect, watched.incarnation, watched.served_model)


def verdict_of(watched: Watched, at: float) -> Verdict:
    """What there is to say. What an operator has asked for concerns this gateway only."""
    record = watched.record.judged
    return Verdict(
        endpoint=watched.id,
        author=MemberId(""),
        epoch=0,
        sequence=0,
        incarnation=watched.incarnation,
        state=record.state,
        reason=record.reason,
        detail=record.detail,
        hard=record.hard,
        suspect=watched.suspect,
        age_s=at - record.since,
        streak=record.streak,
        fails=record.fails,
        deep_due=record.deep_due,
        server=watched.server,
        served_model=watched.served_model,
        ttft_s=watched.ttft_s,
        probed_s=None if watched.last_probe_at is None else at - watched.last_probe_at,
        deep_s=None if watched.last_deep_at is None else at - watched.last_deep_at,
    )


def adopt(scene: Scene, verdict: Verdict, said_at: float) -> None:
    """Another gateway's verdict is this endpoint's health."""
    watched = scene.watched
    if verdict.incarnation > watched.incarnation:
        begin_life(scene)
        watched.incarnation = verdict.incarnation
    heard = HealthRecord(
        state=verdict.state,
        reason=verdict.reason,
        since=said_at - verdict.age_s,
        detail=verdict.detail,
        streak=verdict.streak,
        fails=verdict.fails,
        deep_due=verdict.deep_due,
        hard=verdict.hard,
    )
    watched.served_model = verdict.served_model
    watched.ttft_s = verdict.ttft_s
    watched.suspect = verdict.suspect
    if verdict.probed_s is not None:
        watched.last_probe_at = said_at - verdict.probed_s
    if verdict.deep_s is not None:
        watched.last_deep_at = said_at - verdict.deep_s
    _enter(scene, heard)


def retire(scene: Scene) -> None:
    """Another gateway probes it from now on. What is known of it stays until that one says something else."""
    watched = scene.watched
    watched.resting = True
    scene.pool.resting.add(watched.id)
    watched.verdict_by = watched.startup_by = watched.wanted_at = None
    watched.next_cause = watched.failed_kind = None
    watched.next_kind = ProbeKind.MICRO
    watched.unproven = watched.token_held = False
    watched.evidence = Evidence(tokens_at=watched.evidence.tokens_at)  # readings grow old while others probe it
    scene.pool.conversation.peers.forget(watched.id)


def engage(scene: Scene, *, confirm: bool = False) -> bool:
    """Probe it here from now on, and go on from what is known; False if it was probed here already.

    ``confirm``: another gateway condemns it, so that one more failure is enough.
    """
    watched = scene.watched
    if not watched.resting:
        return False
    watched.resting = False
    watched.told = None
    scene.pool.resting.discard(watched.id)
    record = watched.record.judged
    if confirm:
        fails = max(0, watched.policy.fall - 1)
        doubt = HealthRecord(
            state=State.DEGRADED,
            reason=record.reason,
            since=scene.at,
            detail=record.detail,
            fails=fails,
            deep_due=False,
        )
        _enter(scene, doubt)
    elif record.state is State.WARMING and record.reason is not Reason.SLEEPING:
        watched.startup_by = record.since + watched.policy.startup_deadline_s
    scene.pool.touch(watched)
    return watched.claim is None


def _enter(scene: Scene, judged: HealthRecord) -> None:
    watched, old = scene.watched, scene.watched.record
    watched.record = judged if old.beneath is None else replace(old, beneath=judged)
    watched.moves_nothing = None
    if watched.record.state is not old.state or watched.record.reason is not old.reason:
        note_transition(scene, old.state, old.reason)
    scene.pool.touch(watched)
