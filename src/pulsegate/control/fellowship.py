"""This gateway among others that watch the same fleet: who probes what, and what is believed of what others probe.

Turns what a ``Coordinator`` brings into events of the board, and what the board finds into words for the others. Who
probes what is decided in ``core.sharding``, whose word counts in ``core.hearing``.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, TypeVar

import msgspec

from pulsegate.control.coordination import Coordinator, View, Words
from pulsegate.control.hints import Hints
from pulsegate.control.hints import decode as decode_hint
from pulsegate.control.ports import Clock, FellowshipObserver, Timers
from pulsegate.control.reports import ProbeReport
from pulsegate.core.board import Board
from pulsegate.core.events import DutiesChanged, Effect, Event, TrafficSeen, VerdictChanged, VerdictHeard
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.hearing import WITNESS_LIMIT_S, Duty, Hearing, Verdict
from pulsegate.core.ids import EndpointId, MemberId
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import Counters
from pulsegate.core.schedule import phase
from pulsegate.core.sharding import Mode, Posts, deal

REFRESH_S = 10.0
"""How often verdicts that did not change are told again: times to first token, and when an endpoint was probed last."""

QUIET_TURNS = 3
"""How often ``REFRESH_S`` may pass without a word about an endpoint before its witness stands in for its owner."""

HINT_S = 0.5
"""How long tokens that users got at other gateways' endpoints are collected; failures are told at once."""

REGATHER_S = 2.5
"""After the backend was lost: how long those who come back first wait for the others before they divide the work."""

_encode = msgspec.msgpack.Encoder().encode

Told = TypeVar("Told")


