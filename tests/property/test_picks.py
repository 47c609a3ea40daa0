"""What holds of any pick, and how load is shared in the long run."""

import random
from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.routing import Lane, Plan, Refusal, Seat, affinity_seed_of, pick
from support.seating import Room

ENDPOINTS = st.fixed_dictionaries(
    {
        "weight": st.sampled_from([0, 0, 1, 10, 30, 70, 100]),
        "low_only": st.booleans(),
        "max_inflight": st.sampled_from([None, None, 0, 1, 4]),
        "suspect": st.booleans(),
    }
)
POOLS = st.lists(st.lists(ENDPOINTS, min_size=1, max_size=5), min_size=1, max_size=3)
LANES = st.sampled_from(Lane)
SESSIONS = st.none() | st.integers(min_value=0, max_value=2**64 - 1)


def room_of(pools: list[list[dict[str, object]]]) -> Room:
    room = Room({f"pool{n}": [f"{n}.{m}" for m in range(len(pool))] for n, pool in enumerate(pools)})
    for n, pool in enumerate(pools):
        for m, changes in enumerate(pool):
            room.change(f"{n}.{m}", **changes)
    return room


def allowed(room: Room, lane: Lane, excluded: set[Seat]) -> list[list[Seat]]:
    """By pool: the seats that the rules allow, in plain words. Weight, lane, caps, exclusions."""
    pools: list[list[Seat]] = []
    for name in room.views:
        seats = [seat for seat in room.seats.values() if seat.pool == name and seat.weight > 0 and not seat.ejected]
        sound = [seat for seat in seats if not seat.low_only]
        if lane is Lane.NORMAL and sound:
            seats = sound
        caps = [(seat, [cap for cap in (seat.limit, seat.max_inflight) if cap is not None]) for seat in seats]
        pools.append([seat for seat, cap in caps if seat not in excluded and all(seat.inflight < most for most in cap)])
    return pools


@given(pools=POOLS, lane=LANES, session=SESSIONS, data=st.data())
def test_a_pick_keeps_every_rule_and_refuses_only_when_it_must(pools, lane, session, data):
    room = room_of(pools)
    for seat in room.seats.values():
        seat.inflight = data.draw(st.integers(0, 6))
        seat.limit = data.draw(st.sampled_from([None, None, 2]))
    excluded = data.draw(st.sets(st.sampled_from(sorted(room.seats.values(), key=lambda seat: seat.id)), max_size=4))
    chance = random.Random(data.draw(st.integers(0, 2**32))).random
    seat = pick(room.plan, lane, chance, excluded, session)
    may = allowed(room, lane, excluded)
    if isinstance(seat, Seat):
        assert seat in next(pool for pool in may if pool)
        return
    assert not any(may)
    uncapped = [pool for pool in room.plan.tiers if (pool.low if lane is Lane.LOW else pool.normal)]
    match seat:
        case Refusal.DOWN:
            assert not uncapped
        case Refusal.TRIED:
            assert all(one in excluded for pool in uncapped for one in (pool.low if lane is Lane.LOW else pool.normal))
        case Refusal.FULL:
            assert any(
                one not in excluded for pool in uncapped for one in (pool.low if lane is Lane.LOW else pool.normal)
            )


@given(
    weights=st.lists(st.integers(1, 100), min_size=2, max_size=6),
    first=st.floats(0, 1, exclude_max=True),
    second=st.floats(0, 1, exclude_max=True),
)
def test_any_chance_draws_two_different_seats(weights, first, second):
    """The less loaded of two different ones wins, so the most loaded one of all never does."""
    room = room_of([[{"weight": weight} for weight in weights]])
    last = room[f"0.{len(weights) - 1}"]
    last.inflight = 10**6
    numbers = [first, second]
    assert pick(room.plan, Lane.NORMAL, lambda: numbers.pop(0)) is not last


@given(
    weights=st.lists(st.sampled_from([1, 30, 70, 100]), min_size=2, max_size=6),
    session=st.integers(0, 2**64 - 1),
    gone=st.integers(0, 5),
)
def test_a_session_moves_only_when_its_own_seat_goes(weights, session, gone):
    room = room_of([[{"weight": weight} for weight in weights]])
    home = pick(room.plan, Lane.NORMAL, random.Random(1).random, (), session)
    room.eject(f"0.{gone % len(weights)}")
    away = pick(room.plan, Lane.NORMAL, random.Random(2).random, (), session)
    assert away is home or (isinstance(home, Seat) and home.ejected)
    room.change(f"0.{gone % len(weights)}", weight=weights[gone % len(weights)], ejected=False)
    assert pick(room.plan, Lane.NORMAL, random.Random(3).random, (), session) is home


