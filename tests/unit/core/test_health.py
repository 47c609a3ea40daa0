"""The transition table: total, and every row of the product's promise with exact numbers."""

from pathlib import Path

import pytest

from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import NOTHING, TABLE, Reason, Signal, State
from pulsegate.core.ids import PromptId
from pulsegate.core.record import Given, HealthRecord, born, step
from pulsegate.core.statedoc import render

POLICY = ProbePolicy()
PAGE = Path(__file__).parents[3] / "docs" / "states.md"


def record(state: State, reason: Reason = Reason.OK, **more) -> HealthRecord:
    more.setdefault("deep_due", False)
    return HealthRecord(state=state, reason=reason, since=0.0, **more)


HEALTHY = record(State.HEALTHY, streak=3)
UNHEALTHY = record(State.UNHEALTHY, Reason.HUNG, fails=2, deep_due=True)


def after(start: HealthRecord, *signals: Signal, reason: Reason = Reason.ERROR, prompt: str = "p") -> HealthRecord:
    for number, signal in enumerate(signals):
        start = step(start, signal, POLICY, Given(float(number + 1), reason, "why", PromptId(f"{prompt}{number}")))
    return start


def where(result: HealthRecord) -> tuple[State, Reason]:
    return result.state, result.reason


def test_the_table_is_total() -> None:
    assert set(TABLE) == set(State)
    for state in State:
        assert set(TABLE[state]) == set(Signal), state


def test_our_own_fault_moves_nothing_anywhere() -> None:
    assert all(TABLE[state][Signal.LOCAL] is NOTHING for state in State)


def test_the_page_shows_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "out of date: run `python scripts/write_states.py`"


@pytest.mark.parametrize(
    ("signals", "state", "reason"),
    [
        ([Signal.FAST, Signal.FAST], State.WARMING, Reason.STARTING),
        ([Signal.FAST, Signal.FAST, Signal.FAST], State.WARMING, Reason.STARTING),  # no deep probe yet
        ([Signal.FAST, Signal.FAST, Signal.DEEP], State.HEALTHY, Reason.OK),
        ([Signal.DEEP, Signal.FAST, Signal.FAST], State.HEALTHY, Reason.OK),
        ([Signal.FAST, Signal.FAST, Signal.TIMEOUT, Signal.DEEP], State.WARMING, Reason.STARTING),
        ([Signal.SLOW], State.DEGRADED, Reason.SLOW),
        ([Signal.LATE], State.WARMING, Reason.STARTING),
        ([Signal.TIMEOUT] * 5, State.WARMING, Reason.STARTING),
        ([Signal.TIMEOUT_FROZEN] * 5, State.WARMING, Reason.STARTING),
        ([Signal.ERROR] * 5, State.WARMING, Reason.STARTING),
        ([Signal.BUSY] * 5, State.WARMING, Reason.STARTING),
        ([Signal.WRONG] * 5, State.WARMING, Reason.STARTING),
        ([Signal.TIMEOUT_PROGRESS], State.DEGRADED, Reason.BUSY),
        ([Signal.EXPIRED], State.UNHEALTHY, Reason.STARTUP_DEADLINE),
        ([Signal.STARTING], State.WARMING, Reason.LOADING),
        ([Signal.SLEEPING], State.WARMING, Reason.SLEEPING),
    ],
)
def test_from_warming(signals: list[Signal], state: State, reason: Reason) -> None:
    assert where(after(born(0.0), *signals)) == (state, reason)


