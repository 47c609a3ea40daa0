"""Slots and the queue before them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.sim.load import FOREVER, Rank, Slots, Spread


class Waiting:
    """A job that takes a slot when it is driven."""

    def __init__(self, slots: Slots, priority: int = 0) -> None:
        self.resumed = 0
        self.inside = False
        self._slots = slots
        self._steps = slots.take(self, priority)
        self.go_on()

    def resume_soon(self) -> None:
        self.resumed += 1

    def go_on(self) -> None:
        try:
            assert next(self._steps) == FOREVER
        except StopIteration:
            self.inside = True

    def leave(self) -> None:
        if self.inside:
            self.inside = False
            self._slots.release()
        self._steps.close()


def test_the_queue_moves_in_order_of_priority_then_arrival():
    slots = Slots(1)
    first = Waiting(slots)
    late, early, urgent = Waiting(slots, 5), Waiting(slots, 0), Waiting(slots, -10)
    order = []
    current = first
    for _ in range(3):
        current.leave()
        current = next(job for job in (late, early, urgent) if job.resumed and not job.inside and job not in order)
        current.go_on()
        order.append(current)
    assert order == [urgent, early, late]


def test_a_slot_that_was_granted_to_somebody_who_left_is_passed_on():
    slots = Slots(1)
    first, second, third = (Waiting(slots) for _ in range(3))
    first.leave()
    assert second.resumed == 1
    second.leave()
    assert third.resumed == 1
    third.go_on()
    assert (third.inside, slots.taken, slots.waiting) == (True, 1, 0)


def test_a_frozen_rank_lets_nobody_in_and_shows_what_it_last_knew():
    rank = Rank(0, Slots(2))
    inside = Waiting(rank.slots)
    rank.freeze()
    outside = Waiting(rank.slots)
    assert (outside.inside, rank.slots.waiting) == (False, 1)
    assert (rank.gauges().running, rank.gauges().waiting) == (1, 0)
    rank.park(inside)
    rank.thaw()
    assert (inside.resumed, outside.resumed) == (1, 1)
    assert rank.gauges().running == 2


@given(st.lists(st.sampled_from(["come", "go on", "leave", "freeze", "thaw"]), max_size=60), st.integers(1, 3))
def test_slots_are_never_overbooked_nor_lost(actions, capacity):
    rank = Rank(0, Slots(capacity))
    slots, jobs = rank.slots, []
    for turn, action in enumerate(actions):
        if action == "come":
            jobs.append(Waiting(slots))
        elif action == "freeze":
            rank.freeze()
        elif action == "thaw":
            rank.thaw()
        elif jobs:
            job = jobs[turn % len(jobs)]
            if action == "leave":
                job.leave()
                jobs.remove(job)
            elif not job.inside:
                job.go_on()
        assert 0 <= slots.taken <= capacity
        assert slots.taken + slots.waiting == len(jobs)
    rank.thaw()
    for job in jobs:
        job.leave()
    assert (slots.taken, slots.waiting) == (0, 0)


def test_a_spread_is_around_its_median():
    rng = random.Random(1)
    draws = sorted(Spread(median_s=0.1, sigma=0.5).draw(rng) for _ in range(2001))
    assert draws[1000] == pytest.approx(0.1, rel=0.1)
    assert Spread(median_s=0.1).draw(rng) == 0.1
