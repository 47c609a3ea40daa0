"""May this call still be paid for? Counts what is spent, what is being spent, and what requests in flight may come to.

Decides by sums alone: a call is let in when everything that counts against each of its limits, its own upper estimate
included, stays within that limit. So however many come at once, a limit is exceeded only by what a call costs beyond
its estimate.

Spending is learned twice, from whoever made the attempt and from the ledger, in whichever order; each attempt is known
by its key and counted once. The ledger is the truth: it holds what other lives of ours spent, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import Final, NamedTuple

from pulsegate.core.spending import EntryKind, Group, Sums
from pulsegate.core.window import Period, Window, period_of

EARLY_KEPT_S: Final = 60.0
"""How long a line that was read before its attempt was told of is remembered. It is told of within milliseconds."""

_NOTHING: Final = Decimal()


class Scope(StrEnum):
    """What a limit holds for."""

    ALL = "all"
    PROVIDER = "provider"
    KEY = "key"


class Purse(NamedTuple):
    """One limit's subject: everything (``name`` empty), one provider, or one API key."""

    scope: Scope
    name: str = ""


class AttemptKey(NamedTuple):
    """Names one attempt: see the ledger's ``op`` and ``attempt``."""

    op: str
    attempt: int


class Ticket(NamedTuple):
    """Names one reservation: who holds it (a worker's number), and its number there."""

    holder: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPolicy:
    """The limits, in CNY per window. ``warn_at`` is a share of one."""

    window: Window = Window.DAY
    zone: tzinfo
    limit_cny: Decimal | None = None
    provider_limits: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    key_limits: Mapping[str, Decimal] = field(default_factory=dict[str, Decimal])
    warn_at: Decimal = Decimal("0.8")

    @property
    def limits(self) -> dict[Purse, Decimal]:
        """Every limit by its subject."""
        found = {} if self.limit_cny is None else {Purse(Scope.ALL): self.limit_cny}
        found |= {Purse(Scope.PROVIDER, name): limit for name, limit in self.provider_limits.items()}
        return found | {Purse(Scope.KEY, name): limit for name, limit in self.key_limits.items()}


class Gate(StrEnum):
    """How a limit stands."""

    OPEN = "open"
    WARNING = "warning"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One limit as it stands: CLOSED as soon as the limit is spent. ``reserved_cny`` is not spent yet."""

    purse: Purse
    gate: Gate
    limit_cny: Decimal
    spent_cny: Decimal
    reserved_cny: Decimal

    @property
    def remaining_cny(self) -> Decimal:
        """What a new call may still cost."""
        return max(_NOTHING, self.limit_cny - self.spent_cny - self.reserved_cny)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The call cannot be paid for: which limit stands against it, and when it begins anew (epoch seconds)."""

    standing: Standing
    reopens_s: float | None


class Spent(NamedTuple):
    """An amount, and what it counts for."""

    provider: str
    client: str | None
    cny: Decimal


class _Sums(dict[Purse, Decimal]):
    """Amounts by what they count for."""

    def add(self, purses: Iterable[Purse], cny: Decimal) -> None:
        for purse in purses:
            self[purse] = self.get(purse, _NOTHING) + cny


