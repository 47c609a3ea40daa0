"""What one probe asked and what came back: facts only, no judgement.

Adapters (``engines/``) turn bytes into a :class:`ProbeResult`; ``core/outcome.py`` decides what it amounts to.
All times are seconds; phases count from the start of the probe.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from pulsegate.core.ids import PromptId


class ProbeKind(StrEnum):
    """Two kinds of probe: the frequent one-token one, and the rare longer one."""

    MICRO = "micro"
    DEEP = "deep"


class FaultClass(StrEnum):
    """Why an answer was not a token. A failure is classified once, in the adapter."""

    CUDA = "cuda"  # out of memory, illegal access, device assert, Xid, NCCL: the device or its context is broken
    ENGINE_DEAD = "engine_dead"  # the engine process behind the web server is gone
    SERVER = "server"  # 5xx (or an error event that means it) without a known cause
    OVERLOAD = "overload"  # 429, 503 queue full: alive and full
    STARTING = "starting"  # loading, warming up, initialising
    SLEEPING = "sleeping"  # put to sleep on purpose
    AUTH = "auth"  # 401, 403
    BILLING = "billing"  # 402, no balance
    NOT_FOUND = "not_found"  # 404: no such model or path
    BAD_REQUEST = "bad_request"  # 400, 405, 422 and other 4xx
    OUTPUT_LIMIT = "output_limit"  # 400 that says the output limit was reached: the model ran
    REFUSED = "refused"  # connection refused, no such socket: nothing listens
    UNREACHABLE = "unreachable"  # no route, name not resolved, connect timed out
    TLS = "tls"  # handshake or certificate
    CLOSED = "closed"  # reset or ended before the answer was whole
    PROTOCOL = "protocol"  # not HTTP, not SSE, over a limit, garbage
    REDIRECT = "redirect"  # 3xx: never followed
    LOCAL = "local"  # our own fault: no file descriptors, no memory, bad certificate file


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One classified failure.

    ``detail`` is at most 200 printable characters, free of secrets, fit for a log line.
    """

    kind: FaultClass
    detail: str
    status: int | None = None
    retry_after_s: float | None = None


class Ending(StrEnum):
    """How the exchange ended."""

    COMPLETE = "complete"  # finish reason, usage or [DONE], and the body ended properly
    CUT = "cut"  # ended without finish reason, usage and [DONE], or in the middle of the body
    LEFT = "left"  # we closed it: the token had come and the end did not follow within 50 ms
    DEADLINE = "deadline"  # we closed it: no token by the deadline
    FAILED = "failed"  # a fault ended it


class Phases(NamedTuple):
    """When each step was done, in seconds since the probe began; None if it was not reached or not needed."""

    dns_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    send_s: float | None = None
    first_byte_s: float | None = None
    first_token_s: float | None = None
    end_s: float | None = None


class ProbeAsk(NamedTuple):
    """One probe to take: which prompt, how many tokens, by when.

    ``prompt`` is the whole text, nonce included. ``deadline_s`` counts from the start of the probe.
    ``end_deadline_s`` is when all ``max_tokens`` must have arrived (deep probes); None: reading on after the first
    token is limited to 50 ms.
    """

    kind: ProbeKind
    prompt_id: PromptId
    prompt: str
    nonce: str
    max_tokens: int
    deadline_s: float
    end_deadline_s: float | None = None


class ProbeResult(NamedTuple):
    """Facts of one probe.

    ``text`` is what the model said (text and reasoning joined), at most 200 characters; a real token can have empty
    text. ``tokens`` is what usage reported, None if it reported nothing. ``chunks`` counts events that carried a
    token. ``token_seen`` is true when text, a reasoning or tool delta, a finish reason or usage proved a token.
    ``lag_s`` is the longest time that our own event loop stood still while the probe ran. ``served_model`` is the name
    that the server was asked for, None if it was not known yet.
    """

    kind: ProbeKind
    prompt_id: PromptId
    phases: Phases
    ending: Ending
    token_seen: bool
    text: str
    chunks: int
    tokens: int | None
    finish_reason: str | None
    fault: Fault | None
    bytes_read: int
    reused: bool
    lag_s: float = 0.0
    served_model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """The engine's own progress counters, read from its metrics; None where the engine does not tell.

    ``progress`` is a sum that grows with every step or token of the engine. ``started_at`` changes when the process
    is a new one. A reading that failed is not a ``Counters`` but None.
    """

    progress: float | None
    running: float | None
    waiting: float | None
    started_at: float | None = None
