"""The one owner of truth: folds events into what is known about every endpoint.

Synchronous and without I/O: ``apply`` never waits, so nobody needs a lock. The caller's loop is::

    for due in board.take_due(clock.now()):
        start(due)                       # ends in board.apply(ProbeDone(...)), or board.give_back(...)
    sleep_until(board.next_wake_at())    # or until an event was applied
    board.apply(Tick(at=clock.now()))

and after every ``apply`` the effects are carried out. ``ProbeWanted`` needs no bookkeeping by the caller: the board has
moved the endpoint's due time already, so look at ``next_wake_at`` again.
"""

from random import Random
from typing import assert_never

from pulsegate.core.agenda import Agenda
from pulsegate.core.asking import Conversation
from pulsegate.core.events import (
    Alerted,
    AlertKind,
    CountersRead,
    DrainAsked,
    DutiesChanged,
    Effect,
    Event,
    FleetChanged,
    ProbeDone,
    ProbeLate,
    SnapshotChanged,
    Tick,
    TrafficSeen,
    VerdictChanged,
    VerdictHeard,
)
from pulsegate.core.fleet import Fleet
from pulsegate.core.health import Reason, Signal
from pulsegate.core.hearing import Verdict
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.judging import Judge
from pulsegate.core.movement import Scene, signal
from pulsegate.core.network import NetworkWatch
from pulsegate.core.outcome import Outcome
from pulsegate.core.pool import Pool
from pulsegate.core.schedule import Timetable
from pulsegate.core.snapshot import Snapshot
from pulsegate.core.status import DueProbe, EndpointStatus
from pulsegate.core.verdicts import adopt, engage, news_of, retire, verdict_of
from pulsegate.core.watched import Watched, keep_or_begin
from pulsegate.core.weights import next_ramp_at