class CostGate:
    """Time (``wall_s``) is seconds since the epoch: windows are days of people, not of machines."""

    def __init__(self, policy: CostPolicy) -> None:
        """Nothing is spent yet: see ``start``."""
        self._policy = policy
        self._limits = policy.limits
        self._groups: Mapping[Group, Sums] = {}
        self._period = Period(name="", start_s=0.0, end_s=0.0)
        self._booked, self._told, self._reserved = _Sums(), _Sums(), _Sums()
        self._held: dict[Ticket, Spent] = {}
        self._unseen: dict[AttemptKey, tuple[float, Spent]] = {}
        self._early: dict[AttemptKey, float] = {}

    def start(self, policy: CostPolicy, groups: Mapping[Group, Sums], wall_s: float) -> None:
        """Count by this policy from now on. ``groups`` are the ledger's sums; they are kept up to date by their owner.

        Reservations stay, as does what the ledger has not shown yet.
        """
        self._policy, self._limits, self._groups = policy, policy.limits, groups
        self._enter(period_of(policy.window, policy.zone, wall_s))

    def reserve(
        self, ticket: Ticket, provider: str, client: str | None, upper_cny: Decimal, wall_s: float
    ) -> Refusal | None:
        """A call wants in; None lets it. ``upper_cny`` is what it costs at most."""
        self._roll(wall_s)
        wanted = Spent(provider, client, upper_cny)
        for purse in self._purses(wanted):
            standing = self._standing(purse)
            if standing.gate is Gate.CLOSED or standing.remaining_cny < upper_cny:
                return Refusal(standing=standing, reopens_s=self._period.end_s)
        self._held[ticket] = wanted
        self._reserved.add(self._purses(wanted), upper_cny)
        return None

    def release(self, ticket: Ticket) -> Spent | None:
        """That attempt never reached its upstream, or nobody will tell of it any more. Returns what was held."""
        held = self._held.pop(ticket, None)
        if held is not None:
            self._reserved.add(self._purses(held), -held.cny)
        return held

    def release_all(self, holder: int) -> None:
        """That worker is gone: what it told of counts, what it held does not."""
        for ticket in [ticket for ticket in self._held if ticket.holder == holder]:
            self.release(ticket)

    def paid(self, ticket: Ticket, key: AttemptKey, cny: Decimal, wall_s: float) -> None:
        """That attempt is over and cost so much; its line is in the ledger, or will be."""
        held = self.release(ticket)
        if held is None or self._early.pop(key, None) is not None:
            return
        spent = held._replace(cny=cny)
        self._unseen[key] = (wall_s, spent)
        self._told.add(self._purses(spent), cny)

    def seen(self, key: AttemptKey, line: Spent, ts: float, wall_s: float) -> None:
        """The ledger shows a line: provider, client and cost of a user's attempt. ``ts`` is the line's own time."""
        self._roll(wall_s)
        told = self._unseen.pop(key, None)
        if told is not None:
            self._told.add(self._purses(told[1]), -told[1].cny)
        else:
            self._early[key] = wall_s
            if len(self._early) % 256 == 0:
                self._early = {key: at for key, at in self._early.items() if abs(wall_s - at) < EARLY_KEPT_S}
        if self._is_now(ts):
            self._booked.add(self._purses(line), line.cny)

    def standings(self, wall_s: float) -> tuple[Standing, ...]:
        """Every limit as it stands now."""
        self._roll(wall_s)
        return tuple(self._standing(purse) for purse in self._limits)

    @property
    def period(self) -> Period:
        """The window that is counted for, as of the latest call."""
        return self._period

    def _standing(self, purse: Purse) -> Standing:
        limit = self._limits[purse]
        spent = self._booked.get(purse, _NOTHING) + self._told.get(purse, _NOTHING)
        reserved = self._reserved.get(purse, _NOTHING)
        gate = Gate.CLOSED if spent >= limit else Gate.WARNING if spent >= limit * self._policy.warn_at else Gate.OPEN
        return Standing(purse=purse, gate=gate, limit_cny=limit, spent_cny=spent, reserved_cny=reserved)

    def _purses(self, spent: Spent) -> list[Purse]:
        purses = [Purse(Scope.ALL), Purse(Scope.PROVIDER, spent.provider)]
        if spent.client is not None:
            purses.append(Purse(Scope.KEY, spent.client))
        return [purse for purse in purses if purse in self._limits]

    def _is_now(self, at: float) -> bool:
        start_s, end_s = self._period.start_s, self._period.end_s
        return (start_s is None or at >= start_s) and (end_s is None or at < end_s)

    def _roll(self, wall_s: float) -> None:
        if not self._is_now(wall_s):
            self._enter(period_of(self._policy.window, self._policy.zone, wall_s))

    def _enter(self, period: Period) -> None:
        """A window begins (or the clock was put back into an earlier one): what the ledger says of it is booked."""
        self._period = period
        self._unseen = {key: kept for key, kept in self._unseen.items() if self._is_now(kept[0])}
        self._booked, self._told, self._reserved = _Sums(), _Sums(), _Sums()
        for _, told in self._unseen.values():
            self._told.add(self._purses(told), told.cny)
        for held in self._held.values():
            self._reserved.add(self._purses(held), held.cny)
        for group, sums in self._groups.items():
            if group.kind is EntryKind.REQUEST and group.provider is not None and period.holds(group.day):
                spent = Spent(group.provider, group.client, sums.cny)
                self._booked.add(self._purses(spent), spent.cny)