@pytest.mark.parametrize("start", [HEALTHY, record(State.DEGRADED, Reason.SLOW)], ids=["healthy", "degraded"])
@pytest.mark.parametrize(
    ("signals", "state", "reason"),
    [
        ([Signal.FAST] * 3, State.HEALTHY, Reason.OK),
        ([Signal.SLOW], State.DEGRADED, Reason.SLOW),
        ([Signal.TRUNCATED], State.DEGRADED, Reason.TRUNCATED),
        ([Signal.TIMEOUT], State.DEGRADED, Reason.TIMEOUT),
        ([Signal.TIMEOUT, Signal.TIMEOUT], State.UNHEALTHY, Reason.HUNG),
        ([Signal.TIMEOUT, Signal.FAST, Signal.TIMEOUT], State.DEGRADED, Reason.TIMEOUT),
        ([Signal.TIMEOUT, Signal.SLOW, Signal.TIMEOUT], State.DEGRADED, Reason.TIMEOUT),
        ([Signal.TIMEOUT, Signal.BUSY, Signal.TIMEOUT], State.DEGRADED, Reason.TIMEOUT),
        ([Signal.TIMEOUT, Signal.LOCAL, Signal.TIMEOUT], State.UNHEALTHY, Reason.HUNG),
        ([Signal.TIMEOUT, Signal.PROGRESS], State.DEGRADED, Reason.BUSY),
        ([Signal.TIMEOUT_FLAT] * 2, State.DEGRADED, Reason.TIMEOUT),
        ([Signal.TIMEOUT_FLAT, Signal.TIMEOUT_FLAT, Signal.FROZEN], State.UNHEALTHY, Reason.HUNG),
        ([Signal.TIMEOUT_FLAT, Signal.FROZEN], State.DEGRADED, Reason.TIMEOUT),
        ([Signal.TIMEOUT_FLAT, Signal.TIMEOUT_FLAT, Signal.OVERDUE], State.UNHEALTHY, Reason.HUNG),
        ([Signal.TIMEOUT_FLAT, Signal.TIMEOUT_FLAT, Signal.PROGRESS], State.DEGRADED, Reason.BUSY),
        ([Signal.TIMEOUT_PROGRESS] * 20, State.DEGRADED, Reason.BUSY),
        ([Signal.BUSY] * 20, State.DEGRADED, Reason.BUSY),
        ([Signal.STALLED] * 2, State.UNHEALTHY, Reason.STALLED),
        ([Signal.WRONG], State.DEGRADED, Reason.WRONG_OUTPUT),
        ([Signal.WRONG, Signal.WRONG], State.UNHEALTHY, Reason.WRONG_OUTPUT),
        ([Signal.WRONG, Signal.FAST, Signal.WRONG], State.UNHEALTHY, Reason.WRONG_OUTPUT),
        ([Signal.WRONG, Signal.RIGHT, Signal.WRONG], State.DEGRADED, Reason.WRONG_OUTPUT),
        ([Signal.STARTING], State.WARMING, Reason.LOADING),
        ([Signal.SLEEPING], State.WARMING, Reason.SLEEPING),
        ([Signal.RESTARTED], State.WARMING, Reason.STARTING),
    ],
)
def test_in_service(start: HealthRecord, signals: list[Signal], state: State, reason: Reason) -> None:
    assert where(after(start, *signals)) == (state, reason)


def test_late_degrades_the_healthy_at_once_and_says_nothing_new_about_the_degraded() -> None:
    assert where(after(HEALTHY, Signal.LATE)) == (State.DEGRADED, Reason.CONGESTED)
    slow = record(State.DEGRADED, Reason.SLOW)
    assert after(slow, Signal.LATE) is slow


@pytest.mark.parametrize("signal", [Signal.ERROR, Signal.REJECTED])
def test_errors_keep_their_reason(signal: Signal) -> None:
    assert where(after(HEALTHY, signal, reason=Reason.AUTH)) == (State.DEGRADED, Reason.AUTH)
    assert where(after(HEALTHY, signal, signal, reason=Reason.AUTH)) == (State.UNHEALTHY, Reason.AUTH)


def test_an_error_and_then_silence_is_unhealthy() -> None:
    assert where(after(HEALTHY, Signal.ERROR, Signal.TIMEOUT)) == (State.UNHEALTHY, Reason.HUNG)


@pytest.mark.parametrize("state", [State.WARMING, State.HEALTHY, State.DEGRADED, State.MISCONFIGURED])
def test_a_fatal_error_needs_no_second_opinion(state: State) -> None:
    condemned = after(record(state), Signal.FATAL, reason=Reason.CUDA)
    assert (condemned.state, condemned.reason, condemned.hard) == (State.UNHEALTHY, Reason.CUDA, True)


def test_hung_is_certain_only_with_frozen_counters() -> None:
    assert not after(HEALTHY, Signal.TIMEOUT, Signal.TIMEOUT).hard
    assert not after(HEALTHY, Signal.TIMEOUT_FLAT, Signal.TIMEOUT_FLAT, Signal.OVERDUE).hard
    assert after(HEALTHY, Signal.TIMEOUT, Signal.TIMEOUT_FROZEN).hard
    assert after(HEALTHY, Signal.TIMEOUT_FLAT, Signal.TIMEOUT_FLAT, Signal.FROZEN).hard


def test_the_same_prompt_twice_is_one_wrong_answer() -> None:
    given = Given(1.0, Reason.WRONG_OUTPUT, "", PromptId("same"))
    once = step(HEALTHY, Signal.WRONG, POLICY, given)
    assert step(once, Signal.WRONG, POLICY, given) is once


