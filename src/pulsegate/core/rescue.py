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
load: a replay after ``FailureKind.CONNECT`` (nothing reached an engine) and a replay away from an ejected endpoint
(its work is cancelled, load moves). A booking ends with the attempt's first token or its end. Over the budget nothing
fails: a replay with no other attempt under way parks (``Park``) until ``budget_freed`` or the request's deadline; a
hedge parks silently the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Lane, Plan, Seat


class FailureKind(StrEnum):
    """Why an attempt ended without a token. User errors (other 4xx) are no failures but answers."""

    CONNECT = "connect"  # refused, unreachable, TLS, connect timeout: the request never left
    CLOSED = "closed"  # reset or closed before a token
    PROTOCOL = "protocol"  # not HTTP, a bad chunk, over a limit, not what was asked for
    SERVER = "server"  # 5xx, or an error event or body inside 200
    OVERLOAD = "overload"  # 429, 503 that means it: alive and full
    REJECTED = "rejected"  # 401, 402, 403, 407: our credentials there are wrong, which is not the user's fault
    DEADLINE = "deadline"  # no first token in time
    EJECTED = "ejected"  # declared dead while we waited
    LOCAL = "local"  # our own fault, such as no file descriptors left


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuePolicy:
    """Per route. Times in seconds.

    ``attempt_deadline_s`` is how long one attempt may take to its first token (streams) or its whole answer (others).
    ``total_deadline_s`` is how long all attempts and parking together may take. ``max_attempts`` counts the first one.
    """

    attempt_deadline_s: float
    total_deadline_s: float
    max_attempts: int = 3
    hedge: bool = True


@dataclass(frozen=True, slots=True)
class Start:
    """Send the request to ``seat`` as attempt number ``attempt`` (0, 1, ...; unique within the request)."""

    attempt: int
    seat: Seat


@dataclass(frozen=True, slots=True)
class Cancel:
    """Close that attempt's connection at once and drop what it has held back."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Relay:
    """This attempt has won: send on what it has held back and all that follows."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Nobody can serve: end the request with this error, in OpenAI's JSON shape.

    ``code`` is stable: ``no_endpoint_available`` (503, the pools are down), ``overloaded`` (503 or 429 from everyone:
    all full), ``upstream_timeout`` (504), ``upstream_failed`` (502), ``upstream_rejected`` (502). 429 and 503 carry
    ``retry_after_s``.
    """

    status: int
    code: str
    message: str
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Park:
    """Wait: nothing is under way and the budget is used up. Call ``budget_freed`` when it may have room."""


Action = Start | Cancel | Relay | Answer | Park


class Rescue:
    """The attempts of one request. Times (``now``) are monotonic seconds.

    Attributes:
        due_at: when to call ``deadline`` next: the earliest deadline of an attempt under way, or the total deadline
            while parked. The data plane reads it after each call; it only ever moves later while one attempt is under
            way.
        attempts: how many were started.
        cause: why the latest extra attempt was started, for the access log; None while there was only one.
    """

    __slots__ = ("attempts", "cause", "due_at")

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
        raise NotImplementedError

    def begin(self, now: float) -> tuple[Action, ...]:
        """Start the first attempt: ``(Start,)``, or ``(Answer,)`` at once when no pool can serve."""
        raise NotImplementedError

    def answered(self, attempt: int, now: float) -> tuple[Action, ...]:
        """That attempt brought its first real token, a whole answer, or a user error: cancels the others, relays it."""
        raise NotImplementedError

    def failed(
        self, attempt: int, kind: FailureKind, now: float, retry_after_s: float | None = None
    ) -> tuple[Action, ...]:
        """That attempt ended by itself (its connection needs no ``Cancel``). Empty while another one is under way."""
        raise NotImplementedError

    def deadline(self, now: float) -> tuple[Action, ...]:
        """``due_at`` has come: attempts past their deadline are cancelled and replayed elsewhere, or the request ends
        with 504.

        An attempt is left alone when no other endpoint could take the request and ``total_deadline_s`` is not over.
        """
        raise NotImplementedError

    def endpoint_ejected(self, seat: Seat, now: float) -> tuple[Action, ...]:
        """That endpoint was declared dead. Cancels the attempts that wait there and replays; empty if none does."""
        raise NotImplementedError

    def endpoint_suspect(self, seat: Seat, now: float) -> tuple[Action, ...]:
        """A probe timed out there. Hedges once per request if another endpoint is free of suspicion.

        The first attempt goes on.
        """
        raise NotImplementedError

    def budget_freed(self, now: float) -> tuple[Action, ...]:
        """The budget may have room again; does what was parked, or nothing."""
        raise NotImplementedError

    @property
    def parked(self) -> bool:
        """Whether a replay or a hedge waits for the budget."""
        raise NotImplementedError

    def client_gone(self) -> tuple[Action, ...]:
        """The client left: cancels everything; bookings are given back. The machine is finished."""
        raise NotImplementedError
