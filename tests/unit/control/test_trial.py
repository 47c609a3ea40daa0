"""One server on trial, on virtual time, over engines that follow a script."""

from random import Random

import pytest

from pulsegate.control.errors import InvariantError
from pulsegate.control.trial import MOST_PROBES, hold_trial, trial_policy
from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import Fault, FaultClass, ProbeKind
from support.fake_engine import CUDA, FAST, REFUSED, SILENT, SLOW, Answer, FakeEngine, FakeFactory
from support.samples import spec
from support.virtual_time import VirtualClock, run_virtual

LOADING = Answer(after_s=0.01, fault=Fault(kind=FaultClass.STARTING, detail="Loading model", status=503))
DENIED = Answer(after_s=0.01, fault=Fault(kind=FaultClass.AUTH, detail="no such key", status=401))
FULL = Answer(after_s=0.01, fault=Fault(kind=FaultClass.OVERLOAD, detail="queue full", status=503))


def hold(script, *, probes=None, deep=False, progress=None, expect=None):
    """The trial, the engine, and when it was over."""
    engine = FakeEngine(script, progress=progress)
    seen = []

    async def main(loop):
        found = await hold_trial(
            spec("a"),
            trial_policy(ProbePolicy(expect=expect), deep=deep, probes=probes),
            probes=probes,
            open_engine=FakeFactory(lambda _spec: engine),
            clock=VirtualClock(loop),
            rng=Random(1),
            seen=seen.append,
        )
        return found, loop.time()

    trial, over_at = run_virtual(main)
    assert tuple(seen) == trial.notes
    assert engine.closed
    assert engine.in_flight == 0
    return trial, over_at


def verdict(trial):
    return trial.status.state, trial.status.reason, len(trial.notes)


def always(answer):
    return lambda _at: answer


@pytest.mark.parametrize(
    ("answer", "state", "reason", "probes"),
    [
        (FAST, State.HEALTHY, Reason.OK, 3),
        (SLOW, State.DEGRADED, Reason.SLOW, 3),
        (SILENT, State.UNHEALTHY, Reason.STARTUP_DEADLINE, 2),
        (CUDA, State.UNHEALTHY, Reason.CUDA, 1),
        (REFUSED, State.UNHEALTHY, Reason.STARTUP_DEADLINE, 2),
        (DENIED, State.MISCONFIGURED, Reason.AUTH, 1),
        (LOADING, State.WARMING, Reason.LOADING, 2),
    ],
)
def test_ends_when_the_verdict_is_clear(answer, state, reason, probes):
    trial, over_at = hold(always(answer))
    assert verdict(trial) == (state, reason, probes)
    assert over_at < 3


def test_a_full_server_that_makes_progress_is_busy():
    trial, _ = hold(always(SILENT), progress=[float(step) for step in range(100)])
    assert verdict(trial)[:2] == (State.DEGRADED, Reason.BUSY)


@pytest.mark.parametrize("answer", [FAST, SLOW])
def test_one_probe_is_enough_when_asked_for(answer):
    trial, over_at = hold(always(answer), probes=1)
    assert len(trial.notes) == 1
    assert trial.status.state is (State.HEALTHY if answer is FAST else State.DEGRADED)
    assert over_at < 1


def test_more_probes_than_needed_when_asked_for():
    trial, _ = hold(always(FAST), probes=7)
    assert verdict(trial) == (State.HEALTHY, Reason.OK, 7)


def test_healthy_only_after_a_deep_probe_when_asked_for():
    trial, _ = hold(always(FAST), deep=True)
    assert trial.status.state is State.HEALTHY
    assert [note.result.kind for note in trial.notes].count(ProbeKind.DEEP) == 1
    trial, _ = hold(always(FAST))
    assert {note.result.kind for note in trial.notes} == {ProbeKind.MICRO}


def test_a_server_that_answers_every_other_time_comes_to_a_verdict():
    answers = iter([FAST, SILENT] * 50)
    trial, over_at = hold(lambda _at: next(answers))
    assert verdict(trial) == (State.WARMING, Reason.STARTING, MOST_PROBES)
    assert over_at < 8


def test_a_server_that_comes_up_meanwhile_is_judged():
    trial, _ = hold(lambda at: REFUSED if at < 0.5 else FAST)
    assert trial.status.state is State.HEALTHY


def test_wrong_answers_to_two_prompts_are_enough():
    trial, _ = hold(always(Answer(after_s=0.05, text="x")), expect="4")
    assert verdict(trial) == (State.UNHEALTHY, Reason.STARTUP_DEADLINE, 2)
    assert trial.notes[-1].outcome.reason is Reason.WRONG_OUTPUT


def test_our_own_mistake_is_not_a_verdict():
    with pytest.raises(InvariantError):
        hold(always(Answer(raises=ZeroDivisionError())))


def test_a_full_queue_is_not_death():
    trial, over_at = hold(always(FULL))
    assert verdict(trial) == (State.WARMING, Reason.STARTING, 2)
    assert trial.notes[-1].outcome.kind is OutcomeKind.BUSY
    assert over_at < 3
