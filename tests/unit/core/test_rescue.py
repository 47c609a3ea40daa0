from dataclasses import replace

import pytest

from pulsegate.core.rescue import FailureKind, RescuePolicy
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Lane, affinity_seed_of
from support.rescuing import POLICY, Request
from support.seating import Room

Kind = FailureKind
BOOKED = [Kind.CLOSED, Kind.PROTOCOL, Kind.SERVER, Kind.OVERLOAD, Kind.REJECTED]
UNBOOKED = [Kind.CONNECT, Kind.LOCAL]


def used_up() -> RetryBudget:
    """A budget without any room, whose room can be made with ``give``."""
    budget = RetryBudget(percent=0, floor=1)
    assert budget.take()
    return budget


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


class TestDeadlines:
    def test_a_late_attempt_is_moved(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.at(10).deadline() == ["cancel 0", "start 1 b"]
        assert (request.machine.cause, request.budget.used, request.due_in) == (Kind.DEADLINE, 1, 20)

    def test_it_is_left_alone_when_nobody_else_could_take_it(self):
        room = Room({"main": ["a", "b"]})
        request = Request(room)
        request.begin()
        room["b"].limit = 0
        assert request.at(10).deadline() == []
        assert request.due_in == 11
        room["b"].limit = None
        assert request.at(11).deadline() == ["cancel 0", "start 1 b"]

    def test_it_is_left_alone_when_the_budget_has_no_room(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        assert request.at(10).deadline() == []
        assert request.budget_freed() == []
        budget.give()
        assert request.at(11).deadline() == ["cancel 0", "start 1 b"]

    def test_a_booking_goes_on_to_the_attempt_that_takes_over(self):
        request = Request(Room({"main": ["a", "b", "c"]}), budget=RetryBudget(percent=0, floor=1))
        request.begin()
        assert request.at(10).deadline() == ["cancel 0", "start 1 b"]
        assert request.at(20).deadline() == ["cancel 1", "start 2 c"]
        assert request.budget.used == 1
        assert request.at(25).answered(2) == ["relay 2 c"]
        assert request.budget.used == 0

    def test_the_last_attempt_may_wait_until_the_total_deadline(self):
        request = Request(Room({"main": ["a", "b", "c", "d", "e"]}))
        request.begin()
        request.at(10).deadline()
        request.at(20).deadline()
        assert request.at(30).deadline() == []
        assert request.at(59.5).deadline() == []
        assert request.due_in == 60
        assert request.at(60).deadline() == ["cancel 2", "504 upstream_timeout"]
        assert (request.machine.attempts, request.budget.used) == (3, 0)

    def test_a_late_attempt_beside_one_that_has_time_is_given_up(self):
        request = Request(Room({"main": ["a", "b", "c"]}))
        request.begin()
        assert request.at(6).suspect("a") == ["start 1 b"]
        assert request.due_in == 10
        assert request.at(10).deadline() == ["cancel 0"]
        assert request.due_in == 16
        assert request.at(16).deadline() == ["cancel 1", "start 2 c"]
        assert request.budget.used == 1

    def test_two_late_attempts_are_moved_to_one(self):
        request = Request(Room({"main": ["a", "b", "c"]}))
        request.begin()
        request.at(6).suspect("a")
        assert request.at(16).deadline() == ["cancel 0", "cancel 1", "start 2 c"]
        assert request.budget.used == 1

    def test_the_total_deadline_ends_both_attempts(self):
        request = Request(Room({"main": ["a", "b"]}), policy=replace(POLICY, attempt_deadline_s=100))
        request.begin()
        request.suspect("a")
        assert request.at(60).deadline() == ["cancel 0", "cancel 1", "504 upstream_timeout"]
        assert request.budget.used == 0


class TestEjection:
    def test_moves_at_once_and_for_nothing(self):
        request = Request(Room({"main": ["a", "b"]}), budget=used_up())
        request.begin()
        assert request.at(1).ejected("a") == ["cancel 0", "start 1 b"]
        assert (request.machine.cause, request.due_in, request.budget.used) == (Kind.EJECTED, 11, 1)

    def test_of_another_endpoint_is_nothing(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.ejected("b") == []
        assert request.answered(0) == ["relay 0 a"]

    def test_of_the_whole_pool_moves_to_the_fallback(self):
        request = Request(Room({"main": ["a"], "spare": ["x"]}))
        request.begin()
        assert request.ejected("a") == ["cancel 0", "start 1 x"]

    def test_of_everybody_is_told_at_once(self):
        request = Request(Room({"main": ["a"]}))
        request.begin()
        assert request.ejected("a") == ["cancel 0", "503 no_endpoint_available"]

    def test_everybody_else_tried_already(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.failed(0, Kind.SERVER)
        assert request.ejected("b") == ["cancel 1", "502 upstream_failed"]

    def test_beside_a_hedge_leaves_the_hedge(self):
        request = Request(Room({"main": ["a", "b", "c"]}))
        request.begin()
        request.at(2).suspect("a")
        assert request.at(3).ejected("a") == ["cancel 0"]
        assert request.due_in == 12
        assert request.at(4).answered(1) == ["relay 1 b"]
        assert request.budget.used == 0

    def test_a_request_that_freezes_servers_freezes_no_more_than_max_attempts(self):
        request = Request(Room({"main": ["a", "b", "c", "d", "e"]}))
        request.begin()
        assert request.ejected("a") == ["cancel 0", "start 1 b"]
        assert request.ejected("b") == ["cancel 1", "start 2 c"]
        assert request.ejected("c") == ["cancel 2", "503 no_endpoint_available"]


class TestSuspicion:
    def test_starts_a_second_attempt_and_the_first_token_wins(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.at(2).suspect("a") == ["start 1 b"]
        assert (request.machine.cause, request.machine.attempts, request.budget.used) == ("suspect", 2, 1)
        assert request.at(3).answered(1) == ["cancel 0", "relay 1 b"]
        assert request.budget.used == 0

    def test_the_suspect_may_win(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.suspect("a")
        assert request.answered(0) == ["cancel 1", "relay 0 a"]
        assert request.budget.used == 0

    def test_happens_once_per_request(self):
        request = Request(Room({"main": ["a", "b", "c"]}))
        request.begin()
        assert request.suspect("a") == ["start 1 b"]
        assert request.failed(1, Kind.CLOSED) == []
        assert request.machine.endpoint_suspect(request.room["a"], request.now) == ()
        assert request.failed(0, Kind.CLOSED) == ["start 2 c"]
        assert request.suspect("c") == []

    def test_is_nothing_when_the_request_waits_elsewhere(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.suspect("b") == []

    def test_is_nothing_when_the_operator_wants_no_hedges(self):
        request = Request(Room({"main": ["a", "b"]}), policy=replace(POLICY, hedge=False))
        request.begin()
        assert request.suspect("a") == []

    def test_is_nothing_when_everybody_is_suspect(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.room.change("b", suspect=True)
        assert request.suspect("a") == []
        assert request.due_in == 10
        assert not request.machine.parked

    def test_asks_no_fallback(self):
        request = Request(Room({"main": ["a"], "spare": ["x"]}))
        request.begin()
        assert request.suspect("a") == []

    def test_may_go_back_to_a_pool_that_came_back(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room.eject("a")
        request = Request(room)
        assert request.begin() == ["start 0 x"]
        room.change("a", weight=100, ejected=False)
        assert request.suspect("x") == ["start 1 a"]

    def test_counts_as_an_attempt(self):
        request = Request(Room({"main": ["a", "b", "c"]}), policy=replace(POLICY, max_attempts=2))
        request.begin()
        request.suspect("a")
        assert request.failed(0, Kind.CLOSED) == []
        assert request.failed(1, Kind.CLOSED) == ["502 upstream_failed"]

    def test_starts_nothing_when_the_attempts_are_used_up(self):
        request = Request(Room({"main": ["a", "b"]}), policy=replace(POLICY, max_attempts=1))
        request.begin()
        assert request.suspect("a") == []

    def test_waits_silently_for_the_budget(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        assert request.at(2).suspect("a") == []
        assert request.machine.parked
        assert request.due_in == 2.25
        assert request.at(2.25).deadline() == []
        assert request.due_in == 2.5
        assert request.budget_freed() == []
        budget.give()
        assert request.budget_freed() == ["start 1 b"]
        assert not request.machine.parked
        assert request.budget.used == 1

    def test_is_looked_after_when_nobody_tells_of_the_budget(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        request.suspect("a")
        budget.give()
        assert request.at(0.25).deadline() == ["start 1 b"]

    def test_that_was_cleared_while_the_hedge_waited_needs_none(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        request.suspect("a")
        request.room.change("a", suspect=False)
        budget.give()
        assert request.budget_freed() == []
        assert not request.machine.parked
        assert request.due_in == 10

    def test_a_waiting_hedge_is_forgotten_when_the_attempt_ends(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        request.suspect("a")
        assert request.ejected("a") == ["cancel 0", "start 1 b"]
        assert not request.machine.parked
        budget.give()
        assert request.budget_freed() == []
        assert request.budget.used == 0


class TestBudget:
    def test_parks_and_goes_on(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        assert request.at(1).failed(0, Kind.CLOSED) == ["park"]
        assert request.machine.parked
        assert request.at(2).budget_freed() == ["park"]
        budget.give()
        assert request.at(3).budget_freed() == ["start 1 b"]
        assert not request.machine.parked
        assert (request.machine.cause, budget.used, request.due_in) == (Kind.CLOSED, 1, 13)

    def test_is_looked_at_meanwhile_and_parks_once(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        request.at(1).failed(0, Kind.CLOSED)
        assert request.due_in == 1.25
        assert request.at(1.25).deadline() == []
        assert request.due_in == 1.5
        budget.give()
        assert request.at(1.5).deadline() == ["start 1 b"]
        assert request.budget_freed() == []

    def test_ends_at_the_total_deadline(self):
        request = Request(Room({"main": ["a", "b"]}), budget=used_up())
        request.begin()
        request.at(1).failed(0, Kind.CLOSED)
        assert request.at(59.9).deadline() == []
        assert request.due_in == 60
        assert request.at(60).deadline() == ["504 upstream_timeout"]
        assert not request.machine.parked
        assert request.budget_freed() == []

    def test_is_told_when_the_pools_go_down_meanwhile(self):
        request = Request(Room({"main": ["a", "b"]}), budget=used_up())
        request.begin()
        request.at(1).failed(0, Kind.CLOSED)
        request.room.eject("a")
        assert request.ejected("b") == []
        assert request.at(1.25).deadline() == ["503 no_endpoint_available"]

    def test_is_freed_by_another_requests_first_token(self):
        room, budget = Room({"main": ["a", "b", "c"]}), RetryBudget(percent=0, floor=1)
        one, other = Request(room, budget=budget), Request(room, budget=budget)
        assert (one.begin(), other.begin()) == (["start 0 a"], ["start 0 b"])
        assert one.failed(0, Kind.SERVER) == ["start 1 c"]
        assert other.failed(0, Kind.SERVER) == ["park"]
        assert one.answered(1) == ["relay 1 c"]
        assert other.budget_freed() == ["start 1 a"]


class TestWaitingForAPlace:
    """Everybody who could take over is full: wait, rather than lose the request."""

    def waiting(self) -> Request:
        room = Room({"main": ["a", "b"]})
        room.change("b", weight=30, low_only=True, max_inflight=1)
        room["b"].inflight = 1
        request = Request(room)
        request.begin()
        assert request.at(1).failed(0, Kind.CONNECT) == []
        assert request.due_in == 1.25
        return request

    def test_goes_on_when_there_is_one(self):
        request = self.waiting()
        assert request.at(1.25).deadline() == []
        request.room["b"].inflight = 0
        assert request.at(1.5).deadline() == ["start 1 b"]

    def test_goes_on_when_a_snapshot_lifts_the_cap(self):
        request = self.waiting()
        request.room.eject("a")
        request.room.change("b", low_only=False, max_inflight=None)
        assert request.at(1.25).deadline() == ["start 1 b"]

    def test_ends_when_the_pool_goes_down(self):
        request = self.waiting()
        request.room.eject("a")
        request.room.eject("b")
        assert request.at(1.25).deadline() == ["503 no_endpoint_available"]

    def test_ends_at_the_total_deadline(self):
        request = self.waiting()
        assert request.at(60).deadline() == ["504 upstream_timeout"]

    def test_a_place_without_budget_parks(self):
        room, budget = Room({"main": ["a", "b"]}), used_up()
        room["b"].limit = 0
        request = Request(room, budget=budget)
        request.begin()
        assert request.failed(0, Kind.SERVER) == []
        room["b"].limit = None
        assert request.at(0.25).deadline() == ["park"]
        budget.give()
        assert request.budget_freed() == ["start 1 b"]

    def test_the_client_may_leave(self):
        request = self.waiting()
        assert request.client_gone() == []
        assert request.at(1.25).deadline() == []


class TestClientGone:
    def test_while_waiting_for_the_first_token(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        assert request.client_gone() == ["cancel 0"]

    def test_during_a_replay(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.failed(0, Kind.SERVER)
        assert request.client_gone() == ["cancel 1"]
        assert request.budget.used == 0

    def test_during_a_hedge(self):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.suspect("a")
        assert request.client_gone() == ["cancel 0", "cancel 1"]
        assert request.budget.used == 0

    def test_while_parked(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        request.failed(0, Kind.SERVER)
        assert request.client_gone() == []
        budget.give()
        assert request.budget_freed() == []
        assert not request.machine.parked

    def test_while_a_hedge_is_parked(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        request.suspect("a")
        assert request.client_gone() == ["cancel 0"]
        budget.give()
        assert request.budget_freed() == []

    def test_after_an_error_was_told(self):
        room = Room({"main": ["a"]})
        room.eject("a")
        request = Request(room)
        request.begin()
        assert request.client_gone() == []


def test_shows_where_it_waits():
    request = Request(Room({"main": ["a", "b"]}))
    request.begin()
    request.suspect("a")
    assert repr(request.machine) == "Rescue(running=[0@a, 1@b], attempts=2, wanted=None, parked=False)"
