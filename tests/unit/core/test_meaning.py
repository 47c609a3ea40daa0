"""What is asked, and what is wrong with an answer even without peers."""

from dataclasses import replace

import pytest

from pulsegate.core.ids import PoolName
from pulsegate.core.meaning import Past, complaint, is_repetition, learn
from pulsegate.core.probe import Ending, Fault, FaultClass, Phases, ProbeKind, ProbeResult
from pulsegate.core.prompts import DEEP, MICRO, bank, is_expected, nonce, spoken

NEVER: Past = Past()
GOOD = Past(competent=True, varied=True)


def said(text: str, *, deep: bool = False, finish: str | None = "length", fault: Fault | None = None) -> ProbeResult:
    return ProbeResult(
        kind=ProbeKind.DEEP if deep else ProbeKind.MICRO,
        prompt_id=MICRO[0].id,
        phases=Phases(first_token_s=0.02, end_s=0.03),
        ending=Ending.COMPLETE,
        token_seen=True,
        text=text,
        chunks=1,
        tokens=1,
        finish_reason=finish,
        fault=fault,
        bytes_read=100,
        reused=False,
    )


@pytest.mark.parametrize(
    "result",
    [
        said(" four"),
        said(""),  # one token can be a control token that a parser swallows
        said("", fault=Fault(kind=FaultClass.OUTPUT_LIMIT, detail="max_tokens was reached"), finish=None),
        said("Hello!"),
        said("a\ufffd"),
        said(" 1 2 3 4", deep=True),
        said("GGGG"),
    ],
)
def test_nothing_wrong(result: ProbeResult) -> None:
    assert complaint(result, GOOD, None) is None


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (said("!"), "NaN-like output '!'"),
        (said("!!!!", deep=True), "NaN-like output '!!!!'"),
        (said(" ! !", deep=True), "NaN-like output '! !'"),
        (said("\ufffd\ufffd"), "nothing but replacement characters"),
        (said("", finish="stop"), "an empty answer"),
        (said("", deep=True), "nothing but empty tokens"),
        (said(" \n", deep=True), "nothing but empty tokens"),
    ],
)
def test_wrong_whatever_the_past(result: ProbeResult, says: str) -> None:
    assert complaint(result, NEVER, None) == says


@pytest.mark.parametrize("text", ["GGGG", "\u0120\u0120\u0120\u0120", "the the the the", "ababab"])
def test_repetition_is_wrong_only_where_the_pool_used_to_do_better(text: str) -> None:
    assert complaint(said(text, deep=True), NEVER, None) is None
    assert complaint(said(text, deep=True), Past(competent=True), None) == f"degenerate output {text!r}"
    assert complaint(said(text, deep=True), Past(varied=True), None) is not None


def test_repetitions() -> None:
    assert [is_repetition(text) for text in ("aaa", "aa", "", "abcabcabc", " 65 66 67", "no no no yes")] == [
        True,
        False,
        False,
        True,
        False,
        False,
    ]


def test_an_expected_pattern() -> None:
    assert complaint(said(" four"), NEVER, r"(?i)^\s*four") is None
    assert complaint(said(" five"), NEVER, r"(?i)^\s*four") == "'five' does not match the expected pattern"


def test_a_pool_learns_what_it_can_do() -> None:
    one_two_three = MICRO[0]
    assert learn(one_two_three, said(" Four"), NEVER) == Past(competent=True)
    assert learn(one_two_three, said(" fo"), NEVER) == Past(competent=True)
    assert learn(one_two_three, said(" purple"), NEVER) is NEVER
    assert learn(DEEP[0], said("x y z w", deep=True), NEVER) == Past(varied=True)
    assert learn(DEEP[0], said("GGGG", deep=True), NEVER) is NEVER
    assert learn(one_two_three, said(" four"), GOOD) is GOOD


def test_the_bank() -> None:
    for kind in ProbeKind:
        prompts = bank(kind)
        assert len({prompt.id for prompt in prompts}) == len(prompts)
        assert all(is_expected(prompt, prompt.expected) and "!" not in prompt.expected for prompt in prompts)
    assert all(2 <= len(prompt.text.split()) <= 3 for prompt in MICRO)


def test_a_nonce_is_the_same_for_a_pool_in_a_turn_and_never_again() -> None:
    pool = PoolName("m")
    assert nonce(1, pool, 5, 0) == nonce(1, pool, 5, 0)
    nonces = {nonce(seed, PoolName(name), turn, try_) for seed in (1, 2) for name in "ab" for turn in range(500)
              for try_ in range(2)}  # fmt: skip
    assert len(nonces) == 4000
    assert all(len(one) == 7 and one.isalnum() for one in nonces)


def test_the_nonce_comes_first_because_caches_work_by_prefix() -> None:
    assert spoken(replace(MICRO[0], text="one two three"), "abc1234") == "abc1234\none two three"
