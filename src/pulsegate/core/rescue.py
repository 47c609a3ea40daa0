"""One request's way through its attempts until one of them may speak to the client.

Decides whether a failure, a deadline, an ejection or a suspicion starts another attempt, cancels one, or ends the
request with an error. Carries nothing out: the data plane calls the method of what happened and does, in order, what
the returned actions say.

Once ``Relay`` was returned the machine is finished: what happens after the first token is the relay's business.

Life of a request::

    begin ---> Start(0) --- answered(0) ---> Relay(0)
                  |---- failed(0), deadline, endpoint_ejected ---> [Cancel(0)] Start(1) | Park | Answer
                  |---- endpoint_suspect ---> Start(1) beside it (a hedge) ; answered(1) ---> Cancel(0) Relay(1)
                  '---- client_gone ---> Cancel(each that is under way)

What is booked on the retry budget: hedges, and replays of what reached an engine. Not booked, because they add no
load: a replay after ``FailureKind.CONNECT`` or ``LOCAL`` (nothing reached an engine) and a replay away from an ejected
endpoint (its work is cancelled, load moves). A booking ends with the attempt's first token or its end. Over the budget
nothing fails: a replay with no other attempt under way parks (``Park``) until ``budget_freed`` or the request's
deadline; a hedge parks the same way, while the first attempt goes on.

Where a replay goes: to an endpoint that this request has not tried, free of suspicion if its pool has one. Rather than
failing, a NORMAL request takes a place that is kept for LOW ones, and waits for a place where all are taken. A late
attempt is moved, and a suspected one hedged, only to an endpoint of its lane that nobody suspects.

An attempt that may still bring a token is given up for another attempt only, never for an error, until the total
deadline: a full server can take long, and the prober says which one is dead.
"""

from collections.abc import Callable, Sequence
from typing import Final

from pulsegate.core.attempts import Action, Answer, Cancel, FailureKind, Park, Relay, RescuePolicy, Start
from pulsegate.core.blame import NOBODY, OVERLOADED, TIMED_OUT, blame
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Lane, Plan, Refusal, Seat, pick
from pulsegate.core.takeover import choose, choose_sound, is_peer

__all__ = ["Action", "Answer", "Cancel", "FailureKind", "Park", "Relay", "Rescue", "RescuePolicy", "Start"]

CONNECTS_PER_ATTEMPT: Final = 3
"""How many attempts that failed to connect count like one that reached an engine."""

POLL_S: Final = 0.25
"""How soon to look again for a place, or for room in the budget, of which nobody tells."""

START_WAIT_S: Final = 10.0
"""How long a request waits for the first tokens of a pool that has just been started."""

RECHECK_S: Final = 1.0
"""How soon to look again for somebody who could take over a late attempt."""

_UNBOOKED: Final = frozenset({FailureKind.CONNECT, FailureKind.LOCAL, FailureKind.EJECTED, FailureKind.COST})
_NEVER_LEFT: Final = frozenset({FailureKind.CONNECT, FailureKind.COST})
_OF_THE_KEY: Final = frozenset({FailureKind.REJECTED, FailureKind.OVERLOAD})
_HEDGED: Final = "suspect"
_FIRST_WINS: Final = (Relay(0),)


class _Run:
    """One attempt under way."""

    __slots__ = ("attempt", "booked", "due_at", "seat")

    def __init__(self, attempt: int, seat: Seat, due_at: float, booked: bool) -> None:
        self.attempt = attempt
        self.seat = seat
        self.due_at = due_at
        self.booked = booked


