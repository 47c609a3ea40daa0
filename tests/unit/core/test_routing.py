import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from pulsegate.core.ids import PoolName
from pulsegate.core.routing import Lane, Plan, Refusal, Seat, Tier, affinity_seed_of, compile_plan, pick, seat_views
from support.seating import Room, names, pool, view


def draws(*numbers: float) -> Callable[[], float]:
    """Chance that says these numbers, and fails when it is asked for more."""
    left = list(numbers)
    return lambda: left.pop(0)


def picked(room: Room, lane: Lane = Lane.NORMAL, *, excluded: tuple[str, ...] = (), drawn: tuple[float, ...] = ()):
    seat = pick(room.plan, lane, draws(*drawn), [room[name] for name in excluded])
    return seat if isinstance(seat, Refusal) else seat.id


class TestTwoChoices:
    @pytest.mark.parametrize(
        ("drawn", "chosen"),
        [
            ((0.0, 0.0), "a"),
            ((0.24, 0.0), "a"),
            ((0.25, 0.0), "b"),
            ((0.5, 0.0), "c"),
            ((0.999_999, 0.0), "d"),
        ],
    )
    def test_at_equal_load_the_one_drawn_first_wins(self, drawn, chosen):
        assert picked(Room({"main": ["a", "b", "c", "d"]}), drawn=drawn) == chosen

    @pytest.mark.parametrize(
        ("drawn", "chosen"),
        [
            ((0.0, 0.0), "b"),  # a is drawn; of b, c, d the first
            ((0.0, 0.34), "c"),
            ((0.0, 0.67), "d"),
            ((0.0, 1 - 2**-53), "d"),
            ((1 - 2**-53, 0.0), "a"),  # d is drawn; of a, b, c the first
            ((1 - 2**-53, 0.34), "b"),
            ((1 - 2**-53, 1 - 2**-53), "c"),
            ((0.25, 0.0), "a"),
            ((0.25, 0.34), "c"),
        ],
    )
    def test_the_second_is_drawn_among_the_others(self, drawn, chosen):
        room = Room({"main": ["a", "b", "c", "d"]})
        first = "abcd"[int(drawn[0] * 4)]
        room[first].inflight = 1
        assert picked(room, drawn=drawn) == chosen

    def test_load_is_requests_per_weight_with_the_new_one_counted(self):
        room = Room({"main": ["a", "b"]})
        room.change("b", weight=30)
        seen = []
        for _ in range(6):
            seat = room[picked(room, drawn=(0.0,))]
            seat.inflight += 1
            seen.append(seat.id)
        assert seen == ["a", "a", "a", "b", "a", "a"]  # 1/100 2/100 3/100 < 1/30 < 4/100 5/100 < 2/30

    def test_two_seats_cost_one_draw_and_one_seat_none(self):
        assert picked(Room({"main": ["a", "b"]}), drawn=(0.6,)) == "b"
        assert picked(Room({"main": ["a"]})) == "a"

    def test_draws_follow_weights(self):
        room = Room({"main": ["a", "b", "c"]})
        for name, weight in (("a", 100), ("b", 30), ("c", 70)):
            room.change(name, weight=weight)
        chance = random.Random(1)
        count = Counter()
        for _ in range(20_000):
            room["a"].inflight, room["b"].inflight, room["c"].inflight = 99, 29, 69  # all at load 1: first draw wins
            count[pick(room.plan, Lane.NORMAL, chance.random).id] += 1
        assert {name: round(n / 200) for name, n in count.items()} == {
            "a": pytest.approx(50, abs=1),
            "b": pytest.approx(15, abs=1),
            "c": pytest.approx(35, abs=1),
        }


class TestWhoMay:
    def test_weight_zero_and_ejected_ones_get_nothing(self):
        room = Room({"main": ["a", "b", "c"]})
        room.change("a", weight=0)
        room.change("b", ejected=True)
        assert names(room.plan.tiers[0].normal) == ["c"]
        assert picked(room) == "c"

    def test_low_only_ones_are_spared_from_normal_requests(self):
        room = Room({"main": ["a", "b"]})
        room.change("b", weight=30, low_only=True)
        room["a"].inflight = 50
        assert picked(room) == "a"
        assert picked(room, Lane.LOW, drawn=(0.0,)) == "b"

    def test_where_all_are_low_only_normal_requests_are_served_all_the_same(self):
        room = Room({"main": ["a", "b"]})
        room.change("a", weight=0)
        room.change("b", weight=30, low_only=True, max_inflight=1)
        assert picked(room) == "b"
        room["b"].inflight = 1
        assert picked(room) is Refusal.FULL

    @pytest.mark.parametrize("cap", ["limit", "max_inflight"])
    def test_caps_hold_whoever_set_them(self, cap):
        room = Room({"main": ["a", "b"]})
        room["b"].inflight = 7
        setattr(room["a"], cap, 2)
        room["a"].inflight = 1
        assert picked(room, drawn=(0.9,)) == "a"
        room["a"].inflight = 2
        assert picked(room, drawn=(0.0, 0.0)) == "b"

    def test_the_lower_cap_counts(self):
        room = Room({"main": ["a"]})
        room["a"].limit, room["a"].max_inflight, room["a"].inflight = 5, 2, 2
        assert picked(room) is Refusal.FULL
        room["a"].limit, room["a"].max_inflight = 2, 5
        assert picked(room) is Refusal.FULL

    def test_where_the_drawn_ones_are_full_the_others_serve(self):
        room = Room({"main": ["a", "b", "c", "d"]})
        for name in "abc":
            room[name].limit, room[name].inflight = 1, 1
        room["d"].inflight = 100
        assert picked(room, drawn=(0.0, 0.0)) == "d"

    def test_excluded_ones_are_left_out(self):
        room = Room({"main": ["a", "b", "c"]})
        assert picked(room, excluded=("a", "c")) == "b"
        assert picked(room, excluded=("b",), drawn=(0.9,)) == "c"


