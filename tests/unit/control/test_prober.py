"""The prober with the real board, on virtual time, over engines that follow a script."""

import asyncio
from itertools import pairwise

import pytest

from pulsegate.control.errors import InvariantError
from pulsegate.control.reports import ProbeReport
from pulsegate.core.events import DrainAsked
from pulsegate.core.fleet import EndpointSpec, ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId
from pulsegate.core.outcome import OutcomeKind
from support.fake_engine import CUDA, FAST, MOVING, SILENT, Answer, FakeEngine, FakeFactory, Script
from support.samples import fleet, pool, spec
from support.watching import Diary, Scene, for_seconds, watch

STEADY = ProbePolicy(jitter=0.0, deep_interval_s=0.0)


def engines(**scripts: Script | FakeEngine) -> FakeFactory:
    """Each endpoint's engine by name; others answer fast."""

    def make(one: EndpointSpec) -> FakeEngine:
        script = scripts.get(one.id)
        return script if isinstance(script, FakeEngine) else FakeEngine(script or (lambda _at: FAST))

    return FakeFactory(make)


def until(seconds: float, first: Answer, then: Answer) -> Script:
    return lambda at: first if at < seconds else then


def test_a_sound_endpoint_becomes_healthy_and_is_routed() -> None:
    scene = watch(fleet(pool(spec("a"), probe=STEADY)), engines(), for_seconds(10))
    assert scene.state("a") == (State.HEALTHY, Reason.OK)
    assert scene.snapshots.latest.pools[0].endpoints[0].weight == 100
    assert scene.diary.crashes == []


def test_the_cadence_is_exact_and_slow_answers_do_not_shift_it() -> None:
    factory = engines(a=lambda _at: Answer(after_s=0.15), b=lambda _at: Answer(after_s=0.5))
    watch(fleet(pool(spec("a"), spec("b"), probe=STEADY)), factory, for_seconds(60))
    for endpoint in ("a", "b"):
        began = [at for at in factory.last(endpoint).began if at > 15]
        assert {round(right - left, 6) for left, right in pairwise(began)} == {3.0}


def test_a_late_probe_is_known_to_be_late_before_it_ends() -> None:
    factory = engines(a=until(20, FAST, Answer(after_s=0.5)))
    scene = watch(fleet(pool(spec("a"), probe=STEADY)), factory, for_seconds(30))
    slow = next(at for at in factory.last("a").began if at >= 20)
    changes = [change for change in scene.diary.states("a") if change[0] >= 20]
    assert changes[:2] == [
        (round(slow + 0.3, 3), State.DEGRADED, Reason.CONGESTED),
        (round(slow + 0.5, 3), State.DEGRADED, Reason.SLOW),
    ]


def test_counters_are_read_only_while_a_probe_is_late_and_never_two_at_a_time() -> None:
    engine = FakeEngine(until(20, FAST, SILENT), progress=MOVING)
    engine.read_takes_s = 0.4  # longer than the rhythm
    watch(fleet(pool(spec("a"), probe=STEADY)), engines(a=engine), for_seconds(40))
    first_late = next(at for at in engine.began if at >= 20) + 0.3
    assert engine.reads
    assert min(engine.reads) == pytest.approx(first_late)
    assert engine.most_reading == 1
    for at in engine.reads:
        assert any(began <= at <= began + 0.8 for began in engine.began), "read while no probe was in flight"


def test_a_hang_is_found_within_interval_plus_two_and_a_half_seconds_when_counters_stand_still() -> None:
    engine = FakeEngine(until(20, FAST, SILENT), progress=[7.0])
    scene = watch(fleet(pool(spec("a"), spec("b"), probe=STEADY)), engines(a=engine), for_seconds(30))
    found = [at for at, state, reason in scene.diary.states("a") if (state, reason) == (State.UNHEALTHY, Reason.HUNG)]
    assert len(found) == 1
    assert found[0] <= 20 + STEADY.interval_s + 2.5
    assert scene.snapshots.latest.pools[0].endpoints[0].ejected


def test_a_busy_engine_whose_counters_move_is_never_unhealthy() -> None:
    engine = FakeEngine(until(20, FAST, SILENT), progress=MOVING)
    scene = watch(fleet(pool(spec("a"), spec("b"), probe=STEADY)), engines(a=engine), for_seconds(320))
    assert State.UNHEALTHY not in [state for _, state, _ in scene.diary.states("a")]
    assert scene.state("a") == (State.DEGRADED, Reason.BUSY)


def test_a_cuda_error_ejects_at_once() -> None:
    factory = engines(a=until(20, FAST, CUDA))
    scene = watch(fleet(pool(spec("a"), spec("b"), probe=STEADY)), factory, for_seconds(30))
    first_bad = next(at for at in factory.last("a").began if at >= 20)
    changes = [change for change in scene.diary.states("a") if change[0] >= 20]
    assert changes == [(round(first_bad + 0.01, 3), State.UNHEALTHY, Reason.CUDA)]


def test_there_is_never_a_second_probe_in_flight() -> None:
    engine = FakeEngine(until(10, FAST, SILENT), progress=[1.0])
    watch(fleet(pool(spec("a"), probe=STEADY)), engines(a=engine), for_seconds(120))
    assert engine.most_in_flight == 1
    assert len(engine.began) > 10


