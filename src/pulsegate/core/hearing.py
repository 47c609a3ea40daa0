"""Whose word counts: what replicas have said about each endpoint, and what follows for who did not ask it itself.

The owner's verdict counts. When it condemns an endpoint for a reason that may be its own fault (a network that is cut,
say), a second replica, the witness, asks the endpoint too. Until it has answered the endpoint is suspect; then its word
counts for everybody but the owner, who avoids what it cannot use. Words of replicas that have been replaced meanwhile
are dropped: a process that was stopped and goes on must not undo what happened since.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from math import isfinite
from typing import NamedTuple

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, MemberId
from pulsegate.core.sharding import Posts

WITNESS_LIMIT_S = 5.0
"""How long a verdict waits for its witness: two timeouts, the way there and back, and something to spare."""


SILENT_S = 25.0
"""Who has said nothing about its endpoint for so long is not listened to before others: two refreshes and more."""


class Verdict(NamedTuple):
    """What one replica says about one endpoint.

    ``epoch`` and ``sequence`` order words: the epoch of the view in which it was said, and a number that grows with
    each word of its author. Times are ages, because clocks differ: ``age_s`` since the state or reason changed,
    ``probed_s`` since the last probe (None: never), ``deep_s`` since the last deep one. ``server`` tells what stands
    behind the endpoint's id, by which gateways with different configurations may mean different servers.
    """

    endpoint: EndpointId
    author: MemberId
    epoch: int
    sequence: int
    incarnation: Incarnation
    state: State
    reason: Reason
    detail: str
    hard: bool
    suspect: bool
    age_s: float
    streak: int
    fails: int
    deep_due: bool
    server: str = ""
    served_model: str | None = None
    ttft_s: float | None = None
    probed_s: float | None = None
    deep_s: float | None = None

    @property
    def is_sound(self) -> bool:
        """Whether a gateway can have said that: ages are finite, and draining is nobody's verdict."""
        ages = (self.age_s, self.ttft_s or 0.0, self.probed_s or 0.0, self.deep_s or 0.0)
        return all(map(isfinite, ages)) and self.state is not State.DRAINING

    @property
    def doubtful(self) -> bool:
        """Whether it needs a witness: condemned, and perhaps only from where the author stands."""
        return self.state is State.UNHEALTHY and not self.hard


class Duty(Enum):
    """What this replica has to do about an endpoint."""

    OWN = auto()
    WITNESS = auto()
    REST = auto()


class _Heard(NamedTuple):
    verdict: Verdict
    at: float


class _Doubt(NamedTuple):
    """An owner's word needs a witness since then. ``former``: what a witness said that is none any more."""

    since: float
    former: _Heard | None = None


