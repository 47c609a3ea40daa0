import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.booking import NOTHING_USED, Booked, Seen, Told, UsageKind, book, upper_estimate
from pulsegate.core.money import Tokens

SEEN = Seen(body_bytes=400, events=30)
ESTIMATE = Booked(usage=UsageKind.ESTIMATED, tokens=Tokens(prompt=100, completion=30))


def test_what_is_reported_is_booked():
    told = Told(prompt=120, completion=33, cached=64)
    assert book(told, SEEN) == Booked(usage=UsageKind.REPORTED, tokens=Tokens(prompt=120, cached=64, completion=33))


def test_more_tokens_than_were_asked_for_are_believed():
    """Reasoning models think at length about a question that wants one token, and charge for it."""
    told = Told(prompt=7, completion=977)
    assert book(told, Seen(body_bytes=60, events=1)).tokens == Tokens(prompt=7, completion=977)


@pytest.mark.parametrize(
    "told",
    [
        None,
        Told(prompt=None, completion=None),
        Told(prompt=0, completion=0),
        Told(prompt=-5, completion=30),
        Told(prompt=5, completion=-30),
        Told(prompt=10**12, completion=1),
        Told(prompt=100, completion=0),
    ],
)
def test_numbers_that_cannot_be_true_are_not_believed(told):
    assert book(told, SEEN) == ESTIMATE


def test_no_more_tokens_come_from_the_cache_than_there_are():
    assert book(Told(prompt=10, completion=5, cached=99), SEEN).tokens == Tokens(prompt=10, cached=10, completion=5)
    assert book(Told(prompt=10, completion=5, cached=-1), SEEN).tokens == Tokens(prompt=10, cached=0, completion=5)


def test_a_client_that_leaves_is_booked_with_what_it_saw():
    left = Seen(body_bytes=400, events=7, whole=False)
    assert book(None, left) == Booked(usage=UsageKind.ESTIMATED, tokens=Tokens(prompt=100, completion=7))


def test_usage_told_on_the_way_counts_for_a_client_that_leaves_but_is_an_estimate():
    left = Seen(body_bytes=400, events=7, whole=False)
    booked = book(Told(prompt=88, completion=4), left)
    assert booked == Booked(usage=UsageKind.ESTIMATED, tokens=Tokens(prompt=88, completion=7))


def test_an_answer_without_streaming_is_estimated_by_its_size():
    assert book(None, Seen(body_bytes=8, answer_bytes=400)).tokens == Tokens(prompt=2, completion=100)


def test_an_attempt_that_was_refused_used_nothing():
    assert book(None, Seen(body_bytes=400, refused=True)) == NOTHING_USED


def test_an_embedding_has_no_completion():
    assert book(Told(prompt=8, completion=0), Seen(body_bytes=40, answer_bytes=9000)).tokens == Tokens(prompt=8)


@given(
    st.one_of(st.none(), st.builds(Told, prompt=st.integers(), completion=st.integers(), cached=st.integers())),
    st.builds(Seen, body_bytes=st.integers(0, 10**8), events=st.integers(0, 10**6), whole=st.booleans()),
)
def test_no_number_that_is_booked_is_absurd(told, seen):
    tokens = book(told, seen).tokens
    assert tokens is not None
    assert 0 <= tokens.cached <= tokens.prompt <= 10**8
    assert 0 <= tokens.completion <= 10**8


def test_what_is_reserved_is_what_may_be_used_at_most():
    assert upper_estimate(1000, 200) == Tokens(prompt=501, completion=200)
    assert upper_estimate(1000, None).completion == 8192
    assert upper_estimate(1000, 200, choices=3).completion == 600
    assert upper_estimate(10**8, 1).prompt == 1_000_000
