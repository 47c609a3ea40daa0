"""A request's rescue machine at work on a room of seats: does what it says as a data plane would, and keeps a trace."""

from collections.abc import Callable
from typing import assert_never

from pulsegate.core.rescue import (
    Action,
    Answer,
    Cancel,
    FailureKind,
    Park,
    Relay,
    Rescue,
    RescuePolicy,
    Start,
)
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Lane, Seat
from support.seating import Room

POLICY = RescuePolicy(attempt_deadline_s=10.0, total_deadline_s=60.0)


def first() -> float:
    """Chance that always draws the first seat, and as its rival the next."""
    return 0.0


def used_up() -> RetryBudget:
    """A budget without any room, whose room can be made with ``give``."""
    budget = RetryBudget(percent=0, floor=1)
    assert budget.take()
    return budget


class Request:
    """One request. Its methods return what the machine wants done, as words: ``start 1 b``, ``cancel 0``, ``504 ...``.

    With chance that always draws the first, seats at equal load are taken in the order of their names.
    """

    def __init__(
        self,
        room: Room,
        *,
        policy: RescuePolicy = POLICY,
        lane: Lane = Lane.NORMAL,
        budget: RetryBudget | None = None,
        random: Callable[[], float] = first,
        affinity: int | None = None,
    ) -> None:
        self.room = room
        self.budget = RetryBudget() if budget is None else budget
        self.machine = Rescue(policy, room.current_plan, lane, self.budget, random, affinity)
        self.under_way: dict[int, Seat] = {}
        self.answer: Answer | None = None
        self.now = 100.0

    def at(self, seconds: float) -> "Request":
        """So many seconds since it began."""
        self.now = 100.0 + seconds
        return self

    @property
    def due_in(self) -> float:
        """When it wants to be looked at, in seconds since it began."""
        return self.machine.due_at - 100.0

    def begin(self) -> list[str]:
        self.budget.in_flight += 1
        return self.do(self.machine.begin(self.now))

    def answered(self, attempt: int) -> list[str]:
        return self.do(self.machine.answered(attempt, self.now))

    def failed(self, attempt: int, kind: FailureKind, retry_after_s: float | None = None) -> list[str]:
        seat = self.under_way.pop(attempt, None)
        if seat is not None:
            seat.inflight -= 1
        return self.do(self.machine.failed(attempt, kind, self.now, retry_after_s))

    def deadline(self) -> list[str]:
        return self.do(self.machine.deadline(self.now))

    def ejected(self, name: str) -> list[str]:
        """A snapshot ejects this endpoint."""
        self.room.eject(name)
        return self.do(self.machine.endpoint_ejected(self.room[name], self.now))

    def suspect(self, name: str) -> list[str]:
        """A snapshot suspects this endpoint."""
        self.room.change(name, suspect=True)
        return self.do(self.machine.endpoint_suspect(self.room[name], self.now))

    def budget_freed(self) -> list[str]:
        return self.do(self.machine.budget_freed(self.now))

    def client_gone(self) -> list[str]:
        return self.do(self.machine.client_gone())

    def do(self, actions: tuple[Action, ...]) -> list[str]:
        return [self._carry_out(action) for action in actions]

    def _carry_out(self, action: Action) -> str:
        match action:
            case Start(attempt, seat):
                seat.inflight += 1
                self.under_way[attempt] = seat
                return f"start {attempt} {seat.id}"
            case Cancel(attempt):
                self.under_way.pop(attempt).inflight -= 1
                return f"cancel {attempt}"
            case Relay(attempt):
                return f"relay {attempt} {self.under_way[attempt].id}"
            case Answer():
                self.answer = action
                return f"{action.status} {action.code}"
            case Park():
                return "park"
            case _:
                assert_never(action)
