"""What a signal does to an endpoint: the table says how its record moves, and this what else follows from that.

Does not decide which signal something is (``judging.py``) nor what state follows (``health.py``).
"""

from typing import NamedTuple

from pulsegate.core.events import Alerted, AlertKind, Effect, Transitioned
from pulsegate.core.evidence import Evidence
from pulsegate.core.health import Reason, Signal, State
from pulsegate.core.ids import Incarnation, PromptId
from pulsegate.core.pool import Pool
from pulsegate.core.record import Given, step
from pulsegate.core.status import TransitionNote
from pulsegate.core.watched import Doubt, Watched

_SERVED = frozenset({State.HEALTHY, State.DEGRADED, State.UNHEALTHY})


class Scene(NamedTuple):
    """Where something happens and when; ``effects`` takes what follows."""

    watched: Watched
    pool: Pool
    at: float
    effects: list[Effect]


def signal(
    scene: Scene, what: Signal, reason: Reason = Reason.OK, detail: str = "", prompt: PromptId | None = None
) -> None:
    """Let the table say what follows, and take down what did."""
    watched = scene.watched
    if what is watched.moves_nothing:
        return
    old = watched.record
    new = step(old, what, watched.policy, Given(scene.at, reason, detail, prompt))
    if new is old:
        watched.moves_nothing = what if reason is Reason.OK else None
        return
    watched.record = new
    watched.moves_nothing = None
    was, now = old.judged, new.judged
    if what is Signal.RESTARTED or (what is Signal.STARTING and was.state in _SERVED):
        begin_life(scene)
    if now.state is not was.state:
        watched.waits = 0
        if now.state is State.UNHEALTHY:
            _condemned(scene, detail)
        elif now.state is State.HEALTHY:
            watched.unproven = False
    if now.state is not State.WARMING or now.reason is Reason.SLEEPING:
        watched.startup_by = None
    elif watched.startup_by is None:
        watched.startup_by = scene.at + watched.policy.startup_deadline_s
    if new.state is old.state and new.reason is old.reason:
        return
    note_transition(scene, old.state, old.reason)


def begin_life(scene: Scene) -> None:
    """A new process: nothing that was seen of the old one counts, but how often it was ejected."""
    watched = scene.watched
    watched.incarnation = Incarnation(watched.incarnation + 1)
    watched.evidence = Evidence()
    watched.suspect = watched.unproven = watched.token_held = False
    watched.doubt = Doubt.NOBODY
    watched.failed_kind = None
    watched.startup_by = watched.verdict_by = None
    scene.pool.conversation.peers.forget(watched.id)
    scene.pool.conversation.canary.forget(watched.id)
    scene.pool.touch(watched)


def _condemned(scene: Scene, detail: str) -> None:
    watched = scene.watched
    watched.verdict_by = None
    watched.unproven = watched.doubt is Doubt.PEERS and watched.record.judged.reason is Reason.WRONG_OUTPUT
    if watched.record.state is State.UNHEALTHY:
        scene.effects.append(
            Alerted(
                at=scene.at,
                kind=AlertKind.EJECTION_DETECTED,
                pool=scene.pool.spec.name,
                endpoint=watched.id,
                detail=f"{watched.record.reason}: {detail}",
            )
        )


def note_transition(scene: Scene, old: State, old_reason: Reason) -> None:
    """State or reason are new: take it down, and tell."""
    watched, new = scene.watched, scene.watched.record
    watched.transitions.append(
        TransitionNote(
            at=scene.at,
            incarnation=watched.incarnation,
            old=old,
            new=new.state,
            old_reason=old_reason,
            reason=new.reason,
            detail=new.detail,
        )
    )
    scene.effects.append(
        Transitioned(
            at=scene.at,
            endpoint=watched.id,
            pool=scene.pool.spec.name,
            incarnation=watched.incarnation,
            old=old,
            new=new.state,
            old_reason=old_reason,
            reason=new.reason,
            detail=new.detail,
        )
    )
    scene.pool.moved(watched)