@given(
    inflight=st.lists(st.integers(0, 20), min_size=3, max_size=6),
    session=st.integers(0, 2**64 - 1),
    suspect=st.integers(0, 5),
)
def test_sessions_yield_to_health_and_load(inflight, session, suspect):
    room = room_of([[{"weight": 100} for _ in inflight]])
    for n, held in enumerate(inflight):
        room[f"0.{n}"].inflight = held
    room.change(f"0.{suspect % len(inflight)}", suspect=True)
    mean = sum(inflight) / len(inflight)
    seat = pick(room.plan, Lane.NORMAL, lambda: 0.0, (), session)
    assert isinstance(seat, Seat)
    sound = [one for one in room.seats.values() if not one.suspect and one.inflight <= 2 * mean + 1]
    order = in_order(room.plan, list(room.seats.values()), session)[:2]
    expected = [one for one in order if one in sound]
    if expected:
        assert seat is expected[0]


def in_order(plan: Plan, seats: list[Seat], session: int) -> list[Seat]:
    """The session's order of seats, as an idle pool without suspicion shows it."""
    kept = [(seat, seat.inflight, seat.suspect) for seat in seats]
    for seat in seats:
        seat.inflight, seat.suspect = 0, False
    order: list[Seat] = []
    while len(order) < len(seats):
        seat = pick(plan, Lane.LOW, lambda: 0.0, order, session)
        assert isinstance(seat, Seat)
        order.append(seat)
    for seat, inflight, suspect in kept:
        seat.inflight, seat.suspect = inflight, suspect
    return order


def shares(room: Room, *, concurrency: int, lane: Lane = Lane.NORMAL, sessions: bool = False) -> dict[str, float]:
    """Each seat's share of 20,000 picks while so many requests are in flight; service time is the same everywhere,
    per weight: a seat of weight 30 serves 30 while one of weight 100 serves 100.
    """
    chance = random.Random(7)
    serving: dict[Seat, deque[int]] = {seat: deque() for seat in room.seats.values()}
    count: Counter[str] = Counter()
    credit = Counter[Seat]()
    in_flight = 0
    for number in range(20_000):
        while in_flight >= concurrency:
            for seat, queue in serving.items():
                credit[seat] = min(credit[seat] + seat.weight, 100 * (1 + len(queue)))
                while queue and credit[seat] >= 100:
                    credit[seat] -= 100
                    queue.popleft()
                    seat.inflight -= 1
                    in_flight -= 1
        session = affinity_seed_of(str(chance.randrange(500))) if sessions else None
        seat = pick(room.plan, lane, chance.random, (), session)
        assert isinstance(seat, Seat)
        seat.inflight += 1
        serving[seat].append(number)
        count[seat.id] += 1
        in_flight += 1
    return {name: held / 20_000 for name, held in count.items()}


@pytest.mark.parametrize("size", [2, 3, 4, 8, 20])
@pytest.mark.parametrize("sessions", [False, True])
def test_equal_weights_get_equal_shares(size, sessions):
    room = Room({"main": [f"s{n}" for n in range(size)]})
    got = shares(room, concurrency=8 * size, sessions=sessions)
    assert len(got) == size
    tolerance = 0.3 if sessions else 0.06
    assert all(share == pytest.approx(1 / size, rel=tolerance) for share in got.values()), got


def test_an_idle_pool_is_shared_too():
    got = shares(Room({"main": ["a", "b", "c"]}), concurrency=1)
    assert all(share == pytest.approx(1 / 3, rel=0.05) for share in got.values()), got


def test_weights_are_shares_at_saturation():
    room = Room({"main": ["a", "b"]})
    room.change("b", weight=30)
    assert shares(room, concurrency=64)["b"] == pytest.approx(30 / 130, rel=0.05)


def test_slow_start_gets_its_tenth():
    room = Room({"main": ["a", "b", "c"]})
    room.change("c", weight=10)
    assert shares(room, concurrency=96)["c"] == pytest.approx(10 / 210, rel=0.15)


def test_a_seat_that_stands_still_gets_no_more_than_it_holds():
    """A frozen endpoint of which nobody knows yet: requests in flight there count against it."""
    room = Room({"main": ["a", "b", "c", "d"]})
    chance = random.Random(3)
    for _ in range(2_000):
        seat = pick(room.plan, Lane.NORMAL, chance.random)
        assert isinstance(seat, Seat)
        if seat.id == "a":
            seat.inflight += 1  # never ends
    assert room["a"].inflight == 1


def test_nothing_goes_to_weight_zero():
    room = Room({"main": ["a", "b", "c"]})
    room.change("b", weight=0)
    assert set(shares(room, concurrency=32)) == {"a", "c"}


def test_lanes_share_what_they_may():
    room = Room({"main": ["a", "b"]})
    room.change("b", weight=30, low_only=True)
    assert set(shares(room, concurrency=16)) == {"a"}
    for seat in room.seats.values():
        seat.inflight = 0
    assert set(shares(room, concurrency=16, lane=Lane.LOW)) == {"a", "b"}