class Rescue:
    """The attempts of one request. Times (``now``) are monotonic seconds.

    Attributes:
        due_at: when to call ``deadline`` next, read after each call: the earliest deadline of an attempt under way, or
            a moment from now while something is waited for of which nobody tells.
        attempts: how many were started.
        cause: why the latest extra attempt was started, for the access log; None while there was only one.
    """

    __slots__ = (
        "_affinity",
        "_budget",
        "_ends_at",
        "_failures",
        "_hedge_parked",
        "_hedged",
        "_lane",
        "_parked",
        "_plan",
        "_policy",
        "_queued",
        "_random",
        "_retry_after_s",
        "_running",
        "_start_by",
        "_tried",
        "_unreached",
        "_wanted",
        "attempts",
        "cause",
        "due_at",
    )

    due_at: float
    attempts: int
    cause: FailureKind | str | None  # a FailureKind, or "suspect" for a hedge

    def __init__(  # noqa: PLR0917 - called once per request, with no keyword to look up
        self,
        policy: RescuePolicy,
        plan: Callable[[], Plan],
        lane: Lane,
        budget: RetryBudget,
        random: Callable[[], float],
        affinity: int | None,
    ) -> None:
        """Nothing happens before ``begin``. ``plan`` gives the route's plan as of now: snapshots come while we wait."""
        self._policy = policy
        self._plan = plan
        self._lane = lane
        self._budget = budget
        self._random = random
        self._affinity = affinity
        self._running: tuple[_Run, ...] = ()
        self._tried: tuple[Seat, ...] = ()
        self._failures: tuple[FailureKind, ...] = ()
        self._unreached = 0
        self._retry_after_s: float | None = None
        self._wanted: FailureKind | None = None  # nothing is under way, and a replay is to be started for this reason
        self._parked = False  # ... as soon as the budget has room
        self._queued = False  # ... and the caller knows
        self._hedged = False
        self._hedge_parked = False
        self._start_by: float | None = None  # nothing was started, because a pool is starting
        self._ends_at = self.due_at = 0.0
        self.attempts = 0
        self.cause = None

    def begin(self, now: float) -> tuple[Action, ...]:
        """Start the first attempt: ``(Start,)``, ``(Answer,)`` at once when no pool can serve, or ``()`` to wait."""
        self._ends_at = now + self._policy.total_deadline_s
        return self._begin(now, now + START_WAIT_S)

    def answered(self, attempt: int, now: float) -> tuple[Action, ...]:  # noqa: ARG002 - all events tell the time
        """That attempt brought its first real token, a whole answer, or a user error: cancels the others, relays it."""
        running = self._running
        if len(running) == 1 and running[0].attempt == attempt == 0:  # what nearly all requests come to
            self._finish()
            return _FIRST_WINS
        if all(run.attempt != attempt for run in running):
            return ()
        cancels = self._drop([run for run in running if run.attempt != attempt])
        self._finish()
        return (*cancels, Relay(attempt))

    def failed(
        self, attempt: int, kind: FailureKind, now: float, retry_after_s: float | None = None
    ) -> tuple[Action, ...]:
        """That attempt ended by itself (its connection needs no ``Cancel``). Empty while another one is under way."""
        runs = [run for run in self._running if run.attempt == attempt]
        if not self._drop(runs):
            return ()
        self._failures += (kind,)
        if kind not in _OF_THE_KEY and runs[0].seat.shared:
            self._forget_server(runs[0].seat)
        if kind in _NEVER_LEFT:
            self._unreached += 1
        if retry_after_s is not None:
            known_s = self._retry_after_s
            self._retry_after_s = retry_after_s if known_s is None else min(known_s, retry_after_s)
        return self._go_on(kind, now)

    def deadline(self, now: float) -> tuple[Action, ...]:
        """``due_at`` has come: attempts past their deadline are cancelled and replayed elsewhere.

        An attempt is left alone when no other endpoint could take the request or the budget has no room for it. When
        ``total_deadline_s`` is over the request ends with 504.
        """
        if self._start_by is not None:
            return self._begin(now, self._start_by)
        if not self._running and self._wanted is None:
            return ()
        if now >= self._ends_at:
            return self._end(TIMED_OUT)
        if self._wanted is not None:
            return self._replay(self._wanted, now)
        return self._move_late(now) or self._parked_hedge(now)

    def endpoint_ejected(self, seat: Seat, now: float) -> tuple[Action, ...]:
        """That endpoint was declared dead. Cancels the attempts that wait there and replays; empty if none does."""
        cancels = self._drop([run for run in self._running if run.seat is seat])
        if not cancels:
            return ()
        self._failures += (FailureKind.EJECTED,)
        return (*cancels, *self._go_on(FailureKind.EJECTED, now))

    def endpoint_suspect(self, seat: Seat, now: float) -> tuple[Action, ...]:
        """A probe timed out there. Hedges once per request if another endpoint is free of suspicion.

        The first attempt goes on. No fallback is asked for a mere suspicion: its tokens may cost money.
        """
        if not self._policy.hedge or seat.shared or all(run.seat is not seat for run in self._running):
            return ()
        return self._hedge(now)

    def budget_freed(self, now: float) -> tuple[Action, ...]:
        """The budget may have room again; does what was parked, or nothing."""
        self._queued = False
        if self._wanted is not None:
            return self._replay(self._wanted, now)
        return self._parked_hedge(now)

    @property
    def parked(self) -> bool:
        """Whether a replay or a hedge waits for the budget."""
        return self._parked or self._hedge_parked

    def client_gone(self) -> tuple[Action, ...]:
        """The client left: cancels everything; bookings are given back. The machine is finished."""
        cancels = self._drop(self._running)
        self._finish()
        return cancels

    def _forget_server(self, seat: Seat) -> None:
        """Its server failed whatever the key: the other keys for it count as tried."""
        for tier in self._plan().tiers:
            if tier.pool == seat.pool:
                self._tried += tier.low

    # how attempts begin

    def _begin(self, now: float, start_by: float) -> tuple[Action, ...]:
        """The first attempt; where nobody can serve, wait while a pool is starting, else the end."""
        seat = pick(self._plan(), self._lane, self._random, (), self._affinity)
        self._start_by = None
        if not isinstance(seat, Refusal):
            return (self._start(seat, now),)
        if seat is Refusal.FULL:
            return self._end(OVERLOADED)
        if now >= min(start_by, self._ends_at) or not self._plan().starting:
            return self._end(NOBODY)
        self._start_by = start_by
        self._schedule(now)
        return ()

    def _start(self, seat: Seat, now: float, *, booked: bool = False) -> Start:
        number = self.attempts
        run = _Run(number, seat, now + self._policy.attempt_deadline_s, booked)
        self.attempts = number + 1
        self._running += (run,)
        self._tried += (seat,)
        self._schedule(now)
        return Start(number, seat)

    def _go_on(self, kind: FailureKind, now: float) -> tuple[Action, ...]:
        """An attempt ended for this reason."""
        if self._running:
            self._schedule(now)
            return ()
        return self._replay(kind, now)

    def _replay(self, kind: FailureKind, now: float) -> tuple[Action, ...]:
        """Nothing is under way: another attempt, or wait for a place or for the budget, or the end."""
        self._hedge_parked = self._parked = False
        if now >= self._ends_at or self._used_up:
            return self._end(blame(self._failures, self._retry_after_s))
        seat = self._choose()
        if isinstance(seat, Refusal) and seat is not Refusal.FULL:
            down = seat is Refusal.DOWN and not _OF_THE_KEY.intersection(self._failures)
            return self._end(NOBODY if down else blame(self._failures, self._retry_after_s))
        booked = kind not in _UNBOOKED
        self._wanted = kind
        if isinstance(seat, Refusal):
            self._schedule(now)
            return ()
        if booked and not self._budget.take():
            self._parked = True
            self._schedule(now)
            return self._park()
        self._wanted = None
        self.cause = kind
        return (self._start(seat, now, booked=booked),)

    def _park(self) -> tuple[Action, ...]:
        if self._queued:
            return ()
        self._queued = True
        return (Park(),)

    def _move_late(self, now: float) -> tuple[Action, ...]:
        """Give up late attempts for one that still has time, or for a new one."""
        late = [run for run in self._running if run.due_at <= now]
        if not late:
            return ()
        if len(late) < len(self._running):
            return self._give_up(late, now)
        seat = Refusal.TRIED if self._used_up else self._choose_sound()
        booked = next((run for run in late if run.booked), None)
        if isinstance(seat, Refusal) or (booked is None and not self._budget.take()):
            for run in late:
                run.due_at = now + RECHECK_S
            self._schedule(now)
            return ()
        if booked is not None:
            booked.booked = False  # goes on to the new attempt
        cancels = self._give_up(late, now)
        self.cause = FailureKind.DEADLINE
        return (*cancels, self._start(seat, now, booked=True))

    def _give_up(self, late: Sequence[_Run], now: float) -> tuple[Action, ...]:
        cancels = self._drop(late)
        self._failures += (FailureKind.DEADLINE,) * len(late)
        self._hedge_parked = False  # what it was to help is given up
        self._schedule(now)
        return cancels

    def _hedge(self, now: float) -> tuple[Action, ...]:
        """Start a second attempt beside the one that is under way."""
        self._hedge_parked = False
        if self._hedged or self._used_up or len(self._running) != 1:
            return ()
        seat = self._choose_sound()
        if isinstance(seat, Refusal) or not is_peer(self._plan(), seat, self._running[0].seat):
            self._schedule(now)
            return ()
        if self._budget.take():
            self._hedged = True
            self.cause = _HEDGED
            return (self._start(seat, now, booked=True),)
        self._hedge_parked = True
        self._schedule(now)
        return self._park()

    def _parked_hedge(self, now: float) -> tuple[Action, ...]:
        """Start the hedge that waits for the budget, if it is still wanted."""
        if not self._hedge_parked:
            return ()
        if any(run.seat.suspect for run in self._running):
            return self._hedge(now)
        self._hedge_parked = False
        self._schedule(now)
        return ()

    # who may take over

    @property
    def _used_up(self) -> bool:
        """Whether this request has had its attempts."""
        reached = self.attempts - self._unreached
        return CONNECTS_PER_ATTEMPT * reached + self._unreached >= CONNECTS_PER_ATTEMPT * self._policy.max_attempts

    def _choose(self) -> Seat | Refusal:
        return choose(self._plan(), self._lane, self._random, self._tried, self._affinity)

    def _choose_sound(self) -> Seat | Refusal:
        return choose_sound(self._plan(), self._lane, self._random, self._tried, self._affinity)

    # how it ends

    def _end(self, answer: Answer) -> tuple[Action, ...]:
        cancels = self._drop(self._running)
        self._finish()
        return (*cancels, answer)

    def _finish(self) -> None:
        for run in self._running:
            if run.booked:
                self._budget.give()
        self._running = ()
        self._wanted = self._start_by = None
        self._parked = self._hedge_parked = False

    def _drop(self, runs: Sequence[_Run]) -> tuple[Action, ...]:
        """These are under way no longer; their bookings are free."""
        for run in runs:
            if run.booked:
                self._budget.give()
        self._running = tuple([run for run in self._running if run not in runs])
        return tuple([Cancel(run.attempt) for run in runs])

    def _schedule(self, now: float) -> None:
        """Say when to look next."""
        due = self._ends_at
        for run in self._running:
            due = min(due, run.due_at)
        if self._wanted is not None or self._hedge_parked or self._start_by is not None:
            due = min(due, now + POLL_S)
        self.due_at = due

    def __repr__(self) -> str:
        waits_at = ", ".join(f"{run.attempt}@{run.seat.id}" for run in self._running)
        return f"Rescue(running=[{waits_at}], attempts={self.attempts}, wanted={self._wanted}, parked={self.parked})"
