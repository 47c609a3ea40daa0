"""What one attempt is booked with: what the upstream reported, else an estimate of what is known, else nothing.

A number that cannot be true (negative, absurdly large, zeros where tokens were seen) counts as not reported: money is
not booked on the word of a broken counter, and not lost to it either.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from pulsegate.core.money import Tokens

MAX_TOKENS: Final = 100_000_000
"""More than any model takes or gives in one call."""

BYTES_PER_TOKEN: Final = 4
"""Of English text and of JSON around it; Chinese comes to about the same (3 bytes a character)."""

UPPER_BYTES_PER_TOKEN: Final = 2
"""So dense are code, numbers and rare languages; what is reserved must not be less than what is used."""

UPPER_PROMPT_TOKENS: Final = 1_000_000
"""No prompt is reserved above the largest context window: a body with pictures is large and has few tokens."""

UPPER_COMPLETION_TOKENS: Final = 8192
"""What is reserved for a request that sets no limit of its own."""


class UsageKind(StrEnum):
    """Where the numbers of tokens come from."""

    REPORTED = "reported"
    ESTIMATED = "estimated"
    MISSING = "missing"


class Told(NamedTuple):
    """Usage as the upstream reported it, unchecked; None where it said nothing."""

    prompt: int | None
    completion: int | None
    cached: int | None = None


class Seen(NamedTuple):
    """What we know of an attempt ourselves.

    Attributes:
        body_bytes: of the request.
        events: parts of the answer that carried tokens and were relayed, which is about as many tokens.
        answer_bytes: of an answer without streaming.
        whole: the answer came to its proper end; False when the client left, or the upstream broke off.
        refused: the upstream answered with an error before any token: it did no work.
    """

    body_bytes: int
    events: int = 0
    answer_bytes: int = 0
    whole: bool = True
    refused: bool = False


class Booked(NamedTuple):
    """The tokens of one attempt, and where they come from."""

    usage: UsageKind
    tokens: Tokens


NOTHING_USED: Final = Booked(usage=UsageKind.MISSING, tokens=Tokens(prompt=0))
"""Of an attempt that was refused: nothing is owed for it."""


def book(told: Told | None, seen: Seen) -> Booked:
    """What to write into the ledger."""
    believed = None if told is None else _believed(told, seen)
    if believed is not None and seen.whole:
        return Booked(usage=UsageKind.REPORTED, tokens=believed)
    if seen.refused:
        return NOTHING_USED
    completion = min(max(seen.events, seen.answer_bytes // BYTES_PER_TOKEN), MAX_TOKENS)
    if believed is not None:  # told on the way, in each event: the last one that we saw may not be the last one
        tokens = Tokens(prompt=believed.prompt, cached=believed.cached, completion=max(believed.completion, completion))
        return Booked(usage=UsageKind.ESTIMATED, tokens=tokens)
    prompt = min(-(-seen.body_bytes // BYTES_PER_TOKEN), MAX_TOKENS)
    return Booked(usage=UsageKind.ESTIMATED, tokens=Tokens(prompt=prompt, completion=completion))


def _believed(told: Told, seen: Seen) -> Tokens | None:
    prompt, completion, cached = told.prompt, told.completion, told.cached or 0
    if prompt is None and completion is None:
        return None
    prompt, completion = prompt or 0, completion or 0
    if not (0 <= prompt <= MAX_TOKENS and 0 <= completion <= MAX_TOKENS):
        return None
    if prompt + completion == 0 or (completion == 0 and seen.events > 1):
        return None
    return Tokens(prompt=prompt, cached=min(max(cached, 0), prompt), completion=completion)


def upper_estimate(body_bytes: int, max_tokens: int | None, choices: int = 1) -> Tokens:
    """What a request that is about to be sent may use at most: this much is reserved for it.

    Args:
        body_bytes: of the request.
        max_tokens: its own limit, None if it sets none.
        choices: how many answers it asks for (``n``).
    """
    prompt = min(body_bytes // UPPER_BYTES_PER_TOKEN + 1, UPPER_PROMPT_TOKENS)
    limit = UPPER_COMPLETION_TOKENS if max_tokens is None or max_tokens < 0 else min(max_tokens, MAX_TOKENS)
    return Tokens(prompt=prompt, completion=limit * max(1, min(choices, 128)))
