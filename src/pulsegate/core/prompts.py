"""What probes ask: a bank of prompts with one obvious continuation, and a nonce so that no cache can answer.

The prompts are short series: even a small base model continues them in one way, raw completion or chat, and never with
``!``, which is what an engine whose logits are NaN says. What they should be continued with is only used to learn that
a model *can* do it (``meaning.py``), never to condemn one that cannot.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import cycle, islice

from pulsegate.core.ids import PoolName, PromptId
from pulsegate.core.probe import ProbeKind

_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_NONCE_LENGTH = 7
_DEEP_WORDS = 72  # at least one token each, whatever the tokenizer: more than 64


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the bank; ``expected`` is how it goes on, in lower case."""

    id: PromptId
    text: str
    expected: str


def _series(*words: str) -> Prompt:
    *shown, expected = words
    return Prompt(PromptId("-".join(words).lower()), " ".join(shown), expected.lower())


MICRO: tuple[Prompt, ...] = (
    _series("one", "two", "three", "four"),
    _series("A", "B", "C", "D"),
    _series("Monday", "Tuesday", "Wednesday"),
    _series("alpha", "beta", "gamma"),
    _series("January", "February", "March"),
    _series("north", "south", "east", "west"),
    _series("first", "second", "third"),
    _series("uno", "dos", "tres"),
    _series("Mercury", "Venus", "Earth"),
    _series("X", "Y", "Z"),
    _series("five", "six", "seven", "eight"),
    _series("Thursday", "Friday", "Saturday"),
    _series("eins", "zwei", "drei"),
    _series("un", "deux", "trois"),
    _series("spring", "summer", "autumn", "winter"),
    _series("June", "July", "August"),
)


def _round(name: str, words: str, skip: int) -> Prompt:
    """Words in a circle, beginning with the ``skip``-th, long enough for a deep probe."""
    circle: Iterator[str] = islice(cycle(words.split()), skip, None)
    shown = " ".join(islice(circle, _DEEP_WORDS))
    return Prompt(PromptId(name), shown, next(circle).lower())


# Words only: many tokenizers cut numbers into digits, which makes a count three times as long, and a probe that keeps a
# small engine computing for seconds is no small probe.
DEEP: tuple[Prompt, ...] = (
    _round("days", "Monday Tuesday Wednesday Thursday Friday Saturday Sunday", 0),
    _round("letters", "a b c d e f g h i j", 0),
    _round("numbers", "one two three four five six seven eight nine ten", 0),
    _round("months", "January February March April May June July August September October November December", 0),
    _round("seasons", "spring summer autumn winter", 0),
    _round("colours", "red orange yellow green blue", 0),
)


def bank(kind: ProbeKind) -> tuple[Prompt, ...]:
    """All prompts for one kind of probe."""
    return MICRO if kind is ProbeKind.MICRO else DEEP


def nonce(seed: int, pool: PoolName, turn: int, attempt: int) -> str:
    """The same for every endpoint of a pool in one turn, and never again."""
    digest = blake2b(f"{seed}/{pool}/{turn}/{attempt}".encode(), digest_size=_NONCE_LENGTH).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest)


def spoken(prompt: Prompt, nonce_text: str) -> str:
    """The whole text: the nonce comes first, because caches work by prefix."""
    return f"{nonce_text}\n{prompt.text}"


def is_expected(prompt: Prompt, answer: str) -> bool:
    """Whether an answer goes on as the series does. One token may be a part of the word."""
    said = answer.strip().casefold()
    return bool(said) and (prompt.expected.startswith(said) or said.startswith(prompt.expected))
