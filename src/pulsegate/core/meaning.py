"""Is an answer sane by itself? Empty, NaN-like and degenerate output is caught here, without peers.

Two kinds of rules. *Absolute*: what no sound model answers to the prompts of the bank. *Against the pool's own past*:
what a sound model may do (a tiny random model repeats itself all day) is a fault only where the pool used to do better.
Comparing endpoints with one another is ``peers.py``.
"""

import re
from dataclasses import dataclass, replace

from pulsegate.core.probe import ProbeKind, ProbeResult
from pulsegate.core.prompts import Prompt, is_expected

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_MIN_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Past:
    """What a pool has shown that it can do.

    ``competent``: it continued a series as it goes on. ``varied``: a deep answer was more than one thing repeated.
    """

    competent: bool = False
    varied: bool = False


def complaint(result: ProbeResult, past: Past, expect: str | None, prompt: Prompt | None = None) -> str | None:
    """What is wrong with the answer, in a few words; None if nothing is. ``expect``: what a right one matches.

    ``prompt`` is what was asked: a series in a circle is a repetition, and rightly so.
    """
    text = result.text
    bare = text.strip()
    if not bare:
        return _empty(result, expect)
    letters = set("".join(bare.split()))
    if letters == {"!"}:
        return f"NaN-like output {bare[:8]!r}"
    if letters == {_REPLACEMENT}:
        return "nothing but replacement characters"
    if expect is not None and re.search(expect, text) is None:
        return f"{bare[:20]!r} does not match the expected pattern"
    if result.kind is ProbeKind.DEEP and (past.competent or past.varied) and is_repetition(text):
        goes_on = prompt is not None and is_expected(prompt, text)
        return None if goes_on else f"degenerate output {bare[:20]!r}"
    return None


def _empty(result: ProbeResult, expect: str | None) -> str | None:
    """Nothing to read. One token can be a control token that parsers swallow; four in a row are not."""
    if result.fault is not None:
        return None  # a refusal that proves life (output limit)
    if result.finish_reason == "stop":
        return "an empty answer"
    if result.kind is ProbeKind.DEEP:
        return "nothing but empty tokens"
    return "an empty answer does not match the expected pattern" if expect is not None and result.text else None


def is_repetition(text: str) -> bool:
    """One unit over and over: ``GGGG``, ``the the the``, ``\u0120\u0120\u0120\u0120``."""
    bare = "".join(text.split())
    for size in range(1, len(bare) // _MIN_REPEATS + 1):
        if len(bare) % size == 0 and bare == bare[:size] * (len(bare) // size):
            return True
    return False


def learn(prompt: Prompt, result: ProbeResult, past: Past) -> Past:
    """What a good answer adds to the past; the same object when it adds nothing."""
    if not past.competent and is_expected(prompt, result.text):
        past = replace(past, competent=True)
    if not past.varied and result.kind is ProbeKind.DEEP and result.text.strip() and not is_repetition(result.text):
        past = replace(past, varied=True)
    return past