@pytest.mark.parametrize("signal", [Signal.FAST, Signal.DEEP, Signal.SLOW, Signal.SLOW_LOADED, Signal.TRUNCATED])
def test_unhealthy_is_left_by_a_token_by_way_of_degraded(signal: Signal) -> None:
    back = after(UNHEALTHY, signal)
    assert where(back) == (State.DEGRADED, Reason.RECOVERING)
    assert back.streak == (1 if signal in (Signal.FAST, Signal.DEEP) else 0)
    assert back.fails == 0


@pytest.mark.parametrize(
    "signal",
    sorted(
        set(Signal)
        - {Signal.FAST, Signal.DEEP, Signal.SLOW, Signal.SLOW_LOADED, Signal.TRUNCATED, Signal.RIGHT, Signal.FATAL}
        - {Signal.STARTING, Signal.SLEEPING, Signal.RESTARTED, Signal.DRAIN}
    ),
)
def test_unhealthy_is_left_by_nothing_else(signal: Signal) -> None:
    assert after(UNHEALTHY, signal) is UNHEALTHY


def test_the_way_back_takes_three_and_a_deep_probe() -> None:
    assert where(after(UNHEALTHY, Signal.FAST, Signal.FAST, Signal.FAST)) == (State.DEGRADED, Reason.RECOVERING)
    assert where(after(UNHEALTHY, Signal.FAST, Signal.FAST, Signal.DEEP)) == (State.HEALTHY, Reason.OK)
    assert where(after(UNHEALTHY, Signal.FAST, Signal.SLOW, Signal.DEEP)) == (State.DEGRADED, Reason.SLOW)


def test_rejected_while_warming_is_for_a_human_and_a_token_shows_that_it_was_mended() -> None:
    stuck = after(born(0.0), Signal.REJECTED, reason=Reason.NOT_FOUND)
    assert where(stuck) == (State.MISCONFIGURED, Reason.NOT_FOUND)
    assert after(stuck, Signal.TIMEOUT, Signal.ERROR, Signal.BUSY, Signal.EXPIRED) is stuck
    mended = after(stuck, Signal.FAST)
    assert (mended.state, mended.streak) == (State.WARMING, 1)


def test_load_stays_load_until_three_fast_tokens() -> None:
    busy = after(HEALTHY, Signal.TIMEOUT_PROGRESS)
    assert where(after(busy, Signal.SLOW_LOADED)) == (State.DEGRADED, Reason.BUSY)
    assert where(after(busy, Signal.FAST, Signal.FAST)) == (State.DEGRADED, Reason.BUSY)
    assert where(after(busy, Signal.FAST, Signal.FAST, Signal.FAST)) == (State.HEALTHY, Reason.OK)
    assert where(after(busy, Signal.SLOW)) == (State.DEGRADED, Reason.SLOW)


def test_draining_covers_what_probes_go_on_judging() -> None:
    drained = after(HEALTHY, Signal.DRAIN)
    assert where(drained) == (State.DRAINING, Reason.OPERATOR)
    assert drained.judged is HEALTHY
    assert after(drained, Signal.FAST) is drained
    judged = after(drained, Signal.TIMEOUT, Signal.TIMEOUT)
    assert where(judged) == (State.DRAINING, Reason.OPERATOR)
    assert where(judged.judged) == (State.UNHEALTHY, Reason.HUNG)
    assert where(after(judged, Signal.UNDRAIN)) == (State.UNHEALTHY, Reason.HUNG)
    assert after(drained, Signal.DRAIN) is drained


def test_the_same_object_when_nothing_changed() -> None:
    assert after(HEALTHY, Signal.FAST, Signal.FAST) is HEALTHY
    failing = after(HEALTHY, Signal.TIMEOUT_FLAT, Signal.TIMEOUT_FLAT)
    assert after(failing, Signal.TIMEOUT_FLAT) is failing


def test_since_is_when_state_or_reason_changed() -> None:
    assert after(HEALTHY, Signal.SLOW, Signal.SLOW, Signal.SLOW).since == 1.0
    assert after(HEALTHY, Signal.SLOW, Signal.TIMEOUT).since == 2.0


def test_without_deep_probes_fast_tokens_are_enough() -> None:
    policy = ProbePolicy(deep_interval_s=0.0)
    start = born(0.0)
    for number in range(3):
        start = step(start, Signal.FAST, policy, Given(float(number)))
    assert where(start) == (State.HEALTHY, Reason.OK)
