"""What is said over one connection and what came of it: the values that the wire and the dialects share.

All times are seconds since the exchange began.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from pulsegate.core.probe import Fault, Phases

LINGER_S = 0.05
"""How long the end of an answer is waited for once its first token has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. ``path`` starts with a slash and is put behind the target's base path.

    Host, Content-Length, Accept-Encoding and the target's own headers are added by the wire; a header that the
    target sets too is left out here, because the operator's word counts.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = b""


class Flow(Enum):
    """What a listener wants next."""

    CONTINUE = auto()  # go on; the deadline holds
    LINGER = auto()  # the token came: the deadline is met, read on for 50 ms (or until ``end_deadline_s``)
    STOP = auto()  # close the connection now


class Listener(Protocol):
    """Hears one answer as it comes in. Synchronous and quick; an exception of a listener is raised by ``exchange``.

    A retry on a fresh connection happens only before the first byte, so nobody hears two answers.
    """

    def on_head(self, status: int, headers: Mapping[str, str], at_s: float) -> None:
        """The final (not 1xx) status and headers; names in lower case, repeated ones joined with a comma."""
        ...

    def on_body(self, data: bytes, at_s: float) -> Flow:
        """All body bytes of one read, chunk framing removed, never empty; ``at_s`` is the stamp of that read."""
        ...

    def on_end(self, at_s: float) -> None:
        """The body ended properly. Not called when it was cut, left, over a limit or late."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What an answer may cost us; more is a PROTOCOL fault and the connection is closed. Lines and events: sse.py."""

    header_bytes: int = 64 * 1024
    body_bytes: int = 16 * 1024 * 1024


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Facts of one exchange; exactly one of ``whole``, ``deadline_hit``, ``left`` and ``fault`` tells how it ended.

    The one overlap: a deadline that passed before there was a connection is also an UNREACHABLE fault.

    Attributes:
        status: of the final answer; None if there was none. A fault that came after the head keeps the status.
        headers: as given to ``Listener.on_head``.
        phases: without ``first_token_s``, which only a dialect knows. ``send_s`` is when the request was handed to
            the transport. ``dns_s``, ``connect_s`` and ``tls_s`` are None on a reused connection.
        fault: what went wrong below the dialect: refused, unreachable, TLS, closed, protocol, redirect, local.
        whole: the body ended properly.
        deadline_hit: we closed it at the deadline (or at ``end_deadline_s``, see ``lingered``).
        left: we closed it: 50 ms after LINGER, or on STOP.
        lingered: the listener had said LINGER.
        reused: the answer came over a connection that had served before.
        bytes_read: raw bytes of the answer, head and framing included.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    phases: Phases = field(default_factory=Phases)
    fault: Fault | None = None
    whole: bool = False
    deadline_hit: bool = False
    left: bool = False
    lingered: bool = False
    reused: bool = False
    bytes_read: int = 0
