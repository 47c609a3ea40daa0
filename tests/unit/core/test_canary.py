"""Deep answers against what the peers have shown."""

import pytest

from pulsegate.core.canary import MIN_RIGHT, Canary
from pulsegate.core.ids import EndpointId
from pulsegate.core.meaning import Past, complaint
from pulsegate.core.probe import Ending, Phases, ProbeKind, ProbeResult
from pulsegate.core.prompts import DEEP

DAYS, LETTERS, NUMBERS = DEEP[:3]
A, B, C, D = (EndpointId(name) for name in "abcd")


def said(text: str, tokens: int = 4) -> ProbeResult:
    return ProbeResult(
        kind=ProbeKind.DEEP, prompt_id=DAYS.id, phases=Phases(), ending=Ending.COMPLETE, token_seen=True, text=text,
        chunks=tokens, tokens=tokens, finish_reason="length", fault=None, bytes_read=100, reused=False,
    )  # fmt: skip


def right(canary: Canary, endpoint: EndpointId, times: int = 1, prompts=(DAYS, LETTERS, NUMBERS)) -> None:
    for _ in range(times):
        for prompt in prompts:
            assert canary.complaint(endpoint, prompt, said(f" {prompt.expected}")) is None


def test_who_fails_where_two_peers_never_did_is_odd():
    canary = Canary()
    right(canary, B)
    right(canary, C)
    assert canary.complaint(A, DAYS, said(" xyz")) == f"said 'xyz' where its peers go on with {DAYS.expected!r}"


def test_one_peer_does_not_vouch():
    canary = Canary()
    right(canary, B, times=5)
    assert canary.complaint(A, DAYS, said(" xyz")) is None


def test_peers_that_have_hardly_been_asked_do_not_vouch():
    canary = Canary()
    for endpoint in (B, C):
        right(canary, endpoint, prompts=[DAYS])
    assert MIN_RIGHT > 2
    assert canary.complaint(A, DAYS, said(" xyz")) is None


def test_a_series_that_a_peer_does_not_know_either_proves_nothing():
    canary = Canary()
    for endpoint in (B, C):
        right(canary, endpoint, times=3)
    canary.complaint(B, DAYS, said(" abc"))
    assert canary.complaint(A, DAYS, said(" xyz")) is None
    assert canary.complaint(A, LETTERS, said(" xyz")) is not None


def test_one_ill_peer_does_not_shield_another():
    canary = Canary()
    for endpoint in (B, C):
        right(canary, endpoint, times=2)
    canary.complaint(D, DAYS, said(" abc"))
    assert canary.complaint(A, DAYS, said(" xyz")) is not None


def test_a_new_life_has_no_past():
    canary = Canary()
    for endpoint in (B, C):
        right(canary, endpoint, times=2)
    canary.forget(C)
    assert canary.complaint(A, DAYS, said(" xyz")) is None


@pytest.mark.parametrize("prompt", DEEP, ids=[prompt.id for prompt in DEEP])
def test_a_series_that_goes_round_is_not_degenerate(prompt):
    words = prompt.text.split()
    circle = words[: words.index(words[0], 1)]
    first = circle.index(next(word for word in circle if word.casefold() == prompt.expected))
    text = " " + " ".join(circle[(first + n) % len(circle)] for n in range(16))
    assert complaint(said(text, 16), Past(competent=True, varied=True), None, prompt) is None
    assert complaint(said(" G G G G"), Past(competent=True), None, prompt) is not None
