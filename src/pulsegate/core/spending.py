"""Adds up what was spent: whole, and by provider, model, client and day. Shows apart what must not be mixed in.

Apart from the total: probes, which are ours and not the users'; what self-hosted models cost by the hour, which is
spent whether they are asked or not; and attempts that nobody knows the price of.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple


class EntryKind(StrEnum):
    """Who an attempt was made for."""

    REQUEST = "request"
    PROBE = "probe"


class By(StrEnum):
    """What sums can be grouped by."""

    PROVIDER = "provider"
    MODEL = "model"
    CLIENT = "client"
    DAY = "day"


class Group(NamedTuple):
    """What a sum is kept for. ``provider`` None: self-hosted. ``client`` None: came without a key."""

    kind: EntryKind
    provider: str | None
    model: str
    client: str | None
    day: str


@dataclass(slots=True)
class Sums:
    """Of any number of attempts. ``calls`` counts requests, however many attempts each of them took.

    ``unpriced`` attempts have no known price; ``estimated`` ones no usage that the upstream reported.
    """

    cny: Decimal = field(default_factory=Decimal)
    calls: int = 0
    attempts: int = 0
    unpriced: int = 0
    estimated: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def add(self, other: "Sums") -> None:
        """Take in what another sum holds."""
        self.cny += other.cny
        self.calls += other.calls
        self.attempts += other.attempts
        self.unpriced += other.unpriced
        self.estimated += other.estimated
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """All sums of some stretch of a ledger."""

    paid: Sums
    self_hosted: Sums
    probes: Sums
    by: dict[By, dict[str, Sums]]


SELF_HOSTED = "self-hosted"
NO_CLIENT = "-"


def spending_of(groups: Iterable[tuple[Group, Sums]]) -> Spending:
    """Adds up. ``by`` holds users' requests only, paid and self-hosted; the groups' own sums are not changed."""
    found = Spending(paid=Sums(), self_hosted=Sums(), probes=Sums(), by={by: {} for by in By})
    for group, sums in groups:
        if group.kind is EntryKind.PROBE:
            found.probes.add(sums)
            continue
        (found.self_hosted if group.provider is None else found.paid).add(sums)
        names = {
            By.PROVIDER: group.provider or SELF_HOSTED,
            By.MODEL: group.model,
            By.CLIENT: group.client or NO_CLIENT,
            By.DAY: group.day,
        }
        for by, name in names.items():
            found.by[by].setdefault(name, Sums()).add(sums)
    return found
