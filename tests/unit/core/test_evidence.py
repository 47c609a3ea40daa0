"""Busy or dead, from readings at exact times."""

import pytest

from pulsegate.core.evidence import Evidence, Progress, flat_for_s, judge, read, saw_tokens, settled
from pulsegate.core.probe import Counters

FROZEN_AFTER_S = 1.5


def counters(progress: float | None, running: float | None = 16, waiting: float | None = 4, started_at=None):
    return Counters(progress=progress, running=running, waiting=waiting, started_at=started_at)


def after(*readings: tuple[float, Counters | None], start: Evidence | None = None) -> Evidence:
    evidence = start or Evidence()
    for at, reading in readings:
        evidence, restarted = read(evidence, reading, at, stale_after_s=FROZEN_AFTER_S)
        assert not restarted
    return evidence


def verdict(evidence: Evidence, at: float, since: float = 0.0) -> Progress:
    return judge(evidence, since, at, FROZEN_AFTER_S)


def test_nothing_read_is_unknown() -> None:
    assert verdict(Evidence(), 1.6) is Progress.UNKNOWN
    assert verdict(after((0.3, None), (0.7, None)), 0.8) is Progress.UNKNOWN


@pytest.mark.parametrize("reading", [counters(None), counters(5, None, None), counters(5, 1, None)])
def test_an_engine_that_does_not_tell_enough_is_unknown(reading: Counters) -> None:
    assert verdict(after((0.3, reading), (0.8, reading), (1.9, reading)), 1.9) is Progress.UNKNOWN


def test_a_counter_that_grew_is_progress() -> None:
    assert verdict(after((0.3, counters(1000)), (0.7, counters(1400))), 0.8) is Progress.SEEN


def test_progress_before_this_probe_does_not_count() -> None:
    evidence = after((0.3, counters(1000)), (0.7, counters(1400)), (1.1, counters(1400)))
    assert verdict(evidence, 1.6, since=0.8) is Progress.FLAT


def test_a_growth_over_a_long_gap_does_not_say_that_it_still_moves() -> None:
    assert verdict(after((0.3, counters(1000)), (3.3, counters(4000))), 3.8, since=3.0) is Progress.FLAT


@pytest.mark.parametrize(("running", "waiting"), [(16, 4), (0, 6), (0, 0)])
def test_flat_for_long_enough_is_frozen(running: float, waiting: float) -> None:
    flat = counters(37075, running, waiting)
    evidence = after((0.3, flat), (0.7, flat), (1.1, flat))
    assert verdict(evidence, 1.6) is Progress.FLAT
    evidence = after((1.8, flat), start=evidence)
    assert flat_for_s(evidence) == pytest.approx(1.5)
    assert verdict(evidence, 1.8) is Progress.FROZEN


def test_two_readings_closer_than_half_a_second_never_prove_a_freeze() -> None:
    flat = counters(9)
    evidence = after((0.3, flat), (0.7, flat))
    assert judge(evidence, 0.0, 0.8, 0.1) is Progress.FLAT
    assert judge(after((0.8, flat), start=evidence), 0.0, 0.8, 0.1) is Progress.FROZEN


def test_readings_that_fail_in_the_end_leave_it_unknown() -> None:
    assert verdict(after((0.3, counters(9)), (0.7, None)), 0.8) is Progress.UNKNOWN


def test_a_token_of_our_own_begins_anew() -> None:
    flat = counters(9)
    evidence = settled(after((0.3, flat), (0.7, flat)))
    assert verdict(after((60.3, flat), start=evidence), 60.8, since=60.0) is Progress.FLAT


def test_users_tokens_are_progress_unless_the_report_may_be_about_the_time_before() -> None:
    assert verdict(saw_tokens(Evidence(), 0.5), 0.8) is Progress.SEEN
    assert verdict(saw_tokens(Evidence(), 0.3), 0.8) is Progress.UNKNOWN


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (counters(5000), counters(3)),
        (counters(5000, started_at=100.0), counters(9000, started_at=161.0)),
    ],
)
def test_a_counter_that_goes_back_or_another_start_is_a_new_process(before: Counters, now: Counters) -> None:
    evidence, restarted = read(after((0.3, before)), now, 60.0, stale_after_s=FROZEN_AFTER_S)
    assert restarted
    assert evidence.value == now.progress


def test_the_same_start_is_the_same_process() -> None:
    _, restarted = read(after((0.3, counters(5, started_at=100.0))), counters(6, started_at=100.4), 9, stale_after_s=1)
    assert not restarted
