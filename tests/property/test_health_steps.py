"""Any signals in any order through the transition table."""

from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason, Signal, State
from pulsegate.core.ids import PromptId
from pulsegate.core.record import Given, HealthRecord, born, step

FAILURES = {
    Signal.TIMEOUT,
    Signal.TIMEOUT_FLAT,
    Signal.TIMEOUT_FROZEN,
    Signal.STALLED,
    Signal.ERROR,
    Signal.REJECTED,
}
VERDICTS = FAILURES | {Signal.FROZEN, Signal.OVERDUE}
FORGIVING = {
    Signal.FAST,
    Signal.DEEP,
    Signal.SLOW,
    Signal.SLOW_LOADED,
    Signal.TRUNCATED,
    Signal.TIMEOUT_PROGRESS,
    Signal.BUSY,
    Signal.WRONG,
}
SIGNALS = st.lists(st.tuples(st.sampled_from(Signal), st.sampled_from("pqr")), max_size=40)
POLICIES = st.builds(ProbePolicy, rise=st.integers(1, 4), fall=st.integers(1, 4))


def walk(signals: list[tuple[Signal, str]], policy: ProbePolicy) -> list[HealthRecord]:
    records = [born(0.0)]
    for number, (signal, prompt) in enumerate(signals):
        records.append(step(records[-1], signal, policy, Given(number + 1.0, Reason.ERROR, "", PromptId(prompt))))
    return records


@given(SIGNALS, POLICIES)
def test_only_failures_in_a_row_or_a_hard_class_make_unhealthy(
    signals: list[tuple[Signal, str]], policy: ProbePolicy
) -> None:
    records = walk(signals, policy)
    in_a_row = 0
    for (signal, _), before, after in zip(signals, records, records[1:], strict=False):
        was, now = before.judged.state, after.judged.state
        if signal in FAILURES and was in (State.HEALTHY, State.DEGRADED):
            in_a_row += 1
        elif signal in FORGIVING or now is State.WARMING or (signal is Signal.PROGRESS and was is State.DEGRADED):
            in_a_row = 0
        if now is State.UNHEALTHY and was is not State.UNHEALTHY:
            hard = signal in (Signal.FATAL, Signal.EXPIRED, Signal.WRONG)
            assert hard or (signal in VERDICTS and in_a_row >= policy.fall), (signal, in_a_row)


@given(SIGNALS, POLICIES)
def test_our_own_fault_is_identity_everywhere(signals: list[tuple[Signal, str]], policy: ProbePolicy) -> None:
    for record in walk(signals, policy):
        assert step(record, Signal.LOCAL, policy, Given(99.0)) is record


@given(SIGNALS, POLICIES)
def test_counters_stay_within_their_limits_and_an_equal_record_is_the_same_object(
    signals: list[tuple[Signal, str]], policy: ProbePolicy
) -> None:
    records = walk(signals, policy)
    for (signal, _), before, after in zip(signals, records, records[1:], strict=False):
        judged = after.judged
        assert 0 <= judged.streak <= policy.rise
        assert 0 <= judged.fails <= policy.fall
        assert 0 <= judged.wrong <= 2
        assert after.hard == (after.hard and after.state is State.UNHEALTHY)
        if after == before and signal is not Signal.RESTARTED:
            assert after is before


@given(SIGNALS, POLICIES)
def test_healthy_is_reached_only_by_enough_fast_tokens_in_a_row_with_a_deep_one(
    signals: list[tuple[Signal, str]], policy: ProbePolicy
) -> None:
    records = walk(signals, policy)
    breaks = set(Signal) - {Signal.FAST, Signal.DEEP, Signal.RIGHT, Signal.LOCAL, Signal.LATE, Signal.DRAIN}
    breaks -= {Signal.UNDRAIN, Signal.FROZEN, Signal.OVERDUE, Signal.PROGRESS, Signal.EXPIRED}
    streak = 0
    for (signal, _), before, after in zip(signals, records, records[1:], strict=False):
        streak = streak + 1 if signal in (Signal.FAST, Signal.DEEP) else 0 if signal in breaks else streak
        if after.judged.state is State.HEALTHY and before.judged.state is not State.HEALTHY:
            assert streak >= policy.rise
            assert not after.judged.deep_due


@given(SIGNALS, POLICIES)
def test_draining_hides_nothing(signals: list[tuple[Signal, str]], policy: ProbePolicy) -> None:
    """Drain, the same signals, undrain: as if it had never been drained."""
    plain = [(signal, prompt) for signal, prompt in signals if signal not in (Signal.DRAIN, Signal.UNDRAIN)]
    drained = [(Signal.DRAIN, "p"), *plain, (Signal.UNDRAIN, "p")]
    one, other = walk(plain, policy)[-1], walk(drained, policy)[-1]
    assert (one.state, one.reason, one.streak, one.fails, one.wrong) == (
        other.state,
        other.reason,
        other.streak,
        other.fails,
        other.wrong,
    )
