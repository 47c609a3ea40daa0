"""The board over a fleet of make-believe engines, on made-up time. Whole stories are in tests/scenarios."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from pulsegate.core.board import Board
from pulsegate.core.events import (
    Alerted,
    AlertKind,
    CountersRead,
    DrainAsked,
    FleetChanged,
    ProbeCause,
    ProbeDone,
    ProbeLate,
    ProbeWanted,
    SnapshotChanged,
    Tick,
    TrafficSeen,
)
from pulsegate.core.fleet import EjectionPolicy, EndpointSpec, Fleet, PoolSpec, ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.probe import Counters, Ending, FaultClass, ProbeKind
from pulsegate.core.prompts import DEEP
from pulsegate.core.snapshot import Snapshot
from support.core_world import HANGS, SOUND, Manner, World, answer_to, failing, frozen, moving
from support.samples import fleet, pool, spec

STEADY = ProbePolicy(jitter=0.0)
SHORT_ONLY = ProbePolicy(jitter=0.0, deep_interval_s=0.0)
A, B = EndpointId("a"), EndpointId("b")


def world(names: str = "ab", probe: ProbePolicy = STEADY, *, until: float = 10.0) -> World:
    made = World(pool(*(spec(name) for name in names), probe=probe))
    made.run(until)
    return made


def test_an_empty_board_knows_nothing_and_wants_nothing() -> None:
    board = Board(Random(1))
    assert board.snapshot == Snapshot(version=0, pools=())
    assert (board.next_wake_at(), board.take_due(1e9), board.statuses(), board.status(A)) == (None, (), (), None)
    assert board.apply(Tick(at=5.0)) == ()
    assert board.apply(TrafficSeen(at=5.0, endpoint=A, failures=3)) == ()


def test_start_up_takes_half_a_second_and_three_probes_one_of_them_deep() -> None:
    scene = world("a")
    first = [(round(at, 3), due.ask.kind, due.cause) for at, due in scene.probes[:3]]
    assert first == [
        (0.0, ProbeKind.MICRO, None),
        (0.271, ProbeKind.MICRO, ProbeCause.RISE),
        (0.542, ProbeKind.DEEP, ProbeCause.RISE),
    ]
    assert scene.states("a") == [(0.563, "healthy", "ok")]


def test_what_a_probe_asks() -> None:
    scene = world("ab", until=70.0)
    micro = next(due.ask for _, due in scene.probes if due.ask.kind is ProbeKind.MICRO)
    deep = [due.ask for _, due in scene.probes if due.ask.kind is ProbeKind.DEEP]
    assert (micro.max_tokens, micro.deadline_s, micro.end_deadline_s) == (1, 0.8, None)
    assert micro.prompt.startswith(micro.nonce)
    assert (deep[0].max_tokens, deep[0].deadline_s, deep[0].end_deadline_s) == (4, 5.0, 5.0)
    assert (deep[-1].deadline_s, deep[-1].end_deadline_s) == (1.0, 5.0), "in service a freeze must be found fast"


def test_peers_are_asked_the_same_in_one_turn_and_never_the_same_again() -> None:
    scene = world("abc", SHORT_ONLY, until=60.0)
    asked: dict[str, set[str]] = {}
    for at, due in scene.probes:
        if at > 3.0:
            asked.setdefault(due.ask.prompt, set()).add(due.endpoint)
    assert len(asked) == 19
    assert all(who == {"a", "b", "c"} for who in asked.values())
    mine = [due.ask.prompt for _, due in scene.probes if due.endpoint == "a"]
    assert len(set(mine)) == len(mine)


def test_deep_probes_come_every_minute() -> None:
    scene = world("a", until=400.0)
    deep = [at for at, due in scene.probes if due.ask.kind is ProbeKind.DEEP]
    assert len(deep) == 7
    assert all(58.4 <= b - a <= 61.6 for a, b in pairwise(deep))


def test_deep_probes_go_through_the_whole_bank() -> None:
    scene = world("a", until=400.0)
    asked = [due.ask.prompt_id for _, due in scene.probes if due.ask.kind is ProbeKind.DEEP]
    assert set(asked[:6]) == {prompt.id for prompt in DEEP}


def test_one_probe_in_flight_until_it_is_done_or_given_back() -> None:
    board = Board(Random(1))
    board.apply(FleetChanged(at=0.0, fleet=fleet(pool(spec("a"), probe=STEADY))))
    assert [due.endpoint for due in board.take_due(0.0)] == ["a"]
    assert board.take_due(100.0) == ()
    assert board.status(A).next_probe_at is None  # type: ignore[union-attr]
    board.give_back(A, 100.0)
    (due,) = board.take_due(104.0)
    assert due.due_at > 100.0


def test_no_more_than_wanted_are_taken_the_earliest_first() -> None:
    board = Board(Random(1))
    board.apply(FleetChanged(at=0.0, fleet=fleet(pool(*(spec(f"e{n}") for n in range(9)), probe=STEADY))))
    taken = [board.take_due(10.0, 4), board.take_due(10.0, 4), board.take_due(10.0, 4)]
    assert [len(some) for some in taken] == [4, 4, 1]
    due_times = [due.due_at for some in taken for due in some]
    assert due_times == sorted(due_times)


def test_the_snapshot_is_the_same_object_until_others_can_see_a_change() -> None:
    scene = world()
    before = scene.board.snapshot
    scene.run(60.0)
    assert scene.board.snapshot is before
    scene.set(failing(FaultClass.CUDA), "a")
    scene.run(64.0)
    assert scene.board.snapshot.version == before.version + 1
    assert scene.board.snapshot.pools[0].endpoints[1] is before.pools[0].endpoints[1]


@pytest.mark.parametrize(
    "manner",
    [
        Manner(ttft_s=None, counters=frozen(9, 0, 0)),
        Manner(ttft_s=None, counters=frozen(37075, 16, 4)),
        Manner(ttft_s=None, counters=frozen(5, 0, 6)),
        HANGS,
    ],
    ids=["idle", "under load", "waiting never admitted", "no counters"],
)
@pytest.mark.parametrize("stopped_at", [30.0 + step / 7 for step in range(21)])
def test_a_freeze_is_found_within_the_interval_and_two_and_a_half_seconds(manner: Manner, stopped_at: float) -> None:
    scene = world("ab", ProbePolicy(), until=stopped_at)
    scene.set(manner, "a")
    scene.run(stopped_at + 3.0 + 2.5)
    assert scene.view("a").state is State.UNHEALTHY
    assert scene.view("a").ejected
    assert scene.board.status(A).reason is Reason.HUNG  # type: ignore[union-attr]


@pytest.mark.parametrize("stopped_at", [60.2 + step / 4 for step in range(16)])
def test_a_freeze_is_found_as_fast_when_the_deep_probe_meets_it(stopped_at: float) -> None:
    scene = world("a", ProbePolicy(), until=stopped_at)
    scene.set(Manner(ttft_s=None, counters=frozen(9, 0, 0)), "a")
    scene.run(stopped_at + 5.5)
    assert scene.view("a").state is State.UNHEALTHY


def test_readings_that_stop_to_come_do_not_put_off_the_verdict() -> None:
    scene = world()
    begun = scene.starts("a")[-1] + 3.0
    scene.run(begun - 0.1)
    scene.set(Manner(ttft_s=None, counters=lambda at: frozen()(at) if at < begun + 1.59 else None), "a")
    scene.run(begun + 2.3)
    verdict = next(at for at, state, _ in scene.states("a") if state == "unhealthy")
    assert verdict - begun == pytest.approx(1.85, abs=0.45)


def test_saturation_for_five_minutes_is_never_unhealthy() -> None:
    scene = world("abcd", ProbePolicy())
    scene.set(Manner(ttft_s=None, counters=moving()), *"abcd")
    scene.run(310.0)
    assert {scene.view(name).state for name in "abcd"} == {State.DEGRADED}
    assert {state for name in "abcd" for _, state, _ in scene.states(name)} == {"healthy", "degraded"}
    assert [len(scene.states(name)) for name in "abcd"] == [3, 3, 3, 3], "no swinging"
    assert all(scene.view(name).weight == 100 and not scene.view(name).low_only for name in "abcd")


def test_confirming_probes_are_not_asked_of_the_busy() -> None:
    scene = world()
    scene.set(Manner(ttft_s=None, counters=moving()), "a")
    scene.run(70.0)
    assert len([at for at in scene.starts("a") if at > 10.0]) == 20


def test_users_failures_ask_for_a_probe_now_but_not_in_a_loop() -> None:
    scene = world()
    for step in range(30):
        scene.run(10.5 + step / 10)
        scene.apply(TrafficSeen(at=scene.now, endpoint=A, failures=2))
    scene.run(14.0)
    mine = [at for at in scene.starts("a") if at >= 10.5]
    assert mine[0] == 10.5
    assert all(b - a >= 0.3 for a, b in pairwise(mine))
    assert len(mine) <= 8
    assert scene.view("a").state is State.HEALTHY


def test_a_failure_during_a_probe_is_asked_about_afterwards() -> None:
    scene = world()
    scene.set(Manner(ttft_s=0.15), "a")
    begun = scene.starts("a")[-1] + 3.0
    scene.at(begun + 0.1, lambda: scene.apply(TrafficSeen(at=scene.now, endpoint=A, stalls=1)) and None)
    scene.run(begun + 1.5)
    assert scene.starts("a")[-2:] == [pytest.approx(begun), pytest.approx(begun + 0.5)]


def test_tokens_that_flow_to_users_stretch_the_interval_and_their_end_snaps_it_back() -> None:
    scene = world()
    for step in range(121):
        scene.at(10.0 + step / 2, lambda: scene.apply(TrafficSeen(at=scene.now, endpoint=A, tokens=9)) and None)
    scene.run(90.0)
    during = [at for at in scene.starts("a") if 12.0 < at < 70.0]
    assert all(15.0 < b - a <= 21.0 for a, b in pairwise(during) if b < 60.0)
    after = [at for at in scene.starts("a") if at > 70.0]
    assert after[0] < 70.0 + 3.0 + 1.5
    assert len(after) >= 5


def test_a_token_for_users_ends_the_suspicion() -> None:
    scene = world()
    scene.set(Manner(ttft_s=None, counters=moving()), "a")
    scene.run(13.0)
    assert scene.view("a").suspect
    effects = scene.apply(TrafficSeen(at=scene.now, endpoint=A, tokens=1))
    assert not scene.view("a").suspect
    assert SnapshotChanged() in effects


def test_traffic_alone_never_moves_a_state() -> None:
    scene = world()
    before = scene.board.status(A)
    for _ in range(100):
        scene.apply(TrafficSeen(at=scene.now, endpoint=A, failures=50, stalls=50))
    after = scene.board.status(A)
    assert before is not None
    assert after is not None
    assert (after.state, after.weight, after.since) == (before.state, before.weight, before.since)


@pytest.mark.parametrize("seen_in", [0, 2])
def test_events_of_another_life_are_dropped(seen_in: int) -> None:
    scene = world()
    scene.run(scene.starts("a")[-1] + 3.0)  # a probe is in flight
    before = scene.board.status(A)
    other = Incarnation(seen_in)
    assert scene.board.apply(ProbeLate(at=scene.now, endpoint=A, incarnation=other)) == ()
    flat = Counters(progress=1, running=1, waiting=1)
    assert scene.board.apply(CountersRead(at=scene.now, endpoint=A, incarnation=other, counters=flat)) == ()
    assert scene.board.status(A) == before


def test_an_answer_of_the_life_before_frees_the_endpoint_and_judges_nothing() -> None:
    scene = world("a")
    scene.set(Manner(ttft_s=None, counters=lambda at: Counters(progress=at, running=1, waiting=0, started_at=1.0)), "a")
    scene.run(14.0)
    again = Counters(progress=900, running=1, waiting=0, started_at=99.0)
    (due,) = [due for _, due in scene.probes[-1:]]
    scene.run(scene.starts("a")[-1] + 3.0)
    scene.apply(CountersRead(at=scene.now, endpoint=A, incarnation=due.incarnation, counters=again))
    status = scene.board.status(A)
    assert status is not None
    assert (status.incarnation, status.state) == (2, State.WARMING)
    scene.set(SOUND, "a")
    scene.run(scene.now + 4.0)
    assert scene.view("a").state is State.HEALTHY


def test_a_counter_that_begins_anew_is_a_new_life() -> None:
    scene = world()
    scene.set(Manner(ttft_s=None, counters=moving()), "a")
    scene.run(20.0)
    scene.set(Manner(ttft_s=None, counters=frozen(3)), "a")
    scene.run(24.0)
    view = scene.view("a")
    assert (view.incarnation, view.state, view.weight, view.ejected) == (2, State.WARMING, 0, True)


def test_the_learned_baseline_replaces_absolute_thresholds() -> None:
    slow_but_steady = Manner(ttft_s=1.2)
    absolute, learned = (ProbePolicy(jitter=0.0, auto_ttft=auto) for auto in (False, True))
    scenes = []
    for policy in (absolute, learned):
        scene = World(pool(spec("a"), probe=policy))
        scene.set(slow_but_steady, "a")
        scene.run(120.0)
        scenes.append(scene)
    assert scenes[0].view("a").state is State.WARMING
    assert scenes[1].view("a").state is State.HEALTHY
    scenes[1].set(Manner(ttft_s=4.0), "a")
    scenes[1].run(140.0)
    assert scenes[1].view("a").state is State.DEGRADED


def test_only_short_probes_without_deep_ones() -> None:
    scene = world("a", SHORT_ONLY, until=200.0)
    assert {due.ask.kind for _, due in scene.probes} == {ProbeKind.MICRO}
    assert scene.view("a").state is State.HEALTHY


def test_one_bad_answer_of_twenty_never_ejects() -> None:
    scene = world("a", SHORT_ONLY)
    for number in range(30):
        scene.run(10.0 + 60.0 * number)
        scene.set(Manner(text="!"), "a")
        scene.run(scene.board.status(A).next_probe_at or 0.0)  # type: ignore[union-attr]
        scene.set(SOUND, "a")
    scene.run(1900.0)
    reasons = [reason for _, state, reason in scene.states("a") if state != "healthy"]
    assert reasons == ["wrong_output"] * 30
    assert scene.view("a").state is State.HEALTHY


def test_one_odd_answer_before_a_hang_does_not_make_the_way_back_longer() -> None:
    scene = world("abc", SHORT_ONLY)
    scene.set(Manner(text="odd"), "a")
    scene.run(12.5)
    assert scene.view("a").reason is Reason.WRONG_OUTPUT
    scene.set(HANGS, "a")
    scene.run(20.0)
    assert scene.view("a").reason is Reason.HUNG
    scene.set(SOUND, "a")
    scene.run(45.0)
    back = [at for at, state, _ in scene.states("a") if at > 20.0 and state in ("degraded", "healthy")]
    assert back[1] - back[0] < 1.0


def test_a_prompt_that_is_a_near_tie_is_dropped_with_an_alert() -> None:
    scene = World(pool(*(spec(name) for name in "abc"), probe=SHORT_ONLY))
    scene.run(3.0)
    turns = 0
    while not any(isinstance(e, Alerted) and e.kind is AlertKind.PROMPT_DROPPED for e in scene.effects) and turns < 80:
        turns += 1
        scene.run(scene.now + 1.0)
        turn = int(scene.now // 3)
        odd = "abc"[(turn // 16) % 3] if turn % 16 == 5 else None
        for name in "abc":
            scene.set(Manner(text="odd") if name == odd else SOUND, name)
    assert scene.alerts()[-1][1:] == ("prompt_dropped", None)
    assert all(state != "unhealthy" for name in "abc" for _, state, _ in scene.states(name))
    dropped = scene.effects[-1] if isinstance(scene.effects[-1], Alerted) else None
    asked_before = len(scene.probes)
    scene.run(scene.now + 200.0)
    prompts = {due.ask.prompt_id for _, due in scene.probes[asked_before:]}
    assert len(prompts) == 15
    assert dropped is None or not any(prompt in dropped.detail for prompt in prompts)


def test_failures_are_remembered_longer_than_successes() -> None:
    scene = world("a")
    scene.set(failing(FaultClass.SERVER), "a")
    scene.run(60.0)
    scene.set(SOUND, "a")
    scene.run(200.0)
    status = scene.board.status(A)
    assert status is not None
    assert len(status.successes) == 8
    assert {note.outcome.kind for note in status.successes} == {OutcomeKind.TOKEN}
    assert {note.outcome.kind for note in status.failures} == {OutcomeKind.ERROR}
    assert status.failures[-1].at < 75.0
    assert [note.new for note in status.transitions][-3:] == [State.UNHEALTHY, State.DEGRADED, State.HEALTHY]
    assert scene.board.outcome(A, status.last_probe_at or 0.0) == status.successes[-1].outcome


def test_our_own_faults_do_not_bury_the_failures_of_the_endpoint() -> None:
    scene = world("a")
    scene.set(failing(FaultClass.SERVER), "a")
    scene.run(60.0)
    scene.set(Manner(lag_s=1.0), "a")
    scene.run(300.0)
    status = scene.board.status(A)
    assert status is not None
    kinds = [note.outcome.kind for note in status.failures]
    assert kinds[-1] is OutcomeKind.LOCAL
    assert kinds.count(OutcomeKind.LOCAL) == 1
    assert kinds.count(OutcomeKind.ERROR) > 2


def test_a_token_whose_meaning_is_open_still_parts_two_failures() -> None:
    scene = world("abc", SHORT_ONLY)
    scene.set(Manner(text="odd"), "a")
    scene.run(20.0)
    assert scene.view("a").reason is Reason.WRONG_OUTPUT
    scene.set(SOUND, "a")
    while scene.view("a").reason is not Reason.RECOVERING:
        scene.run(scene.now + 0.5)
    for manner in (failing(FaultClass.SERVER), SOUND, failing(FaultClass.SERVER)):
        scene.set(manner, "a")
        scene.run((scene.board.status(A).next_probe_at or 0.0) + 0.1)  # type: ignore[union-attr]
    status = scene.board.status(A)
    assert status is not None
    assert [status.successes[-1].at < note.at for note in list(status.failures)[-2:]] == [False, True]
    assert status.state is State.DEGRADED


def test_a_reload_keeps_what_stays_and_begins_what_is_new() -> None:
    scene = world("ab")
    scene.set(failing(FaultClass.CUDA), "a")
    scene.run(14.0)
    same = EndpointSpec(id=A, pool=PoolName("m"), url="http://a.test:8000", model="real", weight=50, api_key="new")
    moved = EndpointSpec(id=B, pool=PoolName("m"), url="http://elsewhere.test:8000", model="real")
    fresh = spec("c")
    scene.configure(PoolSpec(name=PoolName("m"), endpoints=(same, moved, fresh), probe=STEADY))
    assert (scene.view("a").state, scene.view("a").incarnation) == (State.UNHEALTHY, 1)
    assert (scene.view("b").state, scene.view("b").incarnation) == (State.WARMING, 2)
    assert (scene.view("c").state, scene.view("c").incarnation) == (State.WARMING, 1)
    scene.run(16.0)
    scene.configure(pool(fresh, probe=STEADY))
    assert [status.id for status in scene.board.statuses()] == ["c"]
    assert [view.id for view in scene.board.snapshot.pools[0].endpoints] == ["c"]
    scene.run(30.0)
    assert {due.endpoint for at, due in scene.probes if at > 16.5} == {"c"}


def test_the_same_configuration_again_changes_nothing() -> None:
    scene = world()
    before = scene.board.snapshot
    assert scene.apply(FleetChanged(at=scene.now, fleet=Fleet(pools=(pool(spec("a"), spec("b"), probe=STEADY),),
                                                             routes=()))) == ()  # fmt: skip
    assert scene.board.snapshot is before


def test_drained_endpoints_stay_drained_over_a_reload() -> None:
    scene = world()
    scene.apply(DrainAsked(at=scene.now, endpoint=A, drain=True))
    scene.configure(pool(spec("a"), spec("b"), probe=STEADY))
    assert (scene.view("a").state, scene.view("a").weight, scene.view("a").ejected) == (State.DRAINING, 0, False)
    scene.apply(DrainAsked(at=scene.now, endpoint=A, drain=False))
    assert (scene.view("a").state, scene.view("a").weight) == (State.HEALTHY, 100)


def test_an_engine_that_waits_for_its_retry_after() -> None:
    scene = world("ab", SHORT_ONLY)
    scene.set(failing(FaultClass.OVERLOAD, retry_after_s=12.0), "a")
    scene.run(60.0)
    gaps = [b - a for a, b in pairwise(scene.starts("a")[-4:])]
    assert all(10.0 < gap <= 13.5 for gap in gaps)


def test_nothing_is_retried_in_a_tight_loop() -> None:
    for kind in FaultClass:
        scene = world("ab", until=10.0)
        scene.set(failing(kind, after_s=0.0), "a")
        scene.run(70.0)
        assert len([at for at in scene.starts("a") if at > 10.0]) <= 60, kind


def test_wanted_probes_are_told() -> None:
    scene = world()
    scene.set(HANGS, "a")
    scene.run(14.0)
    wanted = [e for e in scene.effects if isinstance(e, ProbeWanted) and e.cause is ProbeCause.CONFIRM]
    assert wanted == [ProbeWanted(endpoint=A, kind=ProbeKind.MICRO, cause=ProbeCause.CONFIRM, delay_s=0.0)]


def test_a_day_of_hangs_and_thaws_leaves_nothing_behind() -> None:
    scene = World(
        PoolSpec(
            name=PoolName("m"),
            endpoints=(spec("a"), spec("b")),
            probe=ProbePolicy(interval_s=10.0),
            ejection=EjectionPolicy(slow_start_s=5.0),
        )
    )
    rng = Random(3)
    at = 0.0
    while at < 86_400.0:
        at += rng.uniform(60, 3600)
        scene.run(at)
        scene.set(rng.choice([SOUND, HANGS, Manner(ttft_s=0.4), failing(FaultClass.SERVER)]), rng.choice("ab"))
    scene.set(SOUND, "a", "b")
    scene.run(at + 900.0)
    assert [(view.state, view.weight) for view in scene.board.snapshot.pools[0].endpoints] == [
        (State.HEALTHY, 100),
        (State.HEALTHY, 100),
    ]
    assert not scene.board.snapshot.pools[0].down


def test_a_result_for_a_probe_that_nobody_took_is_ignored() -> None:
    scene = world()
    asked = scene.probes[-1][1]
    _, result = answer_to(asked.ask, failing(FaultClass.CUDA))
    done = ProbeDone(at=scene.now, endpoint=asked.endpoint, incarnation=asked.incarnation, result=result)
    assert scene.apply(done) == ()
    assert result.ending is Ending.FAILED


def test_the_data_plane_learns_under_which_name_tokens_came_and_forgets_it_for_no_failure() -> None:
    scene = World(pool(spec("a"), probe=STEADY))

    def told() -> str | None:
        return scene.board.snapshot.pools[0].endpoints[0].served_model

    scene.manners[A] = replace(failing(FaultClass.NOT_FOUND), served_model="wrong")
    scene.run(10.0)
    assert told() is None, "it gave no token under that name"
    for name, manner in (("qwen", Manner(served_model="qwen")), ("qwen", failing(FaultClass.SERVER))):
        scene.manners[A] = manner
        scene.run(scene.now + 10.0)
        assert told() == name
    scene.manners[A] = Manner(served_model="qwen2")
    before = scene.board.snapshot.version
    scene.run(scene.now + 60.0)
    assert told() == "qwen2"
    assert scene.board.snapshot.version > before


def test_a_pool_is_starting_until_its_first_probes_have_told() -> None:
    scene = world("ab", until=-1.0)
    assert [(pool.down, pool.starting) for pool in scene.board.snapshot.pools] == [(True, True)]
    scene.run(0.3)
    assert [(pool.down, pool.starting) for pool in scene.board.snapshot.pools] == [(True, True)], "tokens come"
    scene.run(5.0)
    assert [(pool.down, pool.starting) for pool in scene.board.snapshot.pools] == [(False, False)]


def test_a_pool_that_gives_no_token_is_starting_no_more() -> None:
    scene = world("ab", until=-1.0)
    scene.set(Manner(ttft_s=None), "a", "b")
    scene.run(0.7)
    assert scene.board.snapshot.pools[0].starting, "the first probes are under way"
    scene.run(1.5)
    assert [(pool.down, pool.starting) for pool in scene.board.snapshot.pools] == [(True, False)]


@pytest.mark.parametrize("users_first", [True, False])
def test_a_late_probe_and_waiting_users_together_are_reason_enough_for_suspicion(users_first: bool) -> None:
    scene = world()
    scene.set(HANGS, "a")
    users = TrafficSeen(at=10.0, endpoint=A, stalls=1, inflight=2)
    if users_first:
        scene.apply(users)
    begun = 10.0 if users_first else next_start(scene, "a")
    scene.run(begun + 0.29)
    assert not scene.view("a").suspect
    scene.run(begun + 0.31)
    if not users_first:
        assert not scene.view("a").suspect, "a late probe alone is none"
        scene.apply(replace(users, at=scene.now))
    assert scene.view("a").suspect
    scene.apply(TrafficSeen(at=scene.now, endpoint=A, tokens=1))
    assert not scene.view("a").suspect


def test_a_busy_endpoint_is_not_suspected_for_being_late() -> None:
    scene = world()
    scene.set(Manner(ttft_s=None, counters=moving()), "a")
    scene.run(20.0)
    scene.apply(TrafficSeen(at=scene.now, endpoint=A, tokens=1))
    begun = next_start(scene, "a")
    scene.run(begun + 0.31)
    scene.apply(TrafficSeen(at=scene.now, endpoint=A, stalls=1, inflight=2))
    assert (scene.view("a").reason, scene.view("a").suspect) == (Reason.BUSY, False)


def next_start(scene: World, name: str) -> float:
    """Run until the next probe of this endpoint begins."""
    before = len(scene.starts(name))
    while len(scene.starts(name)) == before:
        scene.run(scene.now + 0.01)
    return scene.starts(name)[-1]
