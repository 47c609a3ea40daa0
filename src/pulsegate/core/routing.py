"""Who serves a request: weighted power of two choices over the endpoints that the snapshot and the lane allow.

Decides nothing about when to try again (``core/rescue.py``) and counts nothing itself: the data plane owns one
:class:`Seat` per endpoint and adds and takes away its requests in flight. A :class:`Plan` is compiled from a snapshot
once, so that a pick allocates nothing but its answer.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.snapshot import PoolView


class Lane(StrEnum):
    """How urgent a request is; degraded endpoints may be kept for LOW ones."""

    NORMAL = "normal"
    LOW = "low"


@dataclass(slots=True, eq=False, kw_only=True)
class Seat:
    """One endpoint as routing sees it: a cell that lives as long as the endpoint is configured.

    The data plane owns ``inflight`` (attempts that hold the endpoint now: plus one at the start of an attempt, minus
    one at its end, whatever the end). ``compile_plan`` writes the other fields from the snapshot; ``limit`` is the
    operator's own cap, from the configuration, and holds beside the snapshot's ``max_inflight``.

    ``affinity_seed`` is a stable 64-bit hash of the id (``affinity_seed_of``); rendezvous hashing mixes it with the
    key's. Compared by identity, hashable.
    """

    id: EndpointId
    pool: PoolName
    limit: int | None = None
    affinity_seed: int = 0
    inflight: int = 0
    weight: int = 0
    low_only: bool = False
    max_inflight: int | None = None
    ejected: bool = False
    suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """The seats of one pool that may be picked (weight above zero), by lane; empty when the pool is down."""

    pool: PoolName
    normal: tuple[Seat, ...]
    low: tuple[Seat, ...]
    down: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Who may serve one public model name now: its own pool first, then the fallbacks."""

    route: str
    tiers: tuple[Tier, ...]


class Refusal(StrEnum):
    """Why nobody could be picked."""

    DOWN = "down"  # no pool of the route has an endpoint that may serve
    FULL = "full"  # endpoints could serve, but each holds as many requests as it may
    TRIED = "tried"  # every endpoint that may serve is excluded already


def affinity_seed_of(text: str) -> int:
    """A stable 64-bit hash of an endpoint's id or of a session key: equal in all processes and runs."""
    raise NotImplementedError


def seat_views(seats: Mapping[EndpointId, Seat], pools: Iterable[PoolView]) -> tuple[list[Seat], list[Seat]]:
    """Write a snapshot's views into the seats.

    An endpoint that the snapshot does not name keeps what it had; a view without a seat is ignored.

    Returns:
        the seats that became ejected, and those that became suspect, by this snapshot: requests that wait there
        are told (``Rescue.endpoint_ejected`` and ``endpoint_suspect``).
    """
    raise NotImplementedError


def compile_plan(
    route: str, tiers: tuple[PoolName, ...], pools: Mapping[PoolName, PoolView], seats: Mapping[EndpointId, Seat]
) -> Plan:
    """The plan of one route, after ``seat_views``. A pool that the snapshot does not name yet is left out as down."""
    raise NotImplementedError


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
    ``(inflight + 1) / weight`` wins (power of two choices). A tier whose seats are all full, excluded or forbidden
    yields to the next.

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
    raise NotImplementedError
