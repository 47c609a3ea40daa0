"""A day of one endpoint, and ten minutes of a thousand, each in seconds of real time."""

from itertools import pairwise

import pytest

from pulsegate.core.fleet import EndpointSpec, ProbePolicy
from pulsegate.core.health import Reason, State
from support.fake_engine import FAST, SILENT, Answer, FakeEngine, FakeFactory
from support.samples import fleet, pool, spec
from support.watching import Diary, for_seconds, watch

pytestmark = pytest.mark.timeout(300)  # seconds on a quiet machine, more on a crowded one

DAY_S = 86_400.0
HOUR_S = 3_600.0


def test_a_day_of_one_endpoint() -> None:
    """Sound, except for a slow hour and a hang of ten minutes."""

    def script(at: float) -> Answer:
        if 6 * HOUR_S <= at < 7 * HOUR_S:
            return Answer(after_s=0.4)
        if 12 * HOUR_S <= at < 12 * HOUR_S + 600:
            return SILENT
        return FAST

    engine = FakeEngine(script, progress=[1.0])
    policy = ProbePolicy()
    scene = watch(
        fleet(pool(spec("a"), probe=policy)), FakeFactory(lambda _spec: engine), for_seconds(DAY_S), diary=Diary()
    )
    assert scene.diary.crashes == []
    assert engine.most_in_flight == 1
    states = scene.diary.states("a")
    hours = {State.DEGRADED: set(), State.UNHEALTHY: set()}
    for at, state, _ in states:
        if state in hours:
            hours[state].add(int(at // HOUR_S))
    assert hours == {State.DEGRADED: {6, 12}, State.UNHEALTHY: {12}}
    assert [reason for _, state, reason in states if state is State.UNHEALTHY] == [Reason.HUNG]
    assert scene.state("a") == (State.HEALTHY, Reason.OK)
    sound = [at for at in engine.began if 60 < at < 6 * HOUR_S]
    gaps = [right - left for left, right in pairwise(sound)]
    longest_s = policy.interval_s * (1 + policy.jitter)
    assert max(gaps) <= longest_s + 1e-6
    assert sum(gaps) / len(gaps) == pytest.approx(policy.interval_s, rel=0.01)


def test_ten_minutes_of_a_thousand_endpoints() -> None:
    """Every hundredth hangs after two minutes; nobody else is harmed, and the load stays even."""
    policy = ProbePolicy(deep_interval_s=0.0)

    def make(one: EndpointSpec) -> FakeEngine:
        bad = int(one.id[1:]) % 100 == 0
        engine = FakeEngine((lambda at: SILENT if at >= 120 else FAST) if bad else (lambda _at: FAST), progress=[1.0])
        engine.keep_asks = False
        return engine

    factory = FakeFactory(make)
    pools = [
        pool(
            *(spec(f"e{number}", pool=f"m{first}") for number in range(first, first + 50)),
            name=f"m{first}",
            probe=policy,
        )
        for first in range(0, 1000, 50)
    ]
    scene = watch(fleet(*pools), factory, for_seconds(600), diary=Diary(keep_reports=False))
    assert scene.diary.crashes == []
    wrong = {
        name: scene.state(name)
        for name in factory.opened
        if scene.state(name)[0] is not (State.UNHEALTHY if int(name[1:]) % 100 == 0 else State.HEALTHY)
    }
    assert wrong == {}
    engines = [engine for opened in factory.opened.values() for engine in opened]
    assert max(engine.most_in_flight for engine in engines) == 1
    began = sorted(at for engine in engines for at in engine.began if 100 <= at < 115)
    per_tenth = [sum(1 for at in began if 100 + n / 10 <= at < 100 + (n + 1) / 10) for n in range(150)]
    mean = len(began) / 150
    assert mean == pytest.approx(1000 / policy.interval_s / 10, rel=0.05)
    assert max(per_tenth) < 2 * mean, "the probes are spread over the interval"
