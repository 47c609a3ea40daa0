"""One board among others: what it is told by and about gateways that probe the same fleet."""

from random import Random

from pulsegate.core.board import Board
from pulsegate.core.events import (
    Alerted,
    AlertKind,
    CountersRead,
    DutiesChanged,
    FleetChanged,
    ProbeDone,
    ProbeLate,
    Tick,
    VerdictHeard,
)
from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.hearing import Verdict
from pulsegate.core.ids import EndpointId, Incarnation, MemberId
from pulsegate.core.probe import Counters, Ending, Fault, FaultClass, ProbeKind
from pulsegate.core.status import DueProbe, EndpointStatus
from support.fake_engine import result_of
from support.samples import fleet, pool, spec

NAMES = [EndpointId(f"e{number}") for number in range(8)]
POLICY = ProbePolicy(deep_interval_s=0.0, jitter=0.0)
FIRST = Incarnation(1)


def verdict(endpoint: EndpointId, state: State, reason: Reason, *, age_s: float = 1.0) -> Verdict:
    return Verdict(
        endpoint=endpoint,
        author=MemberId("g2"),
        epoch=1,
        sequence=1,
        incarnation=FIRST,
        state=state,
        reason=reason,
        detail="",
        hard=False,
        suspect=False,
        age_s=age_s,
        streak=0 if state is State.WARMING else 3,
        fails=0,
        deep_due=False,
        probed_s=1.0,
    )


class Among:
    """A board that others share, and its clock."""

    def __init__(self, *names: EndpointId, policy: ProbePolicy = POLICY) -> None:
        self.board = Board(Random(1), shared=True)
        self.at = 100.0
        self.board.apply(FleetChanged(at=self.at, fleet=fleet(pool(*map(spec, names), probe=policy))))

    def status(self, endpoint: EndpointId) -> EndpointStatus:
        status = self.board.status(endpoint)
        assert status is not None
        return status

    def hear(self, endpoint: EndpointId, state: State, reason: Reason = Reason.OK) -> None:
        self.board.apply(VerdictHeard(at=self.at, verdict=verdict(endpoint, state, reason), said_at=self.at))

    def own(self, *names: EndpointId) -> None:
        self.board.apply(DutiesChanged(at=self.at, own=names))

    def rest(self, *names: EndpointId) -> None:
        self.board.apply(DutiesChanged(at=self.at, rest=names))

    def due(self, within_s: float = 3.5) -> tuple[DueProbe, ...]:
        self.at += within_s
        return self.board.take_due(self.at)

    def answered(self, due: DueProbe, fault: FaultClass | None = None) -> list[object]:
        if fault is None:
            result = result_of(due.ask, ending=Ending.COMPLETE, text="4", ttft_s=0.05, end_s=0.05)
        else:
            result = result_of(due.ask, ending=Ending.FAILED, fault=Fault(kind=fault, detail=""), end_s=0.05)
        done = ProbeDone(at=self.at, endpoint=due.endpoint, incarnation=due.incarnation, result=result)
        return list(self.board.apply(done))


def counters(progress: float) -> Counters:
    return Counters(progress=progress, running=0.0, waiting=0.0)


def test_a_probe_under_way_says_nothing_of_an_endpoint_that_was_handed_over() -> None:
    among, one = Among(*NAMES), NAMES[0]
    among.hear(one, State.HEALTHY)
    among.own(one)
    (due,) = among.due()
    among.board.apply(CountersRead(at=among.at, endpoint=one, incarnation=FIRST, counters=counters(9.0)))
    among.rest(one)
    among.board.apply(ProbeLate(at=among.at + 0.3, endpoint=one, incarnation=FIRST))
    assert among.status(one).state is State.HEALTHY
    among.board.apply(CountersRead(at=among.at + 0.4, endpoint=one, incarnation=FIRST, counters=counters(1.0)))
    among.answered(due, FaultClass.CUDA)
    assert (among.status(one).state, among.status(one).incarnation) == (State.HEALTHY, FIRST)


def test_counters_from_before_another_gateway_probed_it_show_no_restart() -> None:
    among, one = Among(*NAMES), NAMES[0]
    among.hear(one, State.HEALTHY)
    among.own(one)
    among.due()
    among.board.apply(CountersRead(at=among.at, endpoint=one, incarnation=FIRST, counters=counters(9.0)))
    among.rest(one)
    among.at += 3600.0
    among.hear(one, State.HEALTHY)
    among.own(one)
    among.board.apply(CountersRead(at=among.at, endpoint=one, incarnation=FIRST, counters=counters(1.0)))
    assert (among.status(one).state, among.status(one).incarnation) == (State.HEALTHY, FIRST)


