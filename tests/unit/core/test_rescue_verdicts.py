from dataclasses import replace

import pytest

from pulsegate.core.rescue import FailureKind
from pulsegate.core.retry_budget import RetryBudget
from support.rescuing import POLICY, Request, used_up
from support.seating import Room

Kind = FailureKind


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

    @pytest.mark.parametrize("changes", [{"suspect": True}, {"low_only": True, "weight": 30}])
    def test_it_is_not_moved_to_a_worse_place(self, changes):
        request = Request(Room({"main": ["a", "b"]}))
        request.begin()
        request.room.change("b", **changes)
        assert request.at(10).deadline() == []
        assert request.at(11).deadline() == []
        assert request.answered(0) == ["relay 0 a"]

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

    def test_waits_for_the_budget(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b"]}), budget=budget)
        request.begin()
        assert request.at(2).suspect("a") == ["park"]
        assert request.machine.parked
        assert request.due_in == 2.25
        assert request.at(2.25).deadline() == []
        assert request.due_in == 2.5
        assert request.budget_freed() == ["park"]
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

    def test_a_late_attempt_is_moved_rather_than_hedged(self):
        budget = used_up()
        request = Request(Room({"main": ["a", "b", "c"]}), budget=budget)
        request.begin()
        request.at(9.9).suspect("a")
        budget.give()
        assert request.at(10).deadline() == ["cancel 0", "start 1 b"]
        assert not request.machine.parked
        assert request.budget_freed() == []
        assert request.due_in == 20

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
