import pytest

from pulsegate.core.errors import InvariantError
from pulsegate.core.retry_budget import RetryBudget


def booked(budget: RetryBudget, wanted: int) -> int:
    return sum(budget.take() for _ in range(wanted))


@pytest.mark.parametrize(
    ("in_flight", "room"), [(0, 3), (1, 3), (15, 3), (19, 3), (20, 4), (24, 4), (25, 5), (1000, 200)]
)
def test_a_fifth_of_the_requests_in_flight_but_at_least_three(in_flight, room):
    budget = RetryBudget()
    budget.in_flight = in_flight
    assert booked(budget, 1001) == room
    assert budget.used == room


def test_what_is_given_back_can_be_taken_again():
    budget = RetryBudget(percent=0, floor=1)
    assert [budget.take(), budget.take()] == [True, False]
    budget.give()
    assert budget.used == 0
    assert budget.take()


def test_fewer_requests_in_flight_end_nothing_and_begin_nothing():
    budget = RetryBudget(percent=50, floor=1)
    budget.in_flight = 10
    assert booked(budget, 9) == 5
    budget.in_flight = 2
    assert budget.used == 5
    for _ in range(4):
        assert not budget.take()
        budget.give()
    assert not budget.take()
    budget.give()
    assert budget.take()


def test_new_settings_keep_what_is_booked():
    budget = RetryBudget(percent=0, floor=2)
    assert booked(budget, 2) == 2
    budget.resize(percent=0, floor=3)
    assert (budget.used, booked(budget, 2)) == (2, 1)
    budget.resize(percent=0, floor=1)
    assert (budget.used, booked(budget, 1)) == (3, 0)


def test_nothing_at_all_where_the_operator_wants_no_retries():
    budget = RetryBudget(percent=0, floor=0)
    budget.in_flight = 1000
    assert booked(budget, 10) == 0


def test_giving_back_what_was_not_taken_is_our_own_bug():
    budget = RetryBudget()
    with pytest.raises(InvariantError, match="never booked"):
        budget.give()
    assert budget.used == 0