def test_an_endpoint_that_sleeps_is_not_given_a_deadline_by_who_takes_it_over() -> None:
    among, one = Among(*NAMES, policy=ProbePolicy(deep_interval_s=0.0, startup_deadline_s=60.0)), NAMES[0]
    among.hear(one, State.WARMING, Reason.SLEEPING)
    among.own(one)
    for _ in range(40):
        for due in among.due():
            among.answered(due, FaultClass.SLEEPING)
        among.board.apply(Tick(at=among.at))
    assert {note.new for note in among.status(one).transitions} == {State.WARMING}


def test_nobody_runs_out_of_time_at_a_gateway_that_only_hears_of_it() -> None:
    among, one = Among(*NAMES, policy=ProbePolicy(deep_interval_s=0.0, startup_deadline_s=60.0)), NAMES[0]
    among.at += 50.0
    among.hear(one, State.WARMING, Reason.LOADING)
    among.at += 50.0
    among.board.apply(Tick(at=among.at))
    assert among.status(one).state is State.WARMING


def test_who_is_handed_on_and_on_while_it_starts_is_not_given_more_time() -> None:
    among, one = Among(*NAMES, policy=ProbePolicy(deep_interval_s=0.0, startup_deadline_s=60.0)), NAMES[0]
    among.hear(one, State.WARMING, Reason.LOADING)
    for _ in range(10):
        among.own(one)
        among.at += 10.0
        among.board.apply(Tick(at=among.at))
        among.rest(one)
    assert (among.status(one).state, among.status(one).reason) == (State.UNHEALTHY, Reason.STARTUP_DEADLINE)


def test_the_network_is_judged_by_what_is_probed_from_here() -> None:
    among = Among(*NAMES)
    for one in NAMES:
        among.hear(one, State.HEALTHY)
    among.own(*NAMES)
    for due in among.due():
        among.answered(due)
    among.rest(*NAMES[4:])
    effects = [effect for due in among.due(4.5) for effect in among.answered(due, FaultClass.UNREACHABLE)]
    assert AlertKind.NETWORK_SUSPECT in {effect.kind for effect in effects if isinstance(effect, Alerted)}


def test_a_new_server_does_not_wait_for_the_slow_start_of_the_one_before() -> None:
    among, one = Among(*NAMES), NAMES[0]
    for name in NAMES:
        among.hear(name, State.HEALTHY)
    among.hear(one, State.UNHEALTHY, Reason.CUDA)
    among.at += 1.0
    among.hear(one, State.HEALTHY)
    among.at += 11.0
    among.board.apply(Tick(at=among.at))
    assert 0 < among.status(one).weight < 100
    specs = [spec(name, url="http://other.test:1" if name == one else None) for name in NAMES]
    among.board.apply(FleetChanged(at=among.at, fleet=fleet(pool(*specs, probe=POLICY))))
    assert among.status(one).weight == 0
    among.hear(one, State.HEALTHY)
    assert among.status(one).weight == 100


def test_who_takes_over_knows_when_the_deep_probe_was() -> None:
    among, one = Among(*NAMES, policy=ProbePolicy(deep_interval_s=60.0, jitter=0.0)), NAMES[0]
    asked: list[tuple[float, ProbeKind]] = []
    for _ in range(4):
        said = verdict(one, State.HEALTHY, Reason.OK)._replace(deep_s=among.at - 90.0)
        among.board.apply(VerdictHeard(at=among.at, verdict=said, said_at=among.at))
        among.own(one)
        for _ in range(3):
            for due in among.due():
                asked.append((among.at, due.ask.kind))
                among.answered(due)
        among.rest(one)
    assert asked
    assert [kind for at, kind in asked if at < 140.0 and kind is ProbeKind.DEEP] == []


def test_who_asks_to_be_left_alone_is_so_however_often_others_are_handed_over() -> None:
    among = Among(*NAMES[:2])
    among.own(NAMES[0])
    for _ in range(3):
        (due,) = among.due()
        among.answered(due)
    (due,) = among.due()
    full = Fault(kind=FaultClass.OVERLOAD, detail="full", retry_after_s=15.0)
    result = result_of(due.ask, ending=Ending.FAILED, fault=full, end_s=0.01)
    among.board.apply(ProbeDone(at=among.at, endpoint=due.endpoint, incarnation=due.incarnation, result=result))
    asked_again_at = among.status(NAMES[0]).next_probe_at
    assert asked_again_at is not None
    assert asked_again_at > among.at + POLICY.interval_s
    among.own(NAMES[1])
    among.rest(NAMES[1])
    assert among.status(NAMES[0]).next_probe_at == asked_again_at