def test_a_stopped_process_condemns_nobody() -> None:
    """Stopped for four seconds again and again, each time in the middle of some probe."""
    names = [f"e{number}" for number in range(8)]
    factory = FakeFactory(lambda _spec: FakeEngine(lambda _at: Answer(after_s=0.15)))

    async def play(scene: Scene) -> None:
        await asyncio.sleep(20)
        for _ in range(20):
            while not any(factory.last(one).in_flight for one in names):  # noqa: ASYNC110 - no event for that
                await asyncio.sleep(0.01)  # virtual time: this is a jump, not a wait
            scene.loop.stall(4.0)
            await asyncio.sleep(1.0)

    scene = watch(fleet(pool(*map(spec, names), probe=STEADY)), factory, play)
    assert [one for one in scene.diary.transitions if one.at > 20] == []
    local = [report for report in scene.diary.reports if report.outcome is OutcomeKind.LOCAL]
    assert len(local) >= 20
    assert all(report.result.lag_s > 3.9 for report in local)


def test_a_bug_in_an_engine_stops_neither_the_others_nor_its_own_schedule() -> None:
    factory = engines(a=until(20, FAST, Answer(after_s=0.05, raises=KeyError("bug"))))
    scene = watch(fleet(pool(spec("a"), spec("b"), probe=STEADY)), factory, for_seconds(60))
    assert scene.state("a")[0] is State.HEALTHY  # our fault, not the endpoint's
    assert {what for what, _ in scene.diary.crashes} == {"probe of a"}
    assert len([at for at in factory.last("a").began if at > 20]) >= 12
    assert len([at for at in factory.last("b").began if at > 20]) >= 12


def test_an_engine_that_never_comes_back_is_given_up_and_probed_again() -> None:
    class Lost(FakeEngine):
        async def _follow(self, answer, ask):
            if len(self.began) == 5:
                await asyncio.Event().wait()
            return await super()._follow(answer, ask)

    engine = Lost()
    scene = watch(fleet(pool(spec("a"), probe=STEADY)), engines(a=engine), for_seconds(60))
    assert len(scene.diary.crashes) == 1
    assert "did not come back" in scene.diary.crashes[0][0]
    assert len(engine.began) > 10
    assert scene.state("a")[0] is State.HEALTHY


def test_the_operator_can_drain_and_give_back() -> None:
    async def play(scene: Scene) -> None:
        await asyncio.sleep(20)
        scene.prober.tell(DrainAsked(at=scene.clock.now(), endpoint=EndpointId("a"), drain=True))
        assert scene.state("a")[0] is State.DRAINING
        assert scene.snapshots.latest.pools[0].endpoints[0].weight == 0
        await asyncio.sleep(20)
        scene.prober.tell(DrainAsked(at=scene.clock.now(), endpoint=EndpointId("a"), drain=False))
        await asyncio.sleep(60)

    scene = watch(fleet(pool(spec("a"), spec("b"), probe=STEADY)), engines(), play)
    assert scene.state("a")[0] is State.HEALTHY


def test_outside_of_run_nothing_can_be_watched() -> None:
    scene = watch(fleet(pool(spec("a"))), engines(), for_seconds(1))
    with pytest.raises(InvariantError):
        scene.prober.change(fleet(pool(spec("b"))))


def test_a_prober_that_was_overloaded_for_a_moment_finds_its_way_back() -> None:
    """Probes that we spoiled ourselves must not be asked again any faster: that would keep the overload going."""
    names = [f"e{number}" for number in range(300)]

    async def play(scene: Scene) -> None:
        def costly(_at: float) -> Answer:
            scene.loop.stall(0.006)  # 300 endpoints every 3 s: 60 % of what one process can do
            return FAST

        for name in names:
            factory.last(name).script = costly
        await asyncio.sleep(30)
        scene.loop.stall(4.0)
        await asyncio.sleep(30)

    factory = engines()
    scene = watch(fleet(pool(*map(spec, names), probe=STEADY)), factory, play)
    local = [round(report.at) for report in scene.diary.reports if report.outcome is OutcomeKind.LOCAL]
    assert local, "the stall spoiled some probes"
    assert max(local) < 45
    assert {scene.state(name)[0] for name in names} == {State.HEALTHY}


class SometimesWrong(Diary):
    """An observer with a bug, which stands for any bug behind the folding of a probe."""

    def probed(self, report: ProbeReport) -> None:
        if report.spec.id == "a" and 20 < report.at < 30:
            raise KeyError("bug")
        super().probed(report)


@pytest.mark.parametrize("diary", [Diary(), SometimesWrong()], ids=["in the core", "in an observer"])
def test_a_bug_in_judging_one_endpoint_stops_nobody(diary: Diary) -> None:
    unreadable = Answer(text=None)  # type: ignore[arg-type]  # what no engine may return
    factory = engines(a=(lambda at: unreadable if 20 < at < 30 else FAST) if type(diary) is Diary else None)
    scene = watch(fleet(pool(spec("a"), spec("b"), probe=STEADY)), factory, for_seconds(60), diary=diary)
    assert {what for what, _ in scene.diary.crashes} == {"judging a"}
    for name in ("a", "b"):
        assert len([at for at in factory.last(name).began if at > 20]) >= 13


def test_a_prober_that_cannot_go_on_ends_instead_of_looking_alive() -> None:
    async def play(scene: Scene) -> None:
        await asyncio.sleep(20)
        scene.prober._watches.clear()  # what can only be a bug: the board asks for an endpoint that nobody holds
        await asyncio.sleep(20)

    with pytest.raises(ExceptionGroup) as caught:
        watch(fleet(pool(spec("a"), probe=STEADY)), engines(), play)
    assert caught.group_contains(KeyError, match="a")
