"""One pool: who is out, who comes back, what share each endpoint gets, and whether the pool is down.

Work is done only for endpoints that were touched, unless something changed that concerns all of them.
"""

from collections.abc import Iterable

from pulsegate.core.asking import Conversation
from pulsegate.core.ejection import Detected, admit, choose, eject, pardon, ramped, release
from pulsegate.core.events import Alerted, AlertKind, Effect
from pulsegate.core.fleet import PoolSpec
from pulsegate.core.health import State
from pulsegate.core.ids import EndpointId
from pulsegate.core.outcome import CONNECT_REASONS
from pulsegate.core.snapshot import PoolView
from pulsegate.core.watched import Watched
from pulsegate.core.weights import share

_SERVING = frozenset({State.HEALTHY, State.DEGRADED})


class Pool:
    """The endpoints behind one public model name."""

    def __init__(self, spec: PoolSpec, conversation: Conversation) -> None:
        self.spec = spec
        self.conversation = conversation
        self.members: dict[EndpointId, Watched] = {}
        self.healthy: set[EndpointId] = set()
        self.degraded: set[EndpointId] = set()
        self.resting: set[EndpointId] = set()  # probed by other gateways
        self._unhealthy: dict[EndpointId, Watched] = {}
        self._held: dict[EndpointId, Watched] = {}
        self._ramping: dict[EndpointId, Watched] = {}
        self._touched: dict[EndpointId, Watched] = {}
        self._routable = 0
        self._sound = False
        self._told_down = False
        self._view: PoolView | None = None
        self.down = True
        self._starting: bool = False

    @property
    def view(self) -> PoolView:
        """What the data plane sees; the same object while nothing changed."""
        if self._view is None:
            views = tuple(watched.view for watched in self.members.values())
            self._view = PoolView(name=self.spec.name, endpoints=views, down=self.down, starting=self._starting)
        return self._view

    def answering(self, endpoint: EndpointId) -> int:
        """How many can be expected to answer this turn's prompt, given that this one does."""
        others = len(self.healthy) + len(self.degraded)
        if self.resting:  # who probes them compares their answers
            others -= len(self.resting & self.healthy) + len(self.resting & self.degraded)
        return others if endpoint in self.healthy or endpoint in self.degraded else others + 1

    def outruns(self, endpoint: EndpointId) -> bool:
        """Whether most of the others are healthy, and so fast lately, under the load that requests in flight share."""
        fast = len(self.healthy) - (endpoint in self.healthy)
        return 2 * fast > len(self.members) - 1

    @property
    def is_touched(self) -> bool:
        """Whether there is anything to settle."""
        return bool(self._touched)

    def set_members(self, members: Iterable[Watched], spec: PoolSpec) -> None:
        """The configuration changed: these are its endpoints now."""
        self.spec = spec
        self.members = {watched.id: watched for watched in members}
        for group in (self._unhealthy, self._held, self._ramping, self._touched):
            for gone in [one for one, watched in group.items() if self.members.get(one) is not watched]:
                del group[gone]
        self.healthy &= self.members.keys()
        self.degraded &= self.members.keys()
        self.resting = {key for key, watched in self.members.items() if watched.resting}
        self._routable = sum(1 for watched in self.members.values() if watched.share.weight > 0)
        self._view = None
        for watched in self.members.values():
            self.moved(watched)

    def touch(self, watched: Watched) -> None:
        """Something about this endpoint may look different to others."""
        self._touched[watched.id] = watched

    def moved(self, watched: Watched) -> None:
        """Its state or reason changed."""
        key, state = watched.id, watched.record.state
        _put(self.healthy, key, state is State.HEALTHY)
        _put(self.degraded, key, state is State.DEGRADED)
        watched.served = watched.served or state in _SERVING
        if state is State.UNHEALTHY:
            self._unhealthy[key] = watched
        else:
            self._unhealthy.pop(key, None)
            if watched.standing.enforced:
                watched.standing = release(watched.standing)
        self.touch(watched)

    def settle(self, at: float, *, network_suspect: bool) -> tuple[list[Effect], list[Watched], bool]:
        """Put everything right after something changed: effects, who was touched, and whether others see a change."""
        effects: list[Effect] = []
        if self._unhealthy:
            self._enforce(at, effects, network_suspect=network_suspect)
        if self._held or self._ramping:
            self._readmit(at, effects)
        touched = list(self._touched.values())
        visible = self._share_out(at)
        self._touched = {}
        return effects, touched, self._tell_down(at, effects) or visible

    def _enforce(self, at: float, effects: list[Effect], *, network_suspect: bool) -> None:
        detected = [
            Detected(
                endpoint=key,
                since=watched.record.since,
                hard=watched.record.hard,
                cut_off=watched.record.reason in CONNECT_REASONS,
                enforced=watched.standing.enforced,
            )
            for key, watched in self._unhealthy.items()
        ]
        others_give = bool(self.healthy or self.degraded) or any(map(_serves_users, self._unhealthy.values()))
        out = choose(
            detected,
            len(self.members),
            self.spec.ejection,
            others_give=others_give,
            network_suspect=network_suspect,
        )
        for key, watched in self._unhealthy.items():
            if key in out and not watched.standing.enforced:
                watched.standing = eject(watched.standing, self.spec.ejection, at)
                self._held[key] = watched
                self._ramping.pop(key, None)
                detail = f"{watched.record.reason}: {watched.record.detail}"
                effects.append(self._alert(at, AlertKind.EJECTION_ENFORCED, watched, detail))
            elif key not in out and watched.standing.enforced:
                watched.standing = pardon(watched.standing)
                self._held.pop(key, None)
            else:
                continue
            self.touch(watched)

    def _readmit(self, at: float, effects: list[Effect]) -> None:
        """End hold-offs that are over, or that would keep out the only ones that give tokens; end slow starts."""
        giving = self.healthy | self.degraded
        alone = bool(giving) and giving <= self._held.keys()
        for key, watched in list(self._held.items()):
            until = watched.standing.hold_until
            if key not in giving or (until is not None and until > at and not alone):
                continue
            del self._held[key]
            watched.standing = admit(watched.standing, at)
            self._ramping[key] = watched
            detail = "the only one that gives tokens" if alone else "hold-off is over"
            effects.append(self._alert(at, AlertKind.READMITTED, watched, detail))
            self.touch(watched)
        for key, watched in list(self._ramping.items()):
            begun = watched.standing.ramp_from
            if begun is None or at - begun >= self.spec.ejection.slow_start_s - 1e-9:
                watched.standing = ramped(watched.standing)
                del self._ramping[key]
            self.touch(watched)

    def _share_out(self, at: float) -> bool:
        sound = len(self.healthy) > len(self._held) or not self.healthy <= self._held.keys()
        concerned = self._touched if sound == self._sound else self.members
        self._sound = sound
        visible = False
        for watched in concerned.values():
            old_weight = watched.share.weight
            watched.share = share(
                watched.record,
                standing=watched.standing,
                spec=watched.spec,
                policy=self.spec.ejection,
                sound=sound,
                at=at,
            )
            self._routable += (watched.share.weight > 0) - (old_weight > 0)
            view = watched.make_view()
            if view != watched.view:
                watched.view = view
                visible = True
        if visible:
            self._view = None
        return visible

    def _tell_down(self, at: float, effects: list[Effect]) -> bool:
        """Whether ``down`` or ``starting`` changed. A pool that starts for the first time is down without an alarm."""
        down = self._routable == 0
        starts = down and any(watched.starting for watched in self.members.values())
        changed = down != self.down or starts != self._starting
        self.down = down
        self._starting = starts
        if changed:
            self._view = None
        starting = not any(watched.served for watched in self.members.values()) and not self._unhealthy
        if down and not self._told_down and not starting:
            self._told_down = True
            effects.append(self._alert(at, AlertKind.POOL_DOWN, None, "no endpoint gives a token"))
        elif not down and self._told_down:
            self._told_down = False
            effects.append(self._alert(at, AlertKind.POOL_BACK, None, f"{self._routable} endpoint(s) serve"))
        return changed

    def _alert(self, at: float, kind: AlertKind, watched: Watched | None, detail: str) -> Alerted:
        endpoint = None if watched is None else watched.id
        return Alerted(at=at, kind=kind, pool=self.spec.name, endpoint=endpoint, detail=detail)


def _put(group: set[EndpointId], key: EndpointId, belongs: bool) -> None:
    if belongs:
        group.add(key)
    else:
        group.discard(key)


def _serves_users(watched: Watched) -> bool:
    """Condemned, and yet users' requests have got tokens since."""
    tokens_at = watched.evidence.tokens_at
    return tokens_at is not None and tokens_at > watched.record.since
