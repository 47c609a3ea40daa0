"""This gateway among others that watch the same fleet: who probes what, and what is believed of what others probe.

Turns what a ``Coordinator`` brings into events of the board, and what the board finds into words for the others. Who
probes what is decided in ``core.sharding``, whose word counts in ``core.hearing``.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from pulsegate.control.coordination import Coordinator, View, Words
from pulsegate.control.ports import Clock, FellowshipObserver, Timers
from pulsegate.control.reports import ProbeReport
from pulsegate.core.board import Board
from pulsegate.core.events import DutiesChanged, Effect, Event, TrafficSeen, VerdictChanged, VerdictHeard
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.hearing import WITNESS_LIMIT_S, Duty, Hearing, Verdict
from pulsegate.core.ids import EndpointId, MemberId
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import Counters
from pulsegate.core.sharding import Mode, Posts, deal, shift

REFRESH_S = 10.0
"""How often verdicts that did not change are told again: times to first token, and when an endpoint was probed last."""

HINT_S = 0.5
"""How long tokens that users got at other gateways' endpoints are collected; failures are told at once."""

REGATHER_S = 2.5
"""After the backend was lost: how long those who come back first wait for the others before they divide the work."""

_encode = msgspec.msgpack.Encoder().encode


class Tie(StrEnum):
    """How this gateway stands with the others."""

    JOINING = "joining"
    JOINED = "joined"
    PARTED = "parted"  # the backend cannot be reached


class Hint(NamedTuple):
    """What users of one gateway met at an endpoint that another gateway probes. ``age_s``: of the last token."""

    endpoint: EndpointId
    tokens: int
    failures: int
    stalls: int
    age_s: float = 0.0


class Company(NamedTuple):
    """This gateway among others, for people. ``owned``: how many endpoints it probes for all. ``why``: it parted."""

    me: MemberId
    mode: Mode
    tie: Tie
    epoch: int
    members: tuple[MemberId, ...]
    owned: int
    why: str


_decode_verdict = msgspec.msgpack.Decoder(Verdict).decode
_decode_hint = msgspec.msgpack.Decoder(Hint).decode


