"""The ledger as the control plane and the data plane see it: what a line holds, and who takes it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Protocol, TypeVar

import msgspec

from pulsegate.core.booking import UsageKind
from pulsegate.core.spending import EntryKind, Group, Sums


class Entry(msgspec.Struct, kw_only=True, gc=False):
    """One attempt that reached an upstream: one line of the ledger, its keys in this order.

    Attributes:
        ts: when it ended, in seconds since the epoch.
        op: the request's own id, made by us and so unique; all its attempts share it.
        attempt: 1 for the request's first attempt that reached an upstream, then 2, ...; ``op`` and ``attempt``
            together are unique.
        request_id: as the client knows it; a client may give the same one twice.
        client: the name of its API key; null without keys.
        provider: null for self-hosted models.
        model: the public name that was asked for.
        endpoint: who was asked.
        status: as the upstream answered; null when it did not.
        prompt_tokens: of the prompt, ``cached_tokens`` of them from the provider's cache; null when nothing is known.
        cost: in ``currency`` (CNY); null when the price is not known.
        price_version: the price that it was computed with; null without one.
        usage: where the tokens come from.
        ttft_ms: to the first token; null when there was none or the answer was not streamed.
        duration_ms: by a clock that never jumps.
    """

    ts: float
    op: str
    attempt: int
    request_id: str
    kind: EntryKind
    client: str | None
    provider: str | None
    model: str
    endpoint: str
    status: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    cost: Decimal | None
    currency: str | None
    price_version: str | None
    usage: UsageKind
    ttft_ms: float | None
    duration_ms: float


class Line(Protocol):
    """What the cost gate needs of a line that was read."""

    ts: float
    op: str
    attempt: int
    kind: str
    client: str | None
    provider: str | None
    cost: Decimal | None
    currency: str | None


LineT = TypeVar("LineT", bound=Line)


class Tail(Protocol[LineT]):
    """Reads a ledger as it grows, whoever writes it. Does I/O: to be called in a thread, one call at a time."""

    @property
    def groups(self) -> Mapping[Group, Sums]:
        """The sums of everything that was taken."""
        ...

    def start(self) -> None:
        """Find out what is there already. Raises OSError."""
        ...

    def news(self) -> list[LineT]:
        """The lines that came since the last call. Raises OSError."""
        ...

    def take(self, rows: list[LineT], /) -> None:
        """Add lines to the sums."""
        ...

    def save(self) -> None:
        """Make the next start quick."""
        ...


class Ledger(Protocol):
    """Where attempts are written down."""

    @property
    def trouble(self) -> str | None:
        """Why lines cannot be written now; None when all is well."""
        ...

    def book(self, entry: Entry) -> bool:
        """Write one line down at once. False: it could not be written yet; it is kept and tried again."""
        ...

    def tend(self) -> None:
        """To be called about every second: follows rotations, tries again what could not be written."""
        ...

    def close(self) -> None:
        """No more lines come."""
        ...
