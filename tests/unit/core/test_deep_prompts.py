import pytest

from pulsegate.core.prompts import DEEP


@pytest.mark.parametrize("prompt", DEEP, ids=lambda prompt: prompt.id)
def test_long_enough_for_any_tokenizer_and_no_longer(prompt):
    words = prompt.text.split()
    assert 64 <= len(words) <= 80
    assert all(word.isalpha() for word in words), "tokenizers that cut numbers into digits triple its cost"


def test_each_goes_on_differently_so_that_answers_can_be_told_apart():
    assert len({prompt.expected for prompt in DEEP}) == len(DEEP)
