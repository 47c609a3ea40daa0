"""Whose word counts."""

import pytest

from pulsegate.core.health import Reason, State
from pulsegate.core.hearing import SILENT_S, WITNESS_LIMIT_S, Duty, Hearing, Verdict
from pulsegate.core.ids import EndpointId, Incarnation, MemberId
from pulsegate.core.sharding import Posts

E = EndpointId("e")
OWNER, WITNESS, THIRD, GONE = MemberId("owner"), MemberId("witness"), MemberId("third"), MemberId("gone")
EPOCH = 5


def said(
    author: MemberId,
    state: State = State.HEALTHY,
    *,
    sequence: int = 1,
    epoch: int = EPOCH,
    hard: bool = False,
    life: int = 1,
) -> Verdict:
    return Verdict(
        endpoint=E,
        author=author,
        epoch=epoch,
        sequence=sequence,
        incarnation=Incarnation(life),
        state=state,
        reason=Reason.HUNG if state is State.UNHEALTHY else Reason.OK,
        detail="",
        hard=hard,
        suspect=False,
        age_s=1.0,
        streak=3,
        fails=0,
        deep_due=False,
    )


def at_the_table(me: MemberId, epoch: int = EPOCH) -> Hearing:
    hearing = Hearing(me)
    hearing.convene(epoch, frozenset({OWNER, WITNESS, THIRD}), {E: Posts(OWNER, WITNESS)})
    return hearing


def state_for(hearing: Hearing, at: float) -> State | None:
    believed = hearing.believed(E, at)
    return None if believed is None else believed[0].state


def test_the_owners_word_counts() -> None:
    third = at_the_table(THIRD)
    assert state_for(third, 0.0) is None
    assert third.hear(said(OWNER), 1.0)
    assert state_for(third, 1.0) is State.HEALTHY
    assert third.duty(E) is Duty.REST


def test_a_certain_condemnation_needs_no_witness() -> None:
    third, witness = at_the_table(THIRD), at_the_table(WITNESS)
    for hearing in (third, witness):
        hearing.hear(said(OWNER, State.UNHEALTHY, hard=True), 1.0)
        assert state_for(hearing, 1.0) is State.UNHEALTHY
        assert hearing.duty(E) is Duty.REST


def test_a_doubtful_condemnation_waits_for_the_witness() -> None:
    third, witness = at_the_table(THIRD), at_the_table(WITNESS)
    for hearing in (third, witness):
        hearing.hear(said(OWNER, State.UNHEALTHY), 1.0)
    believed = third.believed(E, 1.0)
    assert believed is not None
    assert (believed[0].state, believed[0].suspect) == (State.DEGRADED, True)
    assert witness.duty(E) is Duty.WITNESS
    third.hear(said(WITNESS, State.UNHEALTHY), 2.0)
    assert state_for(third, 2.0) is State.UNHEALTHY


def test_the_witness_can_contradict() -> None:
    third = at_the_table(THIRD)
    third.hear(said(OWNER, State.UNHEALTHY), 1.0)
    third.hear(said(WITNESS, State.HEALTHY), 2.0)
    assert state_for(third, 60.0) is State.HEALTHY
    third.hear(said(OWNER, State.DEGRADED, sequence=2), 61.0)
    assert state_for(third, 61.0) is State.DEGRADED, "the owner reaches it again, so its word counts again"


def test_what_the_witness_said_of_an_earlier_case_says_nothing() -> None:
    third = at_the_table(THIRD)
    third.hear(said(OWNER, State.UNHEALTHY), 1.0)
    third.hear(said(WITNESS, State.HEALTHY), 2.0)
    third.hear(said(OWNER, State.HEALTHY, sequence=2), 3.0)
    third.hear(said(OWNER, State.UNHEALTHY, sequence=3), 4.0)
    assert state_for(third, 4.0) is State.DEGRADED


def test_a_witness_that_says_nothing_is_not_waited_for_for_ever() -> None:
    third = at_the_table(THIRD)
    third.hear(said(OWNER, State.UNHEALTHY), 1.0)
    assert state_for(third, 1.0 + WITNESS_LIMIT_S) is State.UNHEALTHY


@pytest.mark.parametrize(
    "late",
    [
        said(OWNER, sequence=1),
        said(OWNER, sequence=2),
        said(OWNER, epoch=EPOCH - 1, sequence=99),
        said(WITNESS, State.UNHEALTHY, sequence=99, life=1),
        said(GONE, epoch=EPOCH, sequence=99, life=2),
        said(THIRD, epoch=EPOCH - 1, sequence=99, life=2),
    ],
    ids=["older", "twice", "older epoch", "earlier life", "has left", "was replaced"],
)
def test_old_words_are_dropped(late: Verdict) -> None:
    witness = at_the_table(WITNESS)
    assert witness.hear(said(OWNER, State.DEGRADED, sequence=2, life=2), 1.0)
    assert not witness.hear(late, 2.0)
    assert state_for(witness, 2.0) is State.DEGRADED


