"""What waits to be said: the latest of each key, in bounded space."""

from hypothesis import example, given
from hypothesis import strategies as st

from pulsegate.control.coordination import Words
from pulsegate.coordination.outbox import MAX_CALL_BYTES, MAX_WAITING_BYTES, Outbox
from pulsegate.core.ids import MemberId

ME = MemberId("me")


def words(epoch: int = 1, *passing: bytes, **kept: bytes) -> Words:
    return Words(ME, epoch, kept, passing)


def everything(outbox: Outbox) -> list[Words]:
    taken: list[Words] = []
    while outbox:
        taken.append(outbox.take())
    return taken


def test_what_is_told_in_one_turn_goes_out_in_one_call():
    outbox = Outbox(ME)
    outbox.put(words(1, b"p", a=b"1", b=b"1"))
    outbox.put(words(1, b"q", a=b"2"))
    assert everything(outbox) == [words(1, b"p", b"q", b=b"1", a=b"2")]


def test_words_of_another_epoch_go_out_on_their_own_without_what_is_outdated():
    outbox = Outbox(ME)
    outbox.put(words(1, b"p", a=b"1", b=b"1"))
    outbox.put(words(2, a=b"2"))
    assert everything(outbox) == [words(1, b"p", b=b"1"), words(2, a=b"2")]


def test_an_epoch_of_which_nothing_is_left_is_not_told_of():
    outbox = Outbox(ME)
    outbox.put(words(1, a=b"1"))
    outbox.put(words(2, a=b"2"))
    assert everything(outbox) == [words(2, a=b"2")]


def test_no_words_are_no_call():
    outbox = Outbox(ME)
    outbox.put(words(1))
    assert not outbox


def test_a_call_holds_about_a_megabyte_or_one_value():
    outbox = Outbox(ME)
    large, half = bytes(3 * MAX_CALL_BYTES), bytes(MAX_CALL_BYTES // 2)
    outbox.put(words(1, large, half, half, half, a=large, b=half))
    sizes = [[len(value) for value in (*said.kept.values(), *said.passing)] for said in everything(outbox)]
    assert sizes == [[len(large)], [len(half), len(large)], [len(half)] * 2, [len(half)]]


def test_it_is_full_when_more_waits_than_makes_sense():
    outbox = Outbox(ME)
    outbox.put(words(1, a=bytes(MAX_WAITING_BYTES)))
    assert not outbox.is_full
    outbox.put(words(1, a=bytes(MAX_WAITING_BYTES - 1)))
    outbox.put(words(1, b"1"))
    assert not outbox.is_full
    outbox.put(words(1, b"2"))
    assert outbox.is_full


@example([(1, [b"p"], {}), (2, [], {"a": b"1"}), (1, [], {"a": b"2"})])
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.lists(st.binary(max_size=9), max_size=3),
            st.dictionaries(st.sampled_from("abc"), st.binary(max_size=9), max_size=3),
        )
    )
)
def test_the_latest_values_and_all_that_passes_come_out(told: list[tuple[int, list[bytes], dict[str, bytes]]]):
    outbox = Outbox(ME)
    latest: dict[str, bytes] = {}
    passed: list[bytes] = []
    for epoch, passing, kept in told:
        outbox.put(words(epoch, *passing, **kept))
        latest |= kept
        passed += passing
    taken = everything(outbox)
    came: dict[str, bytes] = {}
    for said in taken:
        assert said.kept or said.passing
        assert not came.keys() & said.kept.keys(), "a value that was outdated went out"
        came |= said.kept
    assert came == latest
    assert [value for said in taken for value in said.passing] == passed
    assert not outbox.is_full
