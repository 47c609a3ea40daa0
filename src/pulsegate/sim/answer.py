"""What the simulated model says: a pure function of prompt and model name, so that two sound engines agree.

Sequences that a small real model continues rightly (numbers, letters, number words, weekdays, months) are continued;
any other prompt gets words chosen by a hash. A damaged engine says something else: see :class:`Wrong`.
"""

import random
import re
import zlib
from collections.abc import Iterator
from enum import StrEnum
from itertools import count, repeat

_COMMON_WORDS = (
    "the of and to in is that it was for on are as with his they at be this from have or by one had not but what all "
    "were when we there can an your which their said if do will each about how up out them then she many some so these"
)
_WORDS = tuple(_COMMON_WORDS.split())
_SERIES = tuple(
    tuple(line.split())
    for line in (
        "one two three four five six seven eight nine ten eleven twelve",
        "monday tuesday wednesday thursday friday saturday sunday",
        "january february march april may june july august september october november december",
        "first second third fourth fifth sixth seventh eighth ninth tenth",
        "uno dos tres cuatro cinco seis siete ocho nueve diez",
        "eins zwei drei vier fünf sechs sieben acht neun zehn",
        "un deux trois quatre cinq six sept huit neuf dix",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu",
        "mercury venus earth mars jupiter saturn uranus neptune",
        "north south east west",
        "spring summer autumn winter",
        "red orange yellow green blue indigo violet",
        "a b c d e f g h i j k l m n o p q r s t u v w x y z",
    )
)
_NUMBERS = re.compile(r"(?<![\w.])(\d{1,9})(\W+)(\d{1,9})(\W*)$")
_NAMES = re.compile(r"(?<!\w)([A-Za-z]+)(\W+)([A-Za-z]+)(\W*)$")


class Wrong(StrEnum):
    """How a damaged engine answers: HTTP perfect, meaning gone."""

    BANG = "bang"  # logits are NaN: token 0, "!"
    RUN = "run"  # one letter for ever, "G"
    EMPTY = "empty"  # tokens are counted, their text is empty
    GARBAGE = "garbage"  # random characters of many scripts


def answer(prompt: str, model: str) -> Iterator[str]:
    """The tokens of a sound engine, without end."""
    return _numbers(prompt) or _names(prompt) or _words(prompt, model)


def wrong_answer(kind: Wrong, rng: random.Random) -> Iterator[str]:
    """The tokens of a damaged engine, without end."""
    match kind:
        case Wrong.BANG:
            return repeat("!")
        case Wrong.RUN:
            return repeat("G")
        case Wrong.EMPTY:
            return repeat("")
        case Wrong.GARBAGE:
            return _garbage(rng)


def _numbers(prompt: str) -> Iterator[str] | None:
    """``2, 4, 6,`` goes on with `` 8``."""
    found = _NUMBERS.search(prompt)
    if found is None:
        return None
    first, gap, second, rest = found.groups()
    step = int(second) - int(first)
    return _spaced((str(n) for n in count(int(second) + step, step)), gap, rest)


def _names(prompt: str) -> Iterator[str] | None:
    """``Monday, Tuesday,`` goes on with `` Wednesday``."""
    found = _NAMES.search(prompt)
    if found is None:
        return None
    first, gap, second, rest = found.groups()
    for series in _SERIES:
        if first.lower() not in series or second.lower() not in series:
            continue
        start, step = series.index(second.lower()), series.index(second.lower()) - series.index(first.lower())
        names = (series[(start + step * k) % len(series)] for k in count(1))
        return _spaced((_like(second, name) for name in names), gap, rest)
    return None


def _like(sample: str, name: str) -> str:
    if sample.isupper():
        return name.upper()
    return name.capitalize() if sample[0].isupper() else name


def _spaced(items: Iterator[str], gap: str, rest: str) -> Iterator[str]:
    """The items with what stands between them; punctuation is a token of its own, white space joins the next."""
    mark, space = gap.rstrip(), gap[len(gap.rstrip()) :]
    if not rest and mark:
        yield mark
    yield next(items) if rest and rest[-1:].isspace() else space + next(items)
    for item in items:
        if mark:
            yield mark
        yield space + item


def _words(prompt: str, model: str) -> Iterator[str]:
    seed = zlib.crc32(prompt.encode("utf-8", "surrogatepass"), zlib.crc32(model.encode()))
    while True:
        seed = (seed * 1_103_515_245 + 12_345) & 0x7FFFFFFF
        yield " " + _WORDS[(seed >> 8) % len(_WORDS)]


def _garbage(rng: random.Random) -> Iterator[str]:
    while True:
        yield "".join(chr(rng.choice((0x0120, 0x0416, 0x4E00, 0x05D0, 0x0E01)) + rng.randrange(40)) for _ in range(3))
