"""Who takes a request over from an endpoint that failed, is late or is suspected. When that is done is ``rescue.py``.

``tried`` are the seats that the request has been at; ``random`` and ``affinity`` are those of ``routing.pick``.
"""

from collections.abc import Callable, Collection

from pulsegate.core.routing import Lane, Plan, Refusal, Seat, pick


def choose(
    plan: Plan, lane: Lane, random: Callable[[], float], tried: Collection[Seat], affinity: int | None
) -> Seat | Refusal:
    """For a request that nobody has: the best that there is."""
    seat = pick(plan, lane, random, tried, affinity)
    if isinstance(seat, Refusal):
        return seat if lane is Lane.LOW else pick(plan, Lane.LOW, random, tried, affinity)
    if seat.suspect:
        sound = choose_sound(plan, lane, random, tried, affinity)
        if not isinstance(sound, Refusal) and sound.pool == seat.pool:
            return sound
    return seat


def choose_sound(
    plan: Plan, lane: Lane, random: Callable[[], float], tried: Collection[Seat], affinity: int | None
) -> Seat | Refusal:
    """For a request that somebody has: one free of suspicion, or none."""
    suspects = [seat for tier in plan.tiers for seat in tier.low if seat.suspect]
    return pick(plan, lane, random, (*tried, *suspects), affinity)


def is_peer(plan: Plan, seat: Seat, waiting: Seat) -> bool:
    """Whether ``seat`` is in the same pool as ``waiting`` or in one that comes before it."""
    pools = [tier.pool for tier in plan.tiers]
    before = pools[: pools.index(waiting.pool)] if waiting.pool in pools else pools
    return seat.pool == waiting.pool or seat.pool in before
