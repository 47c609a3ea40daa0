"""What control process and workers say to each other, and how it is framed on a stream socket.

Sans-IO: :func:`frame` makes bytes, a :class:`FrameReader` makes messages of them. A frame is a length (4 bytes, big
endian) and a msgpack document with a tag. Both ends are of one version: the control process starts its workers itself.
"""

from decimal import Decimal
from typing import Final

import msgspec

from pulsegate.control.readiness import CostView
from pulsegate.core.events import TrafficSeen
from pulsegate.core.figures import WorkerFigures
from pulsegate.core.provider_status import KeyPing, ProviderSeen
from pulsegate.core.snapshot import Snapshot

MAX_FRAME_BYTES = 64 * 2**20
_LENGTH_BYTES = 4


class NewSetup(msgspec.Struct, frozen=True, tag="setup"):
    """What to serve. ``setup`` is the data plane's own encoding: it holds secrets, so it is never logged."""

    setup: bytes

    def __repr__(self) -> str:
        return f"NewSetup({len(self.setup)} bytes)"


class NewSnapshot(msgspec.Struct, frozen=True, tag="snapshot"):
    """Route by this from now on."""

    snapshot: Snapshot


class DrainNow(msgspec.Struct, frozen=True, tag="drain"):
    """Accept no more, finish what is under way within ``timeout_s``, then end."""

    timeout_s: float


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """The worker's last word: so many requests were cut off because their time was up."""

    cut: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The worker serves, by its latest setup."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The worker cannot serve by the setup that it was sent; ``problem`` is for the operator."""

    problem: str


class Traffic(msgspec.Struct, frozen=True, tag="traffic"):
    """What users' requests met at endpoints."""

    seen: list[TrafficSeen]


class Figures(msgspec.Struct, frozen=True, tag="figures"):
    """All counters of the worker, as running totals."""

    figures: WorkerFigures


LIMIT_CODE: Final = "cost_limit_reached"
LEDGER_CODE: Final = "ledger_unavailable"


class MayPay(msgspec.Struct, frozen=True, tag="may_pay"):
    """A paid call wants in: may it cost up to ``upper_cny``? ``ask`` is the worker's number for this attempt."""

    ask: int
    provider: str
    client: str | None
    upper_cny: Decimal


class Admission(msgspec.Struct, frozen=True, tag="admission"):
    """The answer to ``MayPay``. ``code`` None: go ahead; else that and ``problem`` is what the client is told."""

    ask: int
    code: str | None = None
    problem: str = ""
    reopens_in_s: float | None = None


class Paid(msgspec.Struct, frozen=True, tag="paid"):
    """That attempt is over. ``op`` and ``attempt`` name its line in the ledger."""

    ask: int
    op: str
    attempt: int
    cny: Decimal


class Forgone(msgspec.Struct, frozen=True, tag="forgone"):
    """That attempt never reached its upstream."""

    ask: int


class Allowance(msgspec.Struct, frozen=True, tag="allowance"):
    """What this worker may spend on its own, should the control process be gone. None: there is no limit."""

    cny: Decimal | None


class LedgerState(msgspec.Struct, frozen=True, tag="ledger"):
    """Why the worker cannot write its ledger lines; None: it can (again)."""

    problem: str | None


class Providers(msgspec.Struct, frozen=True, tag="providers"):
    """How hosted providers are now, as this worker knows them; those that have not changed are left out."""

    seen: list[ProviderSeen]


class PingAsked(msgspec.Struct, frozen=True, tag="ping_asked"):
    """Somebody wants to know how providers are now: ``PingOver`` with the same number comes back."""

    ask: int


class PingOver(msgspec.Struct, frozen=True, tag="ping_over"):
    """What is known of providers is fresh; a ``NewOutlook`` with it has come before."""

    ask: int


class NewOutlook(msgspec.Struct, frozen=True, tag="outlook"):
    """What only the control process knows: the latest ping with each key, how money stands, and why it is ``apart``."""

    pings: list[KeyPing]
    cost: CostView
    apart: str = ""


ToWorker = NewSetup | NewSnapshot | DrainNow | Admission | Allowance | NewOutlook | PingOver
FromWorker = (
    Ready | Refused | Traffic | Figures | Drained | MayPay | Paid | Forgone | LedgerState | Providers | PingAsked
)
Money = MayPay | Paid | Forgone | LedgerState
Message = ToWorker | FromWorker

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Message)


class LinkError(Exception):
    """The other end sent what is no message: a bug of ours, since both ends are of one version."""


def frame(message: Message) -> bytes:
    """One message as bytes."""
    body = _ENCODER.encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class FrameReader:
    """Makes messages of what arrives, however it is cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that are complete now.

        Raises:
            LinkError: not a message, or longer than 64 MiB.
        """
        self._buffer += data
        messages: list[Message] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH_BYTES:
            body_at = start + _LENGTH_BYTES
            length = int.from_bytes(self._buffer[start:body_at], "big")
            if length > MAX_FRAME_BYTES:
                raise LinkError(f"a frame of {length} bytes")
            if len(self._buffer) - body_at < length:
                break
            messages.append(_decoded(bytes(self._buffer[body_at : body_at + length])))
            start = body_at + length
        del self._buffer[:start]
        return messages


def _decoded(body: bytes) -> Message:
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as exc:
        raise LinkError(str(exc)) from exc
