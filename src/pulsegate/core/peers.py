"""Endpoints of one pool answer the same prompt in the same turn: who says something else than the others?

Greedy first tokens of one model are equal, except at near-ties, where the numerics of a batch decide. So one different
answer proves nothing: an endpoint must differ from a strict majority of at least three in two turns with different
prompts (``health.py`` counts). And prompts on which sound endpoints disagree are found by asking and dropped.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsegate.core.ids import EndpointId, PromptId

MIN_ANSWERS = 3
KEPT_TURNS = 2
"""A turn is closed when answers two turns later come in: nobody is late by then."""


class Compared(NamedTuple):
    """One answer against the majority. ``right`` None: there was no majority to compare with."""

    endpoint: EndpointId
    prompt: PromptId
    right: bool | None
    detail: str = ""


@dataclass(slots=True)
class _Turn:
    prompt: PromptId
    answers: dict[EndpointId, str] = field(default_factory=dict[EndpointId, str])
    counts: Counter[str] = field(default_factory=Counter[str])
    majority: str | None = None


class Peers:
    """The answers of one pool in its last turns, and which prompts are no good for it."""

    __slots__ = ("_odd", "_splits", "_turns", "_waiting_single")

    def __init__(self) -> None:
        self._turns: dict[tuple[int, int], _Turn] = {}
        self._waiting_single: dict[EndpointId, PromptId] = {}  # differed once, not known yet if again
        self._odd: dict[PromptId, list[EndpointId]] = {}  # who differed there and nowhere else
        self._splits: Counter[PromptId] = Counter()

    def forget(self, endpoint: EndpointId) -> None:
        """A new incarnation: what it said before is nobody's answer."""
        self._waiting_single.pop(endpoint, None)
        for turn in self._turns.values():
            said = turn.answers.pop(endpoint, None)
            if said is not None:
                turn.counts[said] -= 1

    def answered(
        self, endpoint: EndpointId, key: tuple[int, int], prompt: PromptId, answer: str, expected_answers: int
    ) -> list[Compared]:
        """Take in one answer; ``key`` is (turn, attempt); what became known about anyone.

        ``expected_answers`` is how many endpoints could answer at most: a majority of those is a majority early.
        """
        compared = self._close_before(key[0] - KEPT_TURNS + 1)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn(prompt)
        if endpoint in turn.answers or turn.prompt != prompt:
            return compared
        said = answer.strip().casefold()
        turn.answers[endpoint] = said
        turn.counts[said] += 1
        if turn.majority is not None:
            compared.append(self._compare(turn, endpoint))
            return compared
        if len(turn.answers) >= MIN_ANSWERS and 2 * turn.counts[said] > expected_answers:
            compared.extend(self._decide(turn, said))
        elif len(turn.answers) >= expected_answers >= MIN_ANSWERS:
            compared.extend(self._close(turn))
            del self._turns[key]
        return compared

    def _close_before(self, first_kept: int) -> list[Compared]:
        compared: list[Compared] = []
        for key in [key for key in self._turns if key[0] < first_kept]:
            turn = self._turns.pop(key)
            if turn.majority is None:
                compared.extend(self._close(turn))
        return compared

    def _close(self, turn: _Turn) -> list[Compared]:
        """All answers that will come are there."""
        total = len(turn.answers)
        if total >= MIN_ANSWERS:
            said, count = turn.counts.most_common(1)[0]
            if 2 * count > total:
                return self._decide(turn, said)
            self._splits[turn.prompt] += 1
        return [Compared(endpoint, turn.prompt, None) for endpoint in turn.answers]

    def _decide(self, turn: _Turn, majority: str) -> list[Compared]:
        turn.majority = majority
        return [self._compare(turn, endpoint) for endpoint in turn.answers]

    def _compare(self, turn: _Turn, endpoint: EndpointId) -> Compared:
        said = turn.answers[endpoint]
        if said == turn.majority:
            single = self._waiting_single.get(endpoint)
            if single is not None and single != turn.prompt:
                del self._waiting_single[endpoint]
                self._odd.setdefault(single, []).append(endpoint)
            return Compared(endpoint, turn.prompt, right=True)
        if endpoint not in self._waiting_single:
            self._waiting_single[endpoint] = turn.prompt
        detail = f"said {said[:20]!r} where its peers say {(turn.majority or '')[:20]!r}"
        return Compared(endpoint, turn.prompt, right=False, detail=detail)

    def near_ties(self, droppable: Callable[[PromptId], bool]) -> list[PromptId]:
        """Prompts on which sound endpoints disagreed twice; each is told once."""
        if not self._odd and not self._splits:
            return []
        found = [prompt for prompt, who in self._odd.items() if len(who) >= 2 and droppable(prompt)]  # noqa: PLR2004
        found += [prompt for prompt, times in self._splits.items() if times >= 2 and droppable(prompt)]  # noqa: PLR2004
        for prompt in found:
            self._odd.pop(prompt, None)
            self._splits.pop(prompt, None)
        return found