class Hearing:
    """What was said, as one replica heard it."""

    def __init__(self, me: MemberId, is_about_ours: Callable[[Verdict], bool] = lambda _verdict: True) -> None:
        """``is_about_ours``: whether a verdict is about a server that is watched here."""
        self._me = me
        self._is_about_ours = is_about_ours
        self._early: dict[EndpointId, _Heard] = {}  # of servers that are not watched here yet; the oldest first
        self._epoch = 0
        self._members: frozenset[MemberId] = frozenset()
        self._posts: Mapping[EndpointId, Posts] = {}
        self._heard: dict[EndpointId, dict[MemberId, _Heard]] = {}
        self._doubts: dict[EndpointId, _Doubt] = {}
        self._past: dict[MemberId, tuple[int, int]] = {}  # epoch and sequence up to which words are forgotten

    @property
    def doubtful(self) -> tuple[EndpointId, ...]:
        """Endpoints whose owner's word needs a witness."""
        return tuple(self._doubts)

    def part(self) -> None:
        """Nobody hears anybody: everybody asks for himself, and what was said until now is history."""
        for heard in self._heard.values():
            for author, (verdict, _) in heard.items():
                said = (verdict.epoch, verdict.sequence)
                self._past[author] = max(self._past.get(author, said), said)
        self._heard.clear()
        self._doubts.clear()
        self._early.clear()

    def convene(
        self, epoch: int, members: frozenset[MemberId], posts: Mapping[EndpointId, Posts], at: float = 0.0
    ) -> None:
        """There is a new view. What was said by those who left stays until somebody says otherwise.

        Of what was ours until now nobody knew more than we did. A new witness is waited for like the first one, and
        meanwhile what the former one said counts.
        """
        doubts = {
            one: self._passed_on(one, doubt, posts[one], at) for one, doubt in self._doubts.items() if one in posts
        }
        for endpoint, old in self._posts.items():
            new = posts.get(endpoint)
            if old.owner == self._me and new is not None and new.owner != self._me and endpoint in self._heard:
                heard = self._heard[endpoint]
                self._heard[endpoint] = {who: one for who, one in heard.items() if one.verdict.epoch > self._epoch}
        self._epoch, self._members, self._posts = epoch, members, posts
        self._heard = {
            endpoint: {
                author: one
                for author, one in heard.items()
                if (author in members or len(heard) == 1) and self._is_about_ours(one.verdict)
            }
            for endpoint, heard in self._heard.items()
            if endpoint in posts
        }
        self._doubts = {endpoint: doubt for endpoint, doubt in doubts.items() if self._is_doubtful(endpoint)}
        early, self._early = self._early, {}
        for verdict, heard_at in early.values():
            if at - heard_at < SILENT_S:
                self.hear(verdict, heard_at)

    def _passed_on(self, endpoint: EndpointId, doubt: _Doubt, new: Posts, at: float) -> _Doubt:
        old = self._posts[endpoint].witness
        if old is None or old == new.witness:
            return doubt
        said = self._heard.get(endpoint, {}).get(old)
        return _Doubt(at, said if said is not None and said.at >= doubt.since else doubt.former)

    def hear(self, verdict: Verdict, at: float, *, live: bool = True) -> bool:
        """Whether the verdict counts: not if it is older than what is known, or of one who has been replaced.

        ``live`` False: it was kept for those who come later, so its author may have left.
        """
        posts = self._posts.get(verdict.endpoint)
        if verdict.author == self._me:
            return False
        if posts is None or not self._is_about_ours(verdict):
            self._keep_for_later(verdict, at)
            return False
        said = (verdict.epoch, verdict.sequence)
        if said <= self._past.get(verdict.author, (0, 0)):
            return False
        heard = self._heard.setdefault(verdict.endpoint, {})
        if verdict.epoch <= self._epoch:
            gone = live and verdict.author not in self._members
            spoke = any(at - one.at < SILENT_S for author, one in heard.items() if author in posts)
            replaced = spoke and verdict.author not in (posts.owner, posts.witness)
            if gone or replaced:
                return False
        last = heard.get(verdict.author)
        if last is not None and said <= (last.verdict.epoch, last.verdict.sequence):
            return False
        owners = heard.get(posts.owner)
        if owners is not None and verdict.author != posts.owner and verdict.incarnation < owners.verdict.incarnation:
            return False
        heard[verdict.author] = _Heard(verdict, at)
        self._note_doubt(verdict.endpoint, at)
        return True

    def _note_doubt(self, endpoint: EndpointId, at: float) -> None:
        if self._is_doubtful(endpoint):
            self._doubts.setdefault(endpoint, _Doubt(at))
        else:
            self._doubts.pop(endpoint, None)

    def _keep_for_later(self, verdict: Verdict, at: float) -> None:
        """Others may have a new configuration before us. What is not said again is forgotten."""
        self._early.pop(verdict.endpoint, None)
        self._early[verdict.endpoint] = _Heard(verdict, at)
        while at - (oldest := next(iter(self._early.values()))).at >= SILENT_S:
            del self._early[oldest.verdict.endpoint]

    def _is_doubtful(self, endpoint: EndpointId) -> bool:
        owners = self._owners(endpoint)
        return owners is not None and owners.verdict.doubtful

    def _owners(self, endpoint: EndpointId) -> _Heard | None:
        """What the owner said, or else the latest that was said, as by an owner who has left."""
        heard = self._heard.get(endpoint)
        if not heard:
            return None
        owners = heard.get(self._posts[endpoint].owner)
        if owners is not None and all(one.at - owners.at < SILENT_S for one in heard.values()):
            return owners
        return max(heard.values(), key=lambda one: (one.verdict.epoch, one.at))

    def duty(self, endpoint: EndpointId) -> Duty:
        """What this replica has to do."""
        posts = self._posts.get(endpoint)
        if posts is None:
            return Duty.REST
        if posts.owner == self._me:
            return Duty.OWN
        return Duty.WITNESS if posts.witness == self._me and endpoint in self._doubts else Duty.REST

    def believed(self, endpoint: EndpointId, at: float) -> tuple[Verdict, float] | None:
        """What one who does not ask the endpoint itself should take for true, and when that was said."""
        owners = self._owners(endpoint)
        if owners is None:
            return None
        posts, doubt = self._posts[endpoint], self._doubts.get(endpoint)
        if doubt is None or posts.witness is None or posts.witness == owners.verdict.author:
            return owners
        witness = self._heard[endpoint].get(posts.witness)
        if witness is not None and witness.at >= doubt.since:
            return witness
        if at >= doubt.since + WITNESS_LIMIT_S:
            return owners
        if doubt.former is not None:
            return doubt.former
        return _Heard(owners.verdict._replace(state=State.DEGRADED, suspect=True), owners.at)
