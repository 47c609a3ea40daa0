"""Facts of a probe to what they amount to."""

import pytest

from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason
from pulsegate.core.ids import PromptId
from pulsegate.core.outcome import Outcome, OutcomeKind, Thresholds, classify
from pulsegate.core.probe import Ending, Fault, FaultClass, Phases, ProbeKind, ProbeResult

POLICY = ProbePolicy()
LIMITS = Thresholds.of(POLICY)
TOKEN = ProbeResult(
    kind=ProbeKind.MICRO,
    prompt_id=PromptId("p"),
    phases=Phases(first_byte_s=0.01, first_token_s=0.05, end_s=0.06),
    ending=Ending.COMPLETE,
    token_seen=True,
    text="four",
    chunks=1,
    tokens=1,
    finish_reason="length",
    fault=None,
    bytes_read=300,
    reused=True,
)
NOTHING = TOKEN._replace(
    token_seen=False,
    text="",
    chunks=0,
    tokens=None,
    finish_reason=None,
    ending=Ending.DEADLINE,
    phases=Phases(end_s=0.8),
)


def of(result: ProbeResult, deadline_s: float | None = None) -> Outcome:
    return classify(result, POLICY, LIMITS, deadline_s)


def at(ttft_s: float, **more) -> ProbeResult:
    return TOKEN._replace(phases=Phases(first_token_s=ttft_s, end_s=ttft_s + 0.01), **more)


@pytest.mark.parametrize(
    ("ttft_s", "kind", "reason"),
    [
        (0.001, OutcomeKind.TOKEN, Reason.OK),
        (0.2, OutcomeKind.TOKEN, Reason.OK),
        (0.2001, OutcomeKind.TOKEN, Reason.SLOW),
        (0.8, OutcomeKind.TOKEN, Reason.SLOW),
        (0.8001, OutcomeKind.TIMEOUT, Reason.TIMEOUT),
    ],
)
def test_a_token_by_its_time(ttft_s: float, kind: OutcomeKind, reason: Reason) -> None:
    outcome = of(at(ttft_s))
    assert (outcome.kind, outcome.reason) == (kind, reason)


def test_the_time_is_that_of_the_token_not_of_the_first_byte() -> None:
    result = TOKEN._replace(phases=Phases(first_byte_s=0.005, first_token_s=0.5, end_s=0.6))
    assert of(result).ttft_s == 0.5


def test_a_token_that_only_the_end_proved_has_the_end_s_time() -> None:
    assert of(TOKEN._replace(phases=Phases(first_byte_s=0.005, end_s=0.3))).ttft_s == 0.3


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        (FaultClass.CUDA, OutcomeKind.FATAL, Reason.CUDA),
        (FaultClass.ENGINE_DEAD, OutcomeKind.FATAL, Reason.ENGINE_DEAD),
        (FaultClass.SERVER, OutcomeKind.ERROR, Reason.ERROR),
        (FaultClass.OVERLOAD, OutcomeKind.BUSY, Reason.BUSY),
        (FaultClass.STARTING, OutcomeKind.STARTING, Reason.LOADING),
        (FaultClass.SLEEPING, OutcomeKind.SLEEPING, Reason.SLEEPING),
        (FaultClass.AUTH, OutcomeKind.REJECTED, Reason.AUTH),
        (FaultClass.BILLING, OutcomeKind.REJECTED, Reason.BILLING),
        (FaultClass.NOT_FOUND, OutcomeKind.REJECTED, Reason.NOT_FOUND),
        (FaultClass.BAD_REQUEST, OutcomeKind.REJECTED, Reason.REJECTED),
        (FaultClass.OUTPUT_LIMIT, OutcomeKind.TOKEN, Reason.OK),
        (FaultClass.REFUSED, OutcomeKind.ERROR, Reason.REFUSED),
        (FaultClass.UNREACHABLE, OutcomeKind.ERROR, Reason.UNREACHABLE),
        (FaultClass.TLS, OutcomeKind.ERROR, Reason.TLS),
        (FaultClass.CLOSED, OutcomeKind.ERROR, Reason.ERROR),
        (FaultClass.PROTOCOL, OutcomeKind.ERROR, Reason.PROTOCOL),
        (FaultClass.REDIRECT, OutcomeKind.ERROR, Reason.PROTOCOL),
        (FaultClass.LOCAL, OutcomeKind.LOCAL, Reason.LOCAL),
    ],
)
def test_every_fault(fault: FaultClass, kind: OutcomeKind, reason: Reason) -> None:
    result = NOTHING._replace(ending=Ending.FAILED, fault=Fault(kind=fault, detail="so it said", retry_after_s=5.0))
    outcome = of(result)
    assert (outcome.kind, outcome.reason, outcome.detail) == (kind, reason, "so it said")
    assert outcome.retry_after_s == 5.0


