"""The words in which a request's attempts are spoken of: why one failed, what is to be done next, and how much of it.

``rescue.py`` decides with them, the data plane carries out and tells. Plain values.
"""

from dataclasses import dataclass
from enum import StrEnum

from pulsegate.core.routing import Seat


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
    COST = "cost"  # it cannot be paid for: the request never left
    LOCAL = "local"  # our own fault, such as no file descriptors left


NO_EVIDENCE = frozenset({FailureKind.LOCAL, FailureKind.OVERLOAD, FailureKind.EJECTED, FailureKind.COST})
"""Failures that say nothing bad about an endpoint's engine: our own, its being full, and what the prober told us
itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuePolicy:
    """Per route. Times in seconds.

    ``attempt_deadline_s`` is how long one attempt may take to its first token (streams) or its whole answer (others).
    ``total_deadline_s`` is how long all attempts and parking together may take. ``max_attempts`` counts the first one
    and all that may have reached an engine, so that a request which kills servers kills no more than that many.
    Those that failed to connect count a third: a fleet that just lost half of its servers is no reason to give up.
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
    all full), ``upstream_timeout`` (504), ``upstream_failed`` (502), ``upstream_rejected`` (502),
    ``cost_limit_reached`` (402). 429 and 503 carry
    ``retry_after_s``.
    """

    status: int
    code: str
    message: str
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Park:
    """The budget is used up: call ``budget_freed`` once, when it may have room.

    If it has none then, that call returns ``Park`` again. Until then nothing is under way, or only the attempt that is
    to be hedged.
    """


Action = Start | Cancel | Relay | Answer | Park