class Board:
    """Knows the fleet from ``FleetChanged`` on; until then it is empty."""

    def __init__(self, rng: Random, *, shared: bool = False) -> None:
        """``rng`` gives the jitter and the seed of the nonces.

        ``shared``: other gateways probe the same fleet, so nothing is probed before ``DutiesChanged``.
        """
        self._shared = shared
        self._seed = rng.getrandbits(64)
        self._network = NetworkWatch()
        self._agenda = Agenda(rng, self._network)
        self._judge = Judge(self._network)
        self._pools: dict[PoolName, Pool] = {}
        self._watched: dict[EndpointId, Watched] = {}
        self._timers: Timetable[EndpointId] = Timetable()
        self._window_s = 0.0
        self._windows = 0
        self._version = 0
        self._snapshot: Snapshot | None = None

    def apply(self, event: Event) -> tuple[Effect, ...]:
        """Take in one event; what follows from it, in order. Events of an unknown endpoint or an earlier life: ()."""
        effects: list[Effect] = []
        match event:
            case ProbeDone():
                self._done(event, effects)
            case ProbeLate():
                scene = self._scene(event.endpoint, event.at, effects)
                if scene is not None and _concerns(scene.watched, event.incarnation):
                    self._judge.late(scene, event.lag_s)
                    self._settle(scene.pool, scene.at, effects)
            case CountersRead():
                scene = self._scene(event.endpoint, event.at, effects)
                if scene is not None and _concerns(scene.watched, event.incarnation):
                    self._judge.counters(scene, event.counters)
                    self._settle(scene.pool, scene.at, effects)
            case TrafficSeen():
                self._traffic(event, effects)
            case DrainAsked():
                scene = self._scene(event.endpoint, event.at, effects)
                if scene is not None:
                    what = Signal.DRAIN if event.drain else Signal.UNDRAIN
                    signal(scene, what, Reason.OPERATOR, "asked for by the operator")
                    self._settle(scene.pool, scene.at, effects)
            case Tick():
                self._tick(event.at, effects)
            case FleetChanged():
                self._fleet_changed(event.fleet, event.at, effects)
            case DutiesChanged() | VerdictHeard():
                self._among_others(event, effects)
            case _:
                assert_never(event)
        return tuple(effects)

    @property
    def snapshot(self) -> Snapshot:
        """The routing table; the same object as long as nothing that others can see has changed."""
        if self._snapshot is None:
            pools = tuple(pool.view for pool in self._pools.values())
            self._snapshot = Snapshot(version=self._version, pools=pools)
        return self._snapshot

    def take_due(self, at: float, limit: int | None = None) -> tuple[DueProbe, ...]:
        """The probes that must start now, at most ``limit``, earliest first; claims them: one in flight each."""
        taken: list[DueProbe] = []
        while limit is None or len(taken) < limit:
            popped = self._agenda.pop(at)
            if popped is None:
                break
            watched = self._watched[popped[1]]
            due = self._agenda.claim(watched, self._pools[watched.spec.pool], popped[0], at)
            if due is not None:
                taken.append(due)
        return tuple(taken)

    def give_back(self, endpoint: EndpointId, at: float) -> None:
        """A claimed probe that came to nothing (cancelled, or not to be judged): due again an interval later."""
        watched = self._watched.get(endpoint)
        if watched is not None and self._agenda.at(endpoint) is None:
            watched.claim = None
            if not watched.resting:
                self._agenda.postpone(watched, at)

    def next_wake_at(self) -> float | None:
        """When to call ``apply(Tick)`` and ``take_due`` next, monotonic seconds; None when nothing is watched."""
        moments = (self._agenda.next_at(), self._timers.next_at(), self._network_end_at())
        return min((moment for moment in moments if moment is not None), default=None)

    def status(self, endpoint: EndpointId) -> EndpointStatus | None:
        """Everything about one endpoint; None if it is not known."""
        watched = self._watched.get(endpoint)
        return None if watched is None else watched.status(self._agenda.at(endpoint))

    def verdict(self, endpoint: EndpointId, at: float) -> Verdict | None:
        """What other gateways should know of an endpoint, without author and order; None if it is not probed here."""
        watched = self._watched.get(endpoint)
        return None if watched is None or watched.resting else verdict_of(watched, at)

    def is_about_ours(self, verdict: Verdict) -> bool:
        """Whether another gateway means the same server by that endpoint's id."""
        watched = self._watched.get(verdict.endpoint)
        return watched is not None and watched.server == verdict.server

    def outcome(self, endpoint: EndpointId, at: float) -> Outcome | None:
        """What the probe that ended ``at`` this moment amounted to; None if it did not count (an earlier life)."""
        watched = self._watched.get(endpoint)
        note = None if watched is None else watched.last_note
        return note.outcome if note is not None and note.at == at else None

    def statuses(self) -> tuple[EndpointStatus, ...]:
        """Everything about every endpoint, in the order of the configuration."""
        return tuple(watched.status(self._agenda.at(key)) for key, watched in self._watched.items())

    def _scene(self, endpoint: EndpointId, at: float, effects: list[Effect]) -> Scene | None:
        watched = self._watched.get(endpoint)
        return None if watched is None else Scene(watched, self._pools[watched.spec.pool], at, effects)

    def _done(self, event: ProbeDone, effects: list[Effect]) -> None:
        scene = self._scene(event.endpoint, event.at, effects)
        if scene is None or scene.watched.claim is None:
            return
        claim, scene.watched.claim = scene.watched.claim, None
        if scene.watched.resting:  # it was handed over while this probe was on its way
            return
        if event.incarnation != scene.watched.incarnation:
            self._agenda.put(event.endpoint, event.at)  # an answer of the life before: ask the new one
            return
        outcome = self._judge.done(scene, claim, event.result)
        self._agenda.after(scene, outcome)
        self._look_at_network(event.at, effects)
        self._settle(scene.pool, event.at, effects)

    def _traffic(self, event: TrafficSeen, effects: list[Effect]) -> None:
        scene = self._scene(event.endpoint, event.at, effects)
        if scene is None:
            return
        self._judge.traffic(scene, event)
        if event.failures > 0 or event.stalls > 0:
            self._agenda.want(scene)
        self._settle(scene.pool, event.at, effects)

    def _tick(self, at: float, effects: list[Effect]) -> None:
        touched: dict[PoolName, Pool] = {}
        while (popped := self._timers.pop(at)) is not None:
            scene = self._scene(popped[1], at, effects)
            if scene is not None:
                self._judge.expire(scene)
                scene.pool.touch(scene.watched)
                touched[scene.pool.spec.name] = scene.pool
        self._look_at_network(at, effects)
        for pool in touched.values():
            self._settle(pool, at, effects)

    def _network_end_at(self) -> float | None:
        since = self._network.suspect_since
        return None if since is None else since + self._windows * self._window_s

    def _look_at_network(self, at: float, effects: list[Effect]) -> None:
        if self._network.quiet:
            return
        suspect = self._network.look(at, self._window_s, self._windows)
        if suspect is None:
            return
        kind = AlertKind.NETWORK_SUSPECT if suspect else AlertKind.NETWORK_CLEAR
        effects.append(Alerted(at=at, kind=kind, pool=None, endpoint=None, detail=self._network.share))
        for pool in self._pools.values():
            for watched in pool.members.values():
                pool.touch(watched)
            self._settle(pool, at, effects)

    def _settle(self, pool: Pool, at: float, effects: list[Effect]) -> None:
        """Bring the pool and what others see in line with what was just learned."""
        if not pool.is_touched:
            return
        more, touched, visible = pool.settle(at, network_suspect=self._network.suspect_since is not None)
        effects.extend(more)
        for watched in touched:
            self._arm(watched, pool, at)
            if self._shared and not watched.resting and (news := news_of(watched)) != watched.told:
                watched.told = news
                effects.append(VerdictChanged(endpoint=watched.id))
        if visible:
            self._publish(effects)

    def _publish(self, effects: list[Effect]) -> None:
        if not any(isinstance(effect, SnapshotChanged) for effect in effects):
            self._version += 1
            effects.append(SnapshotChanged())
        self._snapshot = None

    def _arm(self, watched: Watched, pool: Pool, at: float) -> None:
        """Set the timer to the next moment at which time alone changes something about this endpoint."""
        standing = watched.standing
        held_until = standing.hold_until if standing.hold_until is not None and standing.hold_until > at else None
        ramp_at = next_ramp_at(standing, pool.spec.ejection, at)
        moments = (watched.verdict_by, watched.startup_by, held_until, ramp_at)
        first = min((moment for moment in moments if moment is not None), default=None)
        if first is None:
            self._timers.drop(watched.id)
        else:
            self._timers.put(watched.id, first)

    def _fleet_changed(self, fleet: Fleet, at: float, effects: list[Effect]) -> None:
        """Endpoints that stay keep their state; one that became another server begins a new incarnation."""
        before = self.snapshot.pools
        old, self._watched = self._watched, {}
        pools, self._pools = self._pools, {}
        fresh: list[Watched] = []
        for spec in fleet.pools:
            pool = pools.get(spec.name) or Pool(spec, Conversation(spec.name, self._seed))
            self._pools[spec.name] = pool
            for endpoint in spec.endpoints:
                kept = old.get(endpoint.id)
                watched = keep_or_begin(kept, endpoint, spec.probe, at)
                self._watched[endpoint.id] = watched
                if watched is not kept:
                    watched.resting = self._shared and (kept is None or kept.resting)
                    if watched.resting:
                        watched.startup_by = None  # whoever probes it looks at the clock
                    fresh.append(watched)
            pool.set_members([self._watched[endpoint.id] for endpoint in spec.endpoints], spec)
        for gone in old.keys() - self._watched.keys():
            self._agenda.drop(gone)
            self._timers.drop(gone)
        self._network.keep_only(self._watched)
        self._window_s = max((spec.probe.interval_s for spec in fleet.pools), default=0.0)
        self._windows = max((spec.ejection.suspect_network_windows for spec in fleet.pools), default=0)
        self._agenda.begin([watched for watched in fresh if not watched.resting], at)
        for pool in self._pools.values():
            more, touched, _ = pool.settle(at, network_suspect=self._network.suspect_since is not None)
            effects.extend(more)
            for watched in touched:
                self._arm(watched, pool, at)
        if tuple(pool.view for pool in self._pools.values()) != before:
            self._publish(effects)

    def _among_others(self, event: DutiesChanged | VerdictHeard, effects: list[Effect]) -> None:
        if isinstance(event, DutiesChanged):
            self._duties_changed(event, effects)
            return
        scene = self._scene(event.verdict.endpoint, event.at, effects)
        if scene is not None and scene.watched.resting:
            adopt(scene, event.verdict, event.said_at)
            self._settle(scene.pool, scene.at, effects)

    def _duties_changed(self, event: DutiesChanged, effects: list[Effect]) -> None:
        """Begin, confirm and end what this gateway has to do among others."""
        at, agenda = event.at, self._agenda
        shorter = event.stretch < agenda.stretch
        agenda.stretch, agenda.shift = event.stretch, event.shift
        scenes = {key: self._scene(key, at, effects) for key in (*event.rest, *event.own, *event.witness)}
        for key in event.rest:
            if (scene := scenes[key]) is not None:
                retire(scene)
                agenda.drop(key)
                self._network.forget(key)
        engaged = [scene for key in event.own if (scene := scenes[key]) is not None and engage(scene)]
        agenda.begin([scene.watched for scene in engaged if scene.watched.last_probe_at is None], at)
        agenda.take_over([scene.watched for scene in engaged if scene.watched.last_probe_at is not None], at)
        for key in event.witness:
            if (scene := scenes[key]) is not None:
                if engage(scene, confirm=True):
                    agenda.put(key, at)
                else:
                    scene.watched.wanted_at = at
        if shorter:
            agenda.hasten([watched for watched in self._watched.values() if not watched.resting], at)
        for pool in self._pools.values():
            self._settle(pool, at, effects)


def _concerns(watched: Watched, incarnation: Incarnation) -> bool:
    """Whether what a probe meets on its way counts: not if it asked an earlier life, or somebody else judges now."""
    return watched.incarnation == incarnation and not watched.resting
