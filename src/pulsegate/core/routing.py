"""Who serves a request: weighted power of two choices over the endpoints that the snapshot and the lane allow.

Decides nothing about when to try again (``core/rescue.py``) and counts nothing itself: the data plane owns one
:class:`Seat` per endpoint and adds and takes away its requests in flight. A :class:`Plan` is compiled from a snapshot
once, so that a pick allocates nothing but its answer.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from itertools import accumulate
from math import log
from typing import Final

from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.snapshot import PoolView


class Lane(StrEnum):
    """How urgent a request is; degraded endpoints may be kept for LOW ones."""

    NORMAL = "normal"
    LOW = "low"


_LOW: Final = Lane.LOW


@dataclass(slots=True, eq=False, kw_only=True)
class Seat:
    """One endpoint as routing sees it: a cell that lives as long as the endpoint is configured.

    The data plane owns ``inflight`` (attempts that hold the endpoint now: plus one at the start of an attempt, minus
    one at its end, whatever the end). ``seat_views`` writes the other fields from the snapshot; ``limit`` is the
    operator's own cap, from the configuration, and holds beside the snapshot's ``max_inflight``.

    ``shared``: the seats of its pool are one server, asked with different keys.

    ``affinity_seed`` is a stable 64-bit hash of the id (``affinity_seed_of``); rendezvous hashing mixes it with the
    key's. Compared by identity, hashable.
    """

    id: EndpointId
    pool: PoolName
    limit: int | None = None
    shared: bool = False
    affinity_seed: int = 0
    inflight: int = 0
    weight: int = 0
    low_only: bool = False
    max_inflight: int | None = None
    ejected: bool = False
    suspect: bool = False

    @property
    def full(self) -> bool:
        """Whether it holds as many requests as it may."""
        limit, cap = self.limit, self.max_inflight
        return (limit is not None and self.inflight >= limit) or (cap is not None and self.inflight >= cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The seats of one pool that may be picked (weight above zero), by lane; empty when the pool is down.

    ``starting``: a request that nobody can serve may wait for this pool. ``normal_steps`` and ``low_steps`` are the
    running sums of their weights, to draw by.
    """

    pool: PoolName
    normal: tuple[Seat, ...]
    low: tuple[Seat, ...]
    down: bool
    starting: bool = False
    normal_steps: tuple[int, ...] = field(init=False, repr=False)
    low_steps: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "normal_steps", _steps(self.normal))
        object.__setattr__(self, "low_steps", _steps(self.low))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who may serve one public model name now: its own pool first, then the fallbacks."""

    route: str
    tiers: tuple[Tier, ...]

    @property
    def starting(self) -> bool:
        """Whether somebody may serve within a moment although nobody can now."""
        return any(tier.starting for tier in self.tiers)


class Refusal(StrEnum):
    """Why nobody could be picked."""

    DOWN = "down"  # no pool of the route has an endpoint that may serve
    FULL = "full"  # endpoints could serve, but each holds as many requests as it may
    TRIED = "tried"  # every endpoint that may serve is excluded already


def affinity_seed_of(text: str) -> int:
    """A stable 64-bit hash of an endpoint's id or of a session key: equal in all processes and runs."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def seat_views(seats: Mapping[EndpointId, Seat], pools: Iterable[PoolView]) -> tuple[list[Seat], list[Seat]]:
    """Write a snapshot's views into the seats.

    An endpoint that the snapshot does not name keeps what it had; a view without a seat is ignored.

    Returns:
        the seats that became ejected, and those that became suspect, by this snapshot: requests that wait there
        are told (``Rescue.endpoint_ejected`` and ``endpoint_suspect``).
    """
    ejected: list[Seat] = []
    suspect: list[Seat] = []
    for pool in pools:
        for view in pool.endpoints:
            seat = seats.get(view.id)
            if seat is None:
                continue
            if view.ejected and not seat.ejected:
                ejected.append(seat)
            if view.suspect and not seat.suspect:
                suspect.append(seat)
            seat.weight = view.weight
            seat.low_only = view.low_only
            seat.max_inflight = view.max_inflight
            seat.ejected = view.ejected
            seat.suspect = view.suspect
    return ejected, suspect


def compile_plan(
    route: str, tiers: tuple[PoolName, ...], pools: Mapping[PoolName, PoolView], seats: Mapping[EndpointId, Seat]
) -> Plan:
    """The plan of one route, after ``seat_views``. A pool that the snapshot does not name yet is left out as down.

    Where every seat is kept for LOW requests, NORMAL ones may use them too: lanes spare a degraded endpoint at the cost
    of sound ones, never at the cost of the request. Their caps hold.
    """
    return Plan(route=route, tiers=tuple(_tier(name, pools.get(name), seats) for name in tiers))