def test_every_fault_class_is_covered() -> None:
    for fault in FaultClass:
        assert of(NOTHING._replace(ending=Ending.FAILED, fault=Fault(kind=fault, detail=""))).kind in OutcomeKind


def test_a_reset_in_the_middle_is_an_error_although_a_token_came() -> None:
    result = TOKEN._replace(ending=Ending.FAILED, fault=Fault(kind=FaultClass.CLOSED, detail="reset"))
    assert of(result).kind is OutcomeKind.ERROR


@pytest.mark.parametrize(
    ("finish_reason", "tokens", "kind"),
    [
        (None, None, OutcomeKind.TRUNCATED),
        ("length", None, OutcomeKind.TOKEN),
        (None, 1, OutcomeKind.TOKEN),
    ],
)
def test_an_end_without_finish_reason_usage_and_done_may_be_a_truncation(
    finish_reason: str | None, tokens: int | None, kind: OutcomeKind
) -> None:
    assert of(TOKEN._replace(ending=Ending.CUT, finish_reason=finish_reason, tokens=tokens)).kind is kind


def test_left_after_the_token_is_a_token() -> None:
    assert of(TOKEN._replace(ending=Ending.LEFT, finish_reason=None, tokens=None)).kind is OutcomeKind.TOKEN


def test_no_token_by_the_deadline_is_a_timeout() -> None:
    assert of(NOTHING) == Outcome(OutcomeKind.TIMEOUT, Reason.TIMEOUT, "no token in 800 ms")


def test_a_whole_answer_without_a_token_is_an_error() -> None:
    assert of(NOTHING._replace(ending=Ending.COMPLETE)).kind is OutcomeKind.ERROR


def test_a_deep_probe_whose_later_tokens_do_not_come_is_stalled() -> None:
    assert of(TOKEN._replace(kind=ProbeKind.DEEP, ending=Ending.DEADLINE), 5.0).kind is OutcomeKind.STALLED


def test_a_deep_probe_is_not_judged_by_the_times_of_the_short_one() -> None:
    outcome = of(at(0.9, kind=ProbeKind.DEEP), 1.0)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.TOKEN, Reason.OK)


def test_finish_reasons_that_are_faults() -> None:
    assert of(TOKEN._replace(finish_reason="insufficient_system_resource")).kind is OutcomeKind.BUSY
    assert of(TOKEN._replace(finish_reason="abort")).kind is OutcomeKind.ERROR


@pytest.mark.parametrize("lag_s", [0.1601, 4.0])
@pytest.mark.parametrize("result", [TOKEN, NOTHING, at(0.5)])
def test_what_was_measured_while_our_loop_stood_still_is_our_own_fault(result: ProbeResult, lag_s: float) -> None:
    assert of(result._replace(lag_s=lag_s)).kind is OutcomeKind.LOCAL


def test_a_little_lag_is_tolerated_and_a_longer_deadline_tolerates_more() -> None:
    assert of(TOKEN._replace(lag_s=0.16)).kind is OutcomeKind.TOKEN
    assert of(TOKEN._replace(kind=ProbeKind.DEEP, lag_s=0.9), 5.0).kind is OutcomeKind.TOKEN


@pytest.mark.parametrize(
    ("ttft_s", "lag_s", "kind"),
    [(0.26, 0.1, OutcomeKind.LOCAL), (0.32, 0.1, OutcomeKind.TOKEN), (0.26, 0.0, OutcomeKind.TOKEN)],
)
def test_a_slow_token_that_our_own_stall_may_have_kept_waiting_proves_nothing(
    ttft_s: float, lag_s: float, kind: OutcomeKind
) -> None:
    assert of(at(ttft_s, lag_s=lag_s)).kind is kind


def test_an_engine_that_says_that_it_is_broken_is_believed_all_the_same() -> None:
    fault = Fault(kind=FaultClass.CUDA, detail="CUDA error: device-side assert")
    assert of(NOTHING._replace(fault=fault, ending=Ending.FAILED, lag_s=2.0)).kind is OutcomeKind.FATAL
