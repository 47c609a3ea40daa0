from pulsegate.core.rescue import FailureKind
from pulsegate.core.retry_budget import RetryBudget
from support.rescuing import Request, used_up
from support.seating import Room

Kind = FailureKind


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


class TestStart:
    def test_waits_for_the_first_tokens_of_a_pool(self):
        room = Room({"main": ["a", "b"]})
        room.starts("main")
        request = Request(room)
        assert request.begin() == []
        assert request.due_in == 0.25
        assert request.at(0.25).deadline() == []
        room.serves("main")
        assert request.at(0.5).deadline() == ["start 0 a"]
        assert request.due_in == 10.5
        assert request.answered(0) == ["relay 0 a"]

    def test_ends_as_soon_as_nobody_can_be_expected(self):
        room = Room({"main": ["a", "b"]})
        room.starts("main")
        request = Request(room)
        request.begin()
        room.serves("main", dead=True)
        assert request.at(0.25).deadline() == ["503 no_endpoint_available"]
        assert request.answer is not None
        assert request.answer.retry_after_s

    def test_does_not_wait_for_ever(self):
        room = Room({"main": ["a"]})
        room.starts("main")
        request = Request(room)
        request.begin()
        assert request.at(9.9).deadline() == []
        assert request.at(10).deadline() == ["503 no_endpoint_available"]
        assert request.deadline() == []

    def test_takes_the_fallback_that_serves_already(self):
        room = Room({"main": ["a"], "spare": ["x"]})
        room.starts("main")
        assert Request(room).begin() == ["start 0 x"]

    def test_is_over_when_the_client_leaves(self):
        room = Room({"main": ["a"]})
        room.starts("main")
        request = Request(room)
        request.begin()
        assert request.client_gone() == []
        room.serves("main")
        assert request.at(1).deadline() == []
