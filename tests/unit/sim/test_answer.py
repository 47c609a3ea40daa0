"""The deterministic model."""

import random
from itertools import islice

import pytest

from pulsegate.sim.answer import Wrong, answer, wrong_answer


def said(prompt: str, count: int = 4, model: str = "m") -> list[str]:
    return list(islice(answer(prompt, model), count))


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ("1, 2, 3,", [" 4", ",", " 5", ","]),
        ("1, 2, 3, ", ["4", ",", " 5", ","]),
        ("1 2 3", [" 4", " 5", " 6", " 7"]),
        ("1, 2, 3", [",", " 4", ",", " 5"]),
        ("nonce 9f3a: 10 20 30", [" 40", " 50", " 60", " 70"]),
        ("9, 8,", [" 7", ",", " 6", ","]),
        ("one two three", [" four", " five", " six", " seven"]),
        ("Monday, Tuesday,", [" Wednesday", ",", " Thursday", ","]),
        ("A B C", [" D", " E", " F", " G"]),
        ("y z", [" a", " b", " c", " d"]),
    ],
)
def test_series_go_on(prompt, tokens):
    assert said(prompt) == tokens


def test_anything_else_is_answered_by_prompt_and_model():
    assert said("Tell me a story", 12) == said("Tell me a story", 12)
    assert said("Tell me a story", 12) != said("Tell me a tale", 12)
    assert said("Tell me a story", 12) != said("Tell me a story", 12, model="n")
    assert all(token.startswith(" ") for token in said("Tell me a story", 12))


def test_unpaired_surrogates_are_answered_too():
    assert len(said("\ud800", 2)) == 2


@pytest.mark.parametrize("kind", Wrong)
def test_damage_repeats_itself_with_the_same_seed(kind):
    first, second = (list(islice(wrong_answer(kind, random.Random(3)), 5)) for _ in range(2))
    assert first == second
