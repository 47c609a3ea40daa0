"""What a client is told when nobody could serve its request."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from pulsegate.core.attempts import Answer, FailureKind

RETRY_SOON_S: Final = 1
RETRY_LATER_S: Final = 5
RETRY_MAX_S: Final = 60

_ABSENT: Final = frozenset({FailureKind.CONNECT, FailureKind.EJECTED})
_FULL: Final = frozenset({FailureKind.OVERLOAD, FailureKind.LOCAL})

NOBODY: Final = Answer(
    status=503,
    code="no_endpoint_available",
    message="No server of this model is available now.",
    retry_after_s=RETRY_LATER_S,
)
OVERLOADED: Final = Answer(
    status=503, code="overloaded", message="All servers of this model are full.", retry_after_s=RETRY_SOON_S
)
TIMED_OUT: Final = Answer(status=504, code="upstream_timeout", message="No server of this model has answered in time.")
_FAILED: Final = Answer(
    status=502, code="upstream_failed", message="The servers of this model failed to answer this request."
)
UNPAID: Final = Answer(
    status=402, code="cost_limit_reached", message="The cost limit is reached, and nobody serves this model for free."
)
_REJECTED: Final = Answer(
    status=502, code="upstream_rejected", message="The servers of this model refuse the gateway's credentials."
)


def blame(failures: Sequence[FailureKind], retry_after_s: float | None) -> Answer:
    """The error for a request whose attempts failed in this order.

    Servers that are gone or full are named only if no other one did anything worse. ``retry_after_s`` is the soonest
    that a full one asked for; the answer repeats it in whole seconds, from 1 to 60.
    """
    telling = [kind for kind in failures if kind not in _ABSENT]
    if not telling:
        return NOBODY
    worse = [kind for kind in telling if kind not in _FULL]
    if not worse:
        return replace(OVERLOADED, retry_after_s=min(RETRY_MAX_S, max(RETRY_SOON_S, ceil(retry_after_s or 0))))
    match worse[-1]:
        case FailureKind.DEADLINE:
            return TIMED_OUT
        case FailureKind.COST:
            return UNPAID
        case FailureKind.REJECTED:
            return _REJECTED
        case _:
            return _FAILED