class Tie(StrEnum):
    """How this gateway stands with the others."""

    JOINING = "joining"
    JOINED = "joined"
    PARTED = "parted"  # the backend cannot be reached


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
        self._hearing = Hearing(me, board.is_about_ours)
        self._view = View(0, (me,))
        self._known = 1  # how many took part when the backend was last there
        self._tie = Tie.JOINING
        self._why = ""
        self._regather_until = 0.0
        self._duties: dict[EndpointId, Duty] = {}
        self._quiet: dict[EndpointId, int] = {}  # how many times ``REFRESH_S`` nobody said anything
        self._sequence = 0
        self._news: dict[EndpointId, None] = {}
        self._hints = Hints()
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
        if self._tie is Tie.JOINING:
            return None
        posts = self._posts.get(endpoint)
        return None if posts is None else posts.owner

    # Listener: what the others say

    def joined(self, view: View, picture: Sequence[bytes]) -> None:
        """We take part."""
        waits = self._tie is Tie.PARTED or self._regather_until > 0.0
        self._tie, self._why = Tie.JOINED, ""
        self._observer.joined(view)
        self._convene(view)
        now = self._clock.now()
        for payload in picture:
            verdict = self._verdict_in(payload)
            if verdict is not None and self._hearing.hear(verdict, now, live=False):
                self._quiet.pop(verdict.endpoint, None)
        if waits and len(view.members) < self._known:
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
                self._quiet.pop(verdict.endpoint, None)
                self._react(verdict.endpoint)
                if verdict.doubtful:
                    self._wait_for_witness(verdict.endpoint)
        for payload in words.passing:
            hint = self._read(decode_hint, payload)
            if hint is not None and self._duties.get(hint.endpoint) is Duty.OWN:
                self._tell_board(hint.as_traffic(now, self._inflight.get(hint.endpoint, 0)))

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
        self._quiet.clear()
        self._probe_everything()

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
        if self._tie is not Tie.JOINED or self._duties.get(event.endpoint) in (None, Duty.OWN):
            return
        if event.tokens or event.failures or event.stalls:
            urgent = self._hints.add(event)
            self._flush_by(self._clock.now() + (0.0 if urgent else HINT_S))

    # who probes what

    def _fleet_changed(self) -> None:
        self._convene(self._view)
        if self._tie is Tie.JOINED:
            self._divide()
        elif self._tie is Tie.PARTED:
            self._probe_everything()

    def _convene(self, view: View) -> None:
        self._view = view
        old, self._posts = self._posts, dict(deal(self._fleet, view.members or (self._me,), self._mode))
        self._quiet = {
            one: turns
            for one, turns in self._quiet.items()
            if one in self._posts and old[one].owner == self._posts[one].owner
        }
        self._hearing.convene(view.epoch, frozenset(view.members), self._posts, self._clock.now())

    def _probe_everything(self) -> None:
        self._assign(dict.fromkeys(self._posts, Duty.OWN), stretch=self._known, shift=phase(self._me))

    def _regathered(self) -> None:
        if self._tie is Tie.JOINED and 0.0 < self._regather_until <= self._clock.now():
            self._divide()

    def _divide(self) -> None:
        self._regather_until = 0.0
        self._known = max(1, len(self._view.members))
        duties = {endpoint: self._duty(endpoint) for endpoint in self._posts}
        for endpoint in duties:
            if self._duties.get(endpoint, Duty.REST) is Duty.REST:
                self._believe(endpoint)  # who takes over goes on from what is known
        held = {one for one, duty in self._duties.items() if duty is not Duty.REST}
        handed_over = [one for one, duty in duties.items() if duty is Duty.REST and one in held]
        self._assign(duties)
        for endpoint in handed_over:
            self._believe(endpoint)
        for endpoint in self._hearing.doubtful:
            self._wait_for_witness(endpoint)
        self._tell_all()

    def _duty(self, endpoint: EndpointId) -> Duty:
        """Also of who stands in for an owner that says nothing: the witness first, then whoever comes first."""
        duty, turns = self._hearing.duty(endpoint), self._quiet.get(endpoint, 0)
        if duty is not Duty.REST or turns < QUIET_TURNS:
            return duty
        return Duty.OWN if turns > QUIET_TURNS or self._posts[endpoint].witness == self._me else Duty.REST

    def _mind_the_quiet(self) -> None:
        """Somebody must probe what its owner does not: another version, another configuration, or it is stuck."""
        if self._tie is not Tie.JOINED or self._regather_until:
            return
        for endpoint in self._posts:
            if self._hearing.duty(endpoint) is Duty.REST:
                self._quiet[endpoint] = self._quiet.get(endpoint, 0) + 1
                if self._duty(endpoint) is not self._duties.get(endpoint):
                    self._react(endpoint)

    def _wait_for_witness(self, endpoint: EndpointId) -> None:
        self._timers.call_at(self._clock.now() + WITNESS_LIMIT_S, lambda: self._react(endpoint))

    def _assign(self, duties: dict[EndpointId, Duty], *, stretch: int = 1, shift: float = 0.0) -> None:
        old, self._duties = self._duties, duties
        changed = {one: duty for one, duty in duties.items() if old.get(one) is not duty}
        gained = sum(duty is Duty.OWN for duty in changed.values())
        lost = sum(duty is Duty.REST and old.get(one) is Duty.OWN for one, duty in changed.items())
        self._observer.dealt(gained, lost, self.company.owned)
        self._tell_duties(changed, stretch=stretch, shift=shift)
        self._settled.set()

    def _tell_duties(self, changed: Mapping[EndpointId, Duty], *, stretch: int = 1, shift: float = 0.0) -> None:
        def named(wanted: Duty) -> tuple[EndpointId, ...]:
            return tuple(one for one, duty in changed.items() if duty is wanted)

        self._tell_board(
            DutiesChanged(
                at=self._clock.now(),
                own=named(Duty.OWN),
                witness=named(Duty.WITNESS),
                rest=named(Duty.REST),
                stretch=stretch,
                shift=shift,
            )
        )

    def _react(self, endpoint: EndpointId) -> None:
        """Something was said about this endpoint."""
        if self._tie is not Tie.JOINED or self._regather_until or endpoint not in self._duties:
            return
        duty, old = self._duty(endpoint), self._duties[endpoint]
        if duty is Duty.REST or old is Duty.REST:
            self._believe(endpoint)  # a witness begins with what is believed
        if duty is not old:
            self._duties[endpoint] = duty
            self._tell_duties({endpoint: duty})
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
            self._mind_the_quiet()
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
        hints = self._hints.take(self._clock.now())
        if self._tie is not Tie.JOINED or self._regather_until or not (news or hints):
            return
        self._coordinator.tell(Words(self._me, self._view.epoch, dict(self._kept(news)), hints))

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
        verdict = self._read(_decode_verdict, payload)
        if verdict is not None and not verdict.is_sound:
            self._observer.misunderstood("a verdict that no gateway gives")
            return None
        return verdict

    def _read(self, decode: Callable[[bytes], Told], payload: bytes) -> Told | None:
        try:
            return decode(payload)
        except msgspec.DecodeError as exc:
            self._observer.misunderstood(str(exc))
            return None