def test_a_process_that_slept_through_its_replacement_changes_nothing() -> None:
    third = at_the_table(THIRD)
    third.hear(said(OWNER), 1.0)
    third.convene(EPOCH + 1, frozenset({WITNESS, THIRD}), {E: Posts(WITNESS, THIRD)})
    assert not third.hear(said(OWNER, State.UNHEALTHY, sequence=9), 2.0)
    assert state_for(third, 2.0) is State.HEALTHY, "what it said before stays until its successor speaks"
    assert third.hear(said(WITNESS, State.DEGRADED, epoch=EPOCH + 1), 3.0)
    assert state_for(third, 3.0) is State.DEGRADED


def test_words_from_a_view_that_we_do_not_know_yet_are_taken() -> None:
    third = at_the_table(THIRD)
    assert third.hear(said(GONE, epoch=EPOCH + 1), 1.0)


def test_what_was_kept_for_newcomers_counts_though_its_author_has_left() -> None:
    third = at_the_table(THIRD)
    assert third.hear(said(GONE, epoch=EPOCH - 1), 1.0, live=False)
    assert state_for(third, 1.0) is State.HEALTHY


def test_words_of_endpoints_that_nobody_watches_here_are_kept_for_a_while_only() -> None:
    third = at_the_table(THIRD)
    for number in range(100):
        assert not third.hear(said(OWNER)._replace(endpoint=EndpointId(f"e{number}")), float(number))
    posts = {EndpointId(f"e{number}"): Posts(OWNER, WITNESS) for number in range(100)}
    third.convene(EPOCH, frozenset({OWNER, WITNESS, THIRD}), posts, 99.0)
    assert [one for one in posts if third.believed(one, 99.0)] == list(posts)[-int(SILENT_S) :]


def test_before_an_outage_is_not_after_it() -> None:
    third = at_the_table(THIRD)
    third.hear(said(OWNER, State.UNHEALTHY, sequence=7, hard=True), 1.0)
    third.part()
    assert third.believed(E, 2.0) is None
    assert not third.hear(said(OWNER, State.UNHEALTHY, sequence=7, hard=True), 60.0, live=False)
    assert third.hear(said(OWNER, sequence=8), 61.0)
    assert state_for(third, 61.0) is State.HEALTHY


def test_until_a_new_witness_has_answered_what_the_former_one_said_counts() -> None:
    third = at_the_table(THIRD)
    third.hear(said(OWNER, State.UNHEALTHY), 1.0)
    third.hear(said(WITNESS), 2.0)
    third.convene(EPOCH + 1, frozenset({OWNER, THIRD, GONE}), {E: Posts(OWNER, GONE)}, 60.0)
    assert state_for(third, 60.0) is State.HEALTHY
    assert state_for(third, 60.0 + WITNESS_LIMIT_S) is State.UNHEALTHY
    third.hear(said(GONE, State.UNHEALTHY, epoch=EPOCH + 1), 61.0)
    assert state_for(third, 61.0) is State.UNHEALTHY


def test_an_owner_that_knows_fewer_lives_than_its_witness_is_heard() -> None:
    third = at_the_table(THIRD)
    third.hear(said(OWNER, State.UNHEALTHY), 1.0)
    third.hear(said(WITNESS, life=2), 2.0)
    assert third.hear(said(OWNER, State.UNHEALTHY, sequence=2, hard=True), 3.0)
    assert state_for(third, 3.0) is State.UNHEALTHY


def test_who_owned_an_endpoint_does_not_go_back_to_what_others_said_before() -> None:
    owner = at_the_table(OWNER)
    owner.hear(said(WITNESS, State.WARMING, epoch=EPOCH - 1), 1.0)
    owner.convene(EPOCH + 1, frozenset({OWNER, WITNESS}), {E: Posts(WITNESS, OWNER)})
    assert owner.believed(E, 2.0) is None


@pytest.mark.parametrize("age_s", [float("nan"), float("inf")])
def test_no_gateway_gives_such_a_verdict(age_s: float) -> None:
    assert said(OWNER).is_sound
    assert not said(OWNER)._replace(age_s=age_s).is_sound
    assert not said(OWNER)._replace(probed_s=age_s).is_sound
    assert not said(OWNER, State.DRAINING).is_sound


def test_strangers_and_ourselves_are_not_listened_to() -> None:
    third = at_the_table(THIRD)
    assert not third.hear(said(THIRD), 1.0)
    assert not third.hear(said(OWNER)._replace(endpoint=EndpointId("unknown")), 1.0)
