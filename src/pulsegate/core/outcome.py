"""What the facts of one probe amount to. Decides nothing about the endpoint: that is ``health.py``."""

from dataclasses import dataclass
from enum import StrEnum

from pulsegate.core.health import Reason


class OutcomeKind(StrEnum):
    """The closed set of what a probe can amount to."""

    TOKEN = "token"
    TRUNCATED = "truncated"  # a token, but neither finish reason, usage nor [DONE]
    TIMEOUT = "timeout"
    STALLED = "stalled"  # a first token, the others not in time
    FATAL = "fatal"
    ERROR = "error"
    BUSY = "busy"
    WRONG = "wrong"
    REJECTED = "rejected"
    STARTING = "starting"
    SLEEPING = "sleeping"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One judged probe: ``ttft_s`` for TOKEN and TRUNCATED; ``reason`` is what a state that follows would carry."""

    kind: OutcomeKind
    reason: Reason
    detail: str = ""
    ttft_s: float | None = None
    retry_after_s: float | None = None
