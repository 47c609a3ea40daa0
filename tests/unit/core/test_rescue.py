from dataclasses import replace

import pytest

from pulsegate.core.rescue import FailureKind, RescuePolicy
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Lane, affinity_seed_of
from support.rescuing import POLICY, Request, used_up
from support.seating import Room

Kind = FailureKind
BOOKED = [Kind.CLOSED, Kind.PROTOCOL, Kind.SERVER, Kind.OVERLOAD, Kind.REJECTED]
UNBOOKED = [Kind.CONNECT, Kind.LOCAL]


class TestWithoutTrouble:
    def test_the_first_token_is_relayed(self):
        request = Request(Room({"main": ["a", "b"]}))
        assert request.begin() == ["start 0 a"]
        assert request.due_in == 10
        assert request.at(3).answered(0) == ["relay 0 a"]
        assert (request.machine.attempts, request.machine.cause, request.budget.used) == (1, None, 0)

    def test_nothing_happens_after_the_end(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.answered(0)
        assert request.answered(0) == []
        assert request.failed(0, Kind.CLOSED) == []
        assert request.at(1000).deadline() == []
        assert request.ejected("a") == []
        assert request.suspect("a") == []
        assert request.budget_freed() == []
        assert request.client_gone() == []

    def test_a_deadline_that_is_called_too_early_does_nothing(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.at(9.9).deadline() == []
        assert request.due_in == 10

    def test_an_attempt_never_outlives_the_total_deadline(self):
        request = Request(Room({"main": ["a"]}), policy=RescuePolicy(attempt_deadline_s=600, total_deadline_s=60))
        request.begin()
        assert request.due_in == 60

    def test_a_session_is_replayed_to_its_next_best(self):
        room = Room({"main": ["a", "b", "c", "d"]})
        trace = [
            [request.begin()[0][-1], request.failed(0, Kind.CLOSED)[0][-1], request.failed(1, Kind.CLOSED)[0][-1]]
            for request in (Request(room, affinity=affinity_seed_of("s")) for _ in range(2))
        ]
        assert trace[0] == trace[1]
        assert len(set(trace[0])) == 3


class TestNobodyThere:
    def test_all_pools_down_is_told_at_once(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room.eject("a")
        room.eject("x")
        request = Request(room)
        assert request.begin() == ["503 no_endpoint_available"]
        assert request.answer.retry_after_s == 5

    def test_all_full_is_told_at_once(self):
        room = Room({"main": ["a"]})
        room["a"].limit = 0
        request = Request(room)
        assert request.begin() == ["503 overloaded"]
        assert request.answer.retry_after_s == 1

    def test_a_fallback_pool_serves(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room.eject("a")
        assert Request(room).begin() == ["start 0 x"]

    def test_lanes_hold_for_the_first_attempt(self):
        room = Room({"main": ["a", "b"]})
        room.change("b", low_only=True)
        room["a"].limit = 0
        assert Request(room).begin() == ["503 overloaded"]
        assert Request(room, lane=Lane.LOW).begin() == ["start 0 b"]


class TestFailures:
    @pytest.mark.parametrize("kind", BOOKED)
    def test_is_replayed_elsewhere_and_booked(self, kind):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.at(2).failed(0, kind) == ["start 1 b"]
        assert (request.machine.cause, request.budget.used, request.due_in) == (kind, 1, 12)
        assert request.answered(1) == ["relay 1 b"]
        assert request.budget.used == 0

    @pytest.mark.parametrize("kind", UNBOOKED)
    def test_is_replayed_for_nothing_when_nothing_reached_an_engine(self, kind):
        request = Request(Room({"main": ["a", "b"]}), budget=used_up())
        request.begin()
        assert request.failed(0, kind) == ["start 1 b"]
        assert (request.machine.cause, request.budget.used) == (kind, 1)

    def test_a_booking_ends_with_its_attempt_and_the_next_is_booked_anew(self):
        request = Request(Room({"main": ["a", "b", "c"]}), budget=RetryBudget(percent=0, floor=1))
        request.begin()
        assert request.failed(0, Kind.CLOSED) == ["start 1 b"]
        assert request.failed(1, Kind.SERVER) == ["start 2 c"]
        assert request.budget.used == 1
        assert request.failed(2, Kind.SERVER) == ["502 upstream_failed"]
        assert request.budget.used == 0

    def test_the_fallback_comes_after_all_of_the_pool(self):
        request = Request(Room({"main": ["a", "b"], "spare": ["x"]}))
        assert request.begin() == ["start 0 a"]
        assert request.failed(0, Kind.SERVER) == ["start 1 b"]
        assert request.failed(1, Kind.SERVER) == ["start 2 x"]

    def test_news_of_an_attempt_that_is_not_under_way_are_ignored(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.failed(0, Kind.CLOSED)
        assert request.failed(0, Kind.CLOSED) == []
        assert request.answered(0) == []
        assert request.failed(7, Kind.CLOSED) == []
        assert request.answered(1) == ["relay 1 b"]

    @pytest.mark.parametrize("kind", [Kind.CLOSED, Kind.SERVER, Kind.PROTOCOL, Kind.LOCAL, Kind.OVERLOAD])
    def test_no_more_than_max_attempts(self, kind):
        request = Request(Room({"main": ["a", "b", "c", "d", "e", "f"]}))
        request.begin()
        assert request.failed(0, kind) == ["start 1 b"]
        assert request.failed(1, kind) == ["start 2 c"]
        assert request.failed(2, kind)[0][:3] in ("502", "503")
        assert request.machine.attempts == 3

    def test_one_attempt_is_one_attempt(self):
        request = Request(Room({"main": ["a", "b"]}), policy=replace(POLICY, max_attempts=1))
        request.begin()
        assert request.failed(0, Kind.CLOSED) == ["502 upstream_failed"]

    def test_attempts_that_never_connected_count_a_third(self):
        request = Request(Room({"main": list("abcdefghijkl")}))
        request.begin()
        for attempt in range(8):
            assert request.failed(attempt, Kind.CONNECT) == [f"start {attempt + 1} {'abcdefghijkl'[attempt + 1]}"]
        assert request.failed(8, Kind.CONNECT) == ["503 no_endpoint_available"]

    def test_half_of_a_fleet_refuses_and_the_other_half_serves(self):
        request = Request(Room({"main": ["a", "b", "c", "d", "e", "f"]}))
        request.begin()
        for attempt in range(4):
            request.failed(attempt, Kind.CONNECT)
        assert request.failed(4, Kind.CLOSED) == ["start 5 f"]
        assert request.answered(5) == ["relay 5 f"]

    def test_a_replay_avoids_the_suspect_of_the_same_pool(self):
        room = Room({"main": ["a", "b", "c"], "spare": ["x"]})
        room.change("b", suspect=True)
        request = Request(room)
        assert request.begin() == ["start 0 a"]
        assert request.failed(0, Kind.CLOSED) == ["start 1 c"]
        assert request.failed(1, Kind.CLOSED) == ["start 2 b"]

    def test_rather_than_failing_a_normal_request_takes_a_spared_place(self):
        room = Room({"main": ["a", "b"]})
        room.change("b", weight=30, low_only=True, max_inflight=1)
        request = Request(room)
        assert request.begin() == ["start 0 a"]
        assert request.failed(0, Kind.CONNECT) == ["start 1 b"]

    def test_but_a_fallback_comes_before_a_spared_place(self):
        room = Room({"main": ["a", "b"], "spare": ["x"]})
        room.change("b", weight=30, low_only=True)
        request = Request(room)
        request.begin()
        assert request.failed(0, Kind.CLOSED) == ["start 1 x"]
        assert request.failed(1, Kind.CLOSED) == ["start 2 b"]


class TestBlame:
    @pytest.mark.parametrize(
        ("kinds", "answer", "retry_after_s"),
        [
            ([Kind.CONNECT, Kind.CONNECT], "503 no_endpoint_available", 5),
            ([Kind.CLOSED, Kind.CONNECT], "502 upstream_failed", None),
            ([Kind.OVERLOAD, Kind.OVERLOAD], "503 overloaded", 1),
            ([Kind.CONNECT, Kind.OVERLOAD], "503 overloaded", 1),
            ([Kind.LOCAL, Kind.LOCAL], "503 overloaded", 1),
            ([Kind.SERVER, Kind.OVERLOAD], "502 upstream_failed", None),
            ([Kind.REJECTED, Kind.REJECTED], "502 upstream_rejected", None),
            ([Kind.REJECTED, Kind.CONNECT], "502 upstream_rejected", None),
            ([Kind.REJECTED, Kind.PROTOCOL], "502 upstream_failed", None),
            ([Kind.SERVER, Kind.REJECTED], "502 upstream_rejected", None),
        ],
    )
    def test_everything_tried(self, kinds, answer, retry_after_s):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.failed(0, kinds[0]) == ["start 1 b"]
        assert request.failed(1, kinds[1]) == [answer]
        assert request.answer.retry_after_s == retry_after_s

    @pytest.mark.parametrize(
        ("told", "retry_after_s"),
        [((None, None), 1), ((7.2, None), 8), ((30, 4), 4), ((4, 30), 4), ((0, 9), 1), ((600, 900), 60)],
    )
    def test_the_soonest_of_the_full_ones_says_when_to_come_back(self, told, retry_after_s):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.failed(0, Kind.OVERLOAD, told[0])
        assert request.failed(1, Kind.OVERLOAD, told[1]) == ["503 overloaded"]
        assert request.answer.retry_after_s == retry_after_s

    def test_a_pool_that_went_down_meanwhile_is_down(self):
        room = Room({"main": ["a"]})
        request = Request(room)
        request.begin()
        room.eject("a")
        assert request.failed(0, Kind.CLOSED) == ["503 no_endpoint_available"]

    def test_a_deadline_that_was_met_by_failures_is_no_timeout_but_their_fault(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.at(60).failed(0, Kind.SERVER) == ["502 upstream_failed"]


def test_shows_where_it_waits():
    request = Request(Room({"main": ["a", "b"]}))
    request.begin()
    request.suspect("a")
    assert repr(request.machine) == "Rescue(running=[0@a, 1@b], attempts=2, wanted=None, parked=False)"