class TestTiers:
    def test_the_first_tier_that_has_somebody_serves(self):
        room = Room({"main": ["a"], "spare": ["x"], "last": ["z"]})
        assert picked(room) == "a"
        assert picked(room, excluded=("a",)) == "x"
        assert picked(room, excluded=("a", "x")) == "z"

    def test_a_full_tier_yields_to_the_next(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room["a"].limit, room["a"].inflight = 1, 1
        assert picked(room) == "x"

    def test_a_pool_that_is_down_yields_to_the_next(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room.eject("a")
        assert room.plan.tiers[0].down
        assert picked(room) == "x"

    def test_all_down(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room.eject("a")
        room.eject("x")
        assert picked(room) is Refusal.DOWN

    def test_a_route_without_tiers_is_down(self):
        assert pick(Plan(route="r", tiers=()), Lane.LOW, draws()) is Refusal.DOWN

    def test_tried_means_that_nobody_is_left(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room.eject("x")
        assert picked(room, excluded=("a",)) is Refusal.TRIED

    def test_full_means_that_waiting_could_help(self):
        room = Room({"main": ["a", "b"], "spare": ["x"]})
        room["b"].limit, room["b"].inflight = 1, 1
        assert picked(room, excluded=("a", "x")) is Refusal.FULL


class TestSnapshots:
    def test_views_are_written_into_seats(self):
        room = Room({"main": ["a"]})
        room.change("a", weight=30, low_only=True, max_inflight=4, suspect=True)
        seat = room["a"]
        assert (seat.weight, seat.low_only, seat.max_inflight, seat.suspect, seat.ejected) == (30, True, 4, True, False)

    def test_what_the_data_plane_owns_is_left_alone(self):
        room = Room({"main": ["a"]})
        room["a"].inflight, room["a"].limit = 3, 9
        room.change("a", weight=1, max_inflight=2)
        assert (room["a"].inflight, room["a"].limit) == (3, 9)

    def test_news_are_told_once(self):
        room = Room({"main": ["a", "b"]})
        assert room.change("a", suspect=True) == ([], [room["a"]])
        assert room.change("b", weight=30) == ([], [])
        assert room.eject("a") == ([room["a"]], [])
        assert room.change("b", weight=20) == ([], [])
        assert room.change("a", weight=10, ejected=False) == ([], [])
        assert room.eject("a") == ([room["a"]], [])

    def test_strangers_are_ignored_and_the_unnamed_keep_what_they_had(self):
        room = Room({"main": ["a", "b"]})
        seat_views(room.seats, [pool("main", view("stranger"), view("a", weight=5))])
        assert (room["a"].weight, room["b"].weight) == (5, 100)

    def test_a_pool_that_no_snapshot_named_yet_is_down(self):
        room = Room({"main": ["a"]})
        plan = compile_plan("r", (PoolName("unknown"), PoolName("main")), room.views, room.seats)
        assert [(tier.pool, tier.down, names(tier.low)) for tier in plan.tiers] == [
            ("unknown", True, []),
            ("main", False, ["a"]),
        ]

    def test_a_pool_said_to_be_down_has_no_seats(self):
        room = Room({"main": ["a"]})
        plan = compile_plan(
            "r", (PoolName("main"),), {PoolName("main"): pool("main", view("a"), down=True)}, room.seats
        )
        assert (plan.tiers[0].normal, plan.tiers[0].low, plan.tiers[0].down) == ((), (), True)


SESSIONS = [affinity_seed_of(f"session {n}") for n in range(400)]


def homes(plan: Plan) -> list[str]:
    return [pick(plan, Lane.NORMAL, draws(), (), session).id for session in SESSIONS]


class TestAffinity:
    def test_seeds_are_the_same_in_every_process(self):
        assert affinity_seed_of("10.0.0.11:8000") == 0xB84A80B8FAA48FCC
        told = subprocess.run(
            [
                sys.executable,
                "-c",
                "from pulsegate.core.routing import affinity_seed_of as f; print(f('user-7 \\u00e9'))",
            ],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": "123"},
        )
        assert int(told.stdout) == affinity_seed_of("user-7 é")

    def test_seeds_take_any_text(self):
        assert affinity_seed_of("\ud800") != affinity_seed_of("")
        assert 0 <= affinity_seed_of("") < 2**64

    def test_a_session_stays_where_it_is(self):
        room = Room({"main": ["a", "b", "c"]})
        assert homes(room.plan) == homes(room.plan)

    def test_sessions_are_spread_evenly(self):
        count = Counter(homes(Room({"main": ["a", "b", "c", "d"]}).plan))
        assert all(70 <= count[name] <= 130 for name in "abcd"), count

    def test_sessions_are_spread_by_weight(self):
        room = Room({"main": ["a", "b"]})
        room.change("b", weight=25)
        count = Counter(homes(room.plan))
        assert count["b"] == pytest.approx(400 / 5, abs=30)

    def test_being_busy_moves_no_session(self):
        room = Room({"main": ["a", "b", "c"]})
        before = homes(room.plan)
        room.change("b", weight=70)
        assert homes(room.plan) == before

    def test_an_ejection_moves_the_sessions_of_that_seat_only(self):
        room = Room({"main": ["a", "b", "c", "d"]})
        before = homes(room.plan)
        room.eject("b")
        after = homes(room.plan)
        assert {now for then, now in zip(before, after, strict=True) if then == "b"} == {"a", "c", "d"}
        assert all(then == now for then, now in zip(before, after, strict=True) if then != "b")
        room.change("b", weight=100, ejected=False)
        assert homes(room.plan) == before

    def test_suspicion_sends_sessions_to_their_next_best(self):
        room = Room({"main": ["a", "b", "c", "d"]})
        before = homes(room.plan)
        room.change("b", suspect=True)
        suspicious = homes(room.plan)
        room.eject("b")
        assert suspicious == homes(room.plan)
        assert "b" in before

    def test_overload_sends_sessions_to_their_next_best_until_it_is_over(self):
        room = Room({"main": ["a", "b"]})
        session = next(session for session, home in zip(SESSIONS, homes(room.plan), strict=True) if home == "a")
        homed = []
        for inflight in (0, 1, 2, 3, 4, 2):
            room["a"].inflight, room["b"].inflight = inflight, 0 if inflight < 4 else 4
            homed.append(pick(room.plan, Lane.NORMAL, draws(), (), session).id)
        assert homed == ["a"] * 6  # of two, one cannot hold more than twice the mean of both
        room = Room({"main": ["a", "b", "c", "d"]})
        session = next(session for session, home in zip(SESSIONS, homes(room.plan), strict=True) if home == "a")
        for name in "bcd":
            room[name].inflight = 4
        verdicts = {}
        for inflight in range(20):
            room["a"].inflight = inflight
            verdicts[inflight] = pick(room.plan, Lane.NORMAL, draws(), (), session).id == "a"
        assert [inflight for inflight, stays in verdicts.items() if not stays] == list(
            range(15, 20)
        )  # (i-1)*4 > 2*(i+12)

    def test_where_the_two_best_cannot_the_rest_share(self):
        room = Room({"main": ["a", "b", "c"]})
        order = _order(room, SESSIONS[0])
        room.change(order[0], suspect=True)
        room.change(order[1], suspect=True)
        room[order[0]].inflight = room[order[1]].inflight = 1
        assert pick(room.plan, Lane.NORMAL, random.Random(1).random, (), SESSIONS[0]).id in order
        room[order[0]].inflight = room[order[1]].inflight = 10
        seats = {pick(room.plan, Lane.NORMAL, random.Random(n).random, (), SESSIONS[0]).id for n in range(50)}
        assert order[2] in seats

    def test_excluded_and_full_seats_are_passed_over_in_order(self):
        room = Room({"main": ["a", "b", "c"]})
        order = _order(room, SESSIONS[1])
        room[order[0]].limit = 0
        assert pick(room.plan, Lane.NORMAL, draws(), (), SESSIONS[1]).id == order[1]
        assert pick(room.plan, Lane.NORMAL, draws(), (room[order[1]],), SESSIONS[1]).id == order[2]

    def test_sessions_keep_to_the_tier_and_the_lane(self):
        room = Room({"main": ["a", "b"], "spare": ["x"]})
        room.change("b", low_only=True)
        assert set(homes(room.plan)) == {"a"}
        room.eject("a")
        room.change("b", weight=0)
        assert set(homes(room.plan)) == {"x"}


def _order(room: Room, session: int) -> list[str]:
    """The seats in the session's order."""
    order: list[Seat] = []
    for _ in room.seats:
        seat = pick(room.plan, Lane.LOW, draws(), order, session)
        assert isinstance(seat, Seat)
        order.append(seat)
    return names(order)


def test_a_tier_made_by_hand_can_be_drawn_from():
    seats = tuple(Seat(id=name, pool="main", weight=weight) for name, weight in (("a", 1), ("b", 3)))
    tier = Tier(pool=PoolName("main"), normal=seats, low=seats, down=False)
    plan = Plan(route="main", tiers=(tier,))
    assert pick(plan, Lane.NORMAL, draws(0.24)).id == "b"  # a is drawn, b is less loaded: 1/3 against 1/1
    seats[0].weight = 3
    assert [pick(plan, Lane.NORMAL, draws(at)).id for at in (0.24, 0.25)] == ["a", "b"]