class Fellowship:
    """Implements ``Listener``, ``Observer`` and ``ProbeObserver``. Lives on the control process's loop.

    Args:
        me: this gateway.
        mode: how the work is divided.
        coordinator: the way to the others.
        board: what is known; it must be ``shared``.
        clock: for ages.
        timers: for what is done a little later.
        observer: who is told of members and duties.
    """

    def __init__(
        self,
        me: MemberId,
        mode: Mode,
        coordinator: Coordinator,
        *,
        board: Board,
        clock: Clock,
        timers: Timers,
        observer: FellowshipObserver,
    ) -> None:
        self._me = me
        self._mode = mode
        self._coordinator = coordinator
        self._board = board
        self._clock = clock
        self._timers = timers
        self._observer = observer
        self._told_board: Callable[[Event], object] | None = None
        self._fleet = Fleet(pools=(), routes=())
        self._posts: dict[EndpointId, Posts] = {}
        self._hearing = Hearing(me)
        self._view = View(0, (me,))
        self._known = 1  # how many took part when the backend was last there
        self._tie = Tie.JOINING
        self._why = ""
        self._regather_until = 0.0
        self._duties: dict[EndpointId, Duty] = {}
        self._sequence = 0
        self._news: dict[EndpointId, None] = {}
        self._hints: dict[EndpointId, Hint] = {}
        self._tokens_at: dict[EndpointId, float] = {}  # of the hints: when the last one came
        self._inflight: dict[EndpointId, int] = {}
        self._flush_at: float | None = None
        self._settled = asyncio.Event()

    async def run(self, tell: Callable[[Event], object]) -> None:
        """Take part until cancelled. ``tell`` folds an event into the board."""
        self._told_board = tell
        async with asyncio.TaskGroup() as group:
            group.create_task(self._coordinator.run(self))
            group.create_task(self._refresh())

    async def settled(self) -> None:
        """Come back when it is known for the first time who probes what, with or without others."""
        await self._settled.wait()

    @property
    def company(self) -> Company:
        """How things stand."""
        owned = sum(1 for duty in self._duties.values() if duty is Duty.OWN)
        return Company(self._me, self._mode, self._tie, self._view.epoch, self._view.members, owned, self._why)

    def owner(self, endpoint: EndpointId) -> MemberId | None:
        """Who probes this endpoint; None if it is not known."""
        if self._tie is Tie.PARTED:
            return self._me
        posts = self._posts.get(endpoint)
        return None if posts is None else posts.owner

    # Listener: what the others say

    def joined(self, view: View, picture: Sequence[bytes]) -> None:
        """We take part."""
        came_back = self._tie is Tie.PARTED
        self._tie, self._why = Tie.JOINED, ""
        self._observer.joined(view)
        self._convene(view)
        now = self._clock.now()
        for payload in picture:
            verdict = self._verdict_in(payload)
            if verdict is not None:
                self._hearing.hear(verdict, now, live=False)
        if came_back and len(view.members) < self._known:
            self._regather_until = now + REGATHER_S
            self._timers.call_at(self._regather_until, self._regathered)
        else:
            self._divide()

    def members_changed(self, view: View) -> None:
        """Others came or went."""
        if self._tie is not Tie.JOINED:
            return
        self._observer.members_changed(view)
        self._convene(view)
        if self._regather_until <= self._clock.now() or len(view.members) >= self._known:
            self._divide()

    def heard(self, words: Words) -> None:
        """Another gateway spoke."""
        now = self._clock.now()
        for payload in words.kept.values():
            verdict = self._verdict_in(payload)
            if verdict is not None and self._hearing.hear(verdict, now):
                self._react(verdict.endpoint)
                if verdict.doubtful:
                    self._wait_for_witness(verdict.endpoint)
        for payload in words.passing:
            hint = self._hint_in(payload)
            if hint is not None and self._duties.get(hint.endpoint) is Duty.OWN:
                self._tell_board(
                    TrafficSeen(
                        at=now,
                        endpoint=hint.endpoint,
                        tokens=hint.tokens,
                        failures=hint.failures,
                        stalls=hint.stalls,
                        inflight=self._inflight.get(hint.endpoint, 0),
                        age_s=max(0.0, hint.age_s),
                    )
                )

    def parted(self, why: str) -> None:
        """The others cannot be reached: probe everything, as seldom as there are gateways that do the same."""
        if self._tie is Tie.PARTED:
            return
        self._tie, self._why = Tie.PARTED, why
        self._regather_until = 0.0
        self._observer.parted(why)
        self._news.clear()
        self._hints.clear()
        self._hearing.part()
        self._assign(dict.fromkeys(self._posts, Duty.OWN), stretch=self._known, at_shift=shift(self._me))

    # Observer and ProbeObserver: what this gateway finds

    def saw(self, effect: Effect) -> None:
        """The board has news of an endpoint that is probed here."""
        if isinstance(effect, VerdictChanged) and self._duties.get(effect.endpoint) is Duty.OWN:
            self._news[effect.endpoint] = None
            self._flush_by(self._clock.now())

    def watching(self, fleet: Fleet) -> None:
        """This is the fleet from now on."""
        self._fleet = fleet
        self._timers.call_at(self._clock.now(), self._fleet_changed)

    def probed(self, report: ProbeReport) -> None:
        """A witness tells what it found after each probe, changed or not: others wait for it."""
        endpoint = report.spec.id
        if self._duties.get(endpoint) is Duty.WITNESS and report.outcome not in (None, OutcomeKind.LOCAL):
            self._news[endpoint] = None
            self._flush_by(self._clock.now())

    def counted(self, spec: EndpointSpec, counters: Counters | None) -> None:
        """Counters were read: told with the verdict."""

    def told(self, event: Event) -> None:
        """Take in an event of this gateway; what its users meet is told to whoever probes that endpoint."""
        self._tell_board(event)
        if not isinstance(event, TrafficSeen):
            return
        self._inflight[event.endpoint] = event.inflight
        if self._tie is not Tie.JOINED or self._duties.get(event.endpoint) is not Duty.REST:
            return
        if event.tokens or event.failures or event.stalls:
            if event.tokens:
                self._tokens_at[event.endpoint] = event.at
            old = self._hints.get(event.endpoint, Hint(event.endpoint, 0, 0, 0))
            self._hints[event.endpoint] = Hint(
                event.endpoint,
                old.tokens + event.tokens,
                old.failures + event.failures,
                old.stalls + event.stalls,
            )
            urgent = event.failures > 0 or event.stalls > 0
            self._flush_by(self._clock.now() + (0.0 if urgent else HINT_S))

    # who probes what

    def _fleet_changed(self) -> None:
        self._convene(self._view)
        if self._tie is Tie.JOINED:
            self._divide()
        elif self._tie is Tie.PARTED:
            self._assign(dict.fromkeys(self._posts, Duty.OWN), stretch=self._known, at_shift=shift(self._me))

    def _convene(self, view: View) -> None:
        self._view = view
        self._posts = dict(deal(self._fleet, view.members or (self._me,), self._mode))
        self._hearing.convene(view.epoch, frozenset(view.members), self._posts, self._clock.now())

    def _regathered(self) -> None:
        if self._tie is Tie.JOINED and self._regather_until:
            self._divide()

    def _divide(self) -> None:
        self._regather_until = 0.0
        self._known = max(1, len(self._view.members))
        duties = {endpoint: self._hearing.duty(endpoint) for endpoint in self._posts}
        for endpoint in duties:
            if self._duties.get(endpoint, Duty.REST) is Duty.REST:
                self._believe(endpoint)  # who takes over goes on from what is known
        handed_over = [one for one, duty in duties.items() if duty is Duty.REST and one in self._duties]
        self._assign(duties)
        for endpoint in handed_over:
            self._believe(endpoint)
        for endpoint in self._hearing.doubtful:
            self._wait_for_witness(endpoint)
        self._tell_all()

    def _wait_for_witness(self, endpoint: EndpointId) -> None:
        self._timers.call_at(self._clock.now() + WITNESS_LIMIT_S, lambda: self._react(endpoint))

    def _assign(self, duties: dict[EndpointId, Duty], *, stretch: int = 1, at_shift: float = 0.0) -> None:
        old, self._duties = self._duties, duties
        changed = {
            duty: [one for one, new in duties.items() if new is duty and old.get(one) is not duty] for duty in Duty
        }
        lost = [one for one in changed[Duty.REST] if old.get(one) is Duty.OWN]
        self._observer.dealt(len(changed[Duty.OWN]), len(lost), self.company.owned)
        self._tell_board(
            DutiesChanged(
                at=self._clock.now(),
                own=tuple(changed[Duty.OWN]),
                witness=tuple(changed[Duty.WITNESS]),
                rest=tuple(changed[Duty.REST]),
                stretch=stretch,
                shift=at_shift,
            )
        )
        self._settled.set()

    def _react(self, endpoint: EndpointId) -> None:
        """Something was said about this endpoint."""
        if self._tie is not Tie.JOINED or self._regather_until or endpoint not in self._duties:
            return
        duty, old = self._hearing.duty(endpoint), self._duties[endpoint]
        if duty is Duty.REST or old is Duty.REST:
            self._believe(endpoint)  # a witness begins with what is believed
        if duty is not old:
            self._duties[endpoint] = duty
            named = (endpoint,)
            self._tell_board(
                DutiesChanged(
                    at=self._clock.now(),
                    own=named if duty is Duty.OWN else (),
                    witness=named if duty is Duty.WITNESS else (),
                    rest=named if duty is Duty.REST else (),
                )
            )
            if duty is Duty.REST:
                self._believe(endpoint)

    def _believe(self, endpoint: EndpointId) -> None:
        believed = self._hearing.believed(endpoint, self._clock.now())
        if believed is not None:
            verdict, said_at = believed
            self._tell_board(VerdictHeard(at=self._clock.now(), verdict=verdict, said_at=said_at))

    def _tell_board(self, event: Event) -> None:
        if self._told_board is not None:
            self._told_board(event)

    # what is told

    async def _refresh(self) -> None:
        while True:
            await self._clock.sleep(REFRESH_S)
            self._tell_all()

    def _tell_all(self) -> None:
        if self._tie is Tie.JOINED:
            self._news.update(dict.fromkeys(one for one, duty in self._duties.items() if duty is Duty.OWN))
            self._flush_by(self._clock.now())

    def _flush_by(self, at: float) -> None:
        if self._flush_at is None or at < self._flush_at:
            self._flush_at = at
            self._timers.call_at(at, self._flush)

    def _flush(self) -> None:
        self._flush_at = None
        news, self._news = self._news, {}
        hints, self._hints = self._hints, {}
        tokens_at, self._tokens_at = self._tokens_at, {}
        if self._tie is not Tie.JOINED or self._regather_until or not (news or hints):
            return
        kept, now = dict(self._kept(news)), self._clock.now()
        passing = [_encode(hint._replace(age_s=now - tokens_at.get(one, now))) for one, hint in hints.items()]
        self._coordinator.tell(Words(self._me, self._view.epoch, kept, tuple(passing)))

    def _kept(self, news: Iterable[EndpointId]) -> Iterable[tuple[str, bytes]]:
        now = self._clock.now()
        for endpoint in news:
            verdict, duty = self._board.verdict(endpoint, now), self._duties.get(endpoint)
            if verdict is None or duty is Duty.REST:
                continue
            self._sequence += 1
            verdict = verdict._replace(author=self._me, epoch=self._view.epoch, sequence=self._sequence)
            role = "witness" if duty is Duty.WITNESS else "owner"
            yield f"{role}|{endpoint}", _encode(verdict)

    def _verdict_in(self, payload: bytes) -> Verdict | None:
        try:
            return _decode_verdict(payload)
        except msgspec.DecodeError as exc:
            self._observer.misunderstood(str(exc))
            return None

    def _hint_in(self, payload: bytes) -> Hint | None:
        try:
            return _decode_hint(payload)
        except msgspec.DecodeError as exc:
            self._observer.misunderstood(str(exc))
            return None