def _tier(name: PoolName, view: PoolView | None, seats: Mapping[EndpointId, Seat]) -> Tier:
    if view is None:
        return Tier(pool=name, normal=(), low=(), down=True)
    if view.down:
        return Tier(pool=name, normal=(), low=(), down=True, starting=view.starting)
    known = (seats.get(endpoint.id) for endpoint in view.endpoints)
    low = tuple(seat for seat in known if seat is not None and seat.weight > 0 and not seat.ejected)
    normal = tuple(seat for seat in low if not seat.low_only)
    return Tier(pool=name, normal=normal or low, low=low, down=False, starting=view.starting)


def _steps(seats: Iterable[Seat]) -> tuple[int, ...]:
    return tuple(accumulate(seat.weight for seat in seats))


def pick(
    plan: Plan,
    lane: Lane,
    random: Callable[[], float],
    excluded: Collection[Seat] = (),
    affinity: int | None = None,
) -> Seat | Refusal:
    """The seat to try next.

    In the first tier that has a seat which is allowed by lane, below its caps (``limit`` and ``max_inflight``) and not
    excluded: two different ones are drawn at random in proportion to weight, the one with the smaller
    ``(inflight + 1) / weight`` wins (power of two choices; the one drawn first if they are equal). A tier whose seats
    are all full, excluded or forbidden yields to the next.

    Args:
        plan: of the request's route.
        lane: NORMAL skips seats that are ``low_only``; LOW may use all.
        random: uniform in [0, 1), e.g. ``random.Random().random``.
        excluded: seats that this request tried already.
        affinity: a session's hash (``affinity_seed_of``) or None. The rendezvous winner is taken while it is not
            suspect and its load is at most twice the tier's mean (plus one request); otherwise the next in rendezvous
            order, then as without affinity. A tier's ejected or missing seats move only their own sessions.

    Cost: must stay below 1.5 microseconds for two to eight seats without exclusions or affinity.
    """
    low = lane is _LOW
    refusal = Refusal.DOWN
    for tier in plan.tiers:
        seats = tier.low if low else tier.normal
        if not seats:
            continue
        if not excluded and affinity is None:
            seat = _two_choices(seats, tier.low_steps if low else tier.normal_steps, random)
            if not seat.full:
                return seat
        free = [seat for seat in seats if seat not in excluded]
        open_ = [seat for seat in free if not seat.full]
        if open_:
            bound = None if affinity is None else _bound(open_, affinity)
            return bound or _two_choices(open_, _steps(open_), random)
        if free:
            refusal = Refusal.FULL
        elif refusal is Refusal.DOWN:
            refusal = Refusal.TRIED
    return refusal


def _two_choices(seats: Sequence[Seat], steps: Sequence[int], random: Callable[[], float]) -> Seat:
    """Two different seats drawn in proportion to weight; the less loaded one, or the one drawn first.

    ``steps`` are the running sums of the seats' weights.
    """
    last = len(seats) - 1
    if not last:
        return seats[0]
    total = steps[last]
    at = bisect_right(steps, random() * total, 0, last)
    first = seats[at]
    if last == 1:
        second = seats[1 - at]
    else:
        begin = steps[at - 1] if at else 0
        width = steps[at] - begin
        drawn = random() * (total - width)  # among the others: the first one's stretch is cut out
        second = seats[bisect_right(steps, drawn if drawn < begin else drawn + width, 0, last)]
    if (first.inflight + 1) * second.weight > (second.inflight + 1) * first.weight:
        return second
    return first


_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB
_64_BITS: Final = 0xFFFF_FFFF_FFFF_FFFF
_LOAD_FACTOR: Final = 2


def _bound(seats: Sequence[Seat], affinity: int) -> Seat | None:
    """The first of the two best in the session's rendezvous order that is neither suspect nor overloaded."""
    best = runner_up = None
    best_score = runner_up_score = float("-inf")
    inflight = weight = 0
    for seat in seats:
        inflight += seat.inflight
        weight += seat.weight
        score = _score(seat, affinity)
        if score > best_score:
            runner_up, runner_up_score = best, best_score
            best, best_score = seat, score
        elif score > runner_up_score:
            runner_up, runner_up_score = seat, score
    for seat in (best, runner_up):
        if seat is None or seat.suspect:
            continue
        if (seat.inflight - 1) * weight <= _LOAD_FACTOR * inflight * seat.weight:
            return seat
    return None


def _score(seat: Seat, affinity: int) -> float:
    """Weighted rendezvous hashing: each seat wins a share of the sessions in proportion to its weight.

    Weights count in powers of two, so that the small steps of a busy endpoint or of a slow start do not carry sessions
    (and with them the use of prefix caches) back and forth; the bound on the load moves them where that matters. The
    mixing is a shortened splitmix64: what it mixes are hashes already.
    """
    mixed = (affinity ^ seat.affinity_seed) * _MIX_1 & _64_BITS
    mixed = (mixed ^ (mixed >> 32)) * _MIX_2 & _64_BITS
    uniform = ((mixed >> 12) + 0.5) * 2.0**-52  # above 0 and below 1
    return log(uniform) / (1 << (seat.weight.bit_length() - 1))
