"""Answers to deep probes against what the peers have shown: who fails at series that the others go on with?

Deep probes of a pool are spread over time, so there is no turn in which all answers could be compared. But the series
that they ask for have one right continuation, and a model that knows it says so every time. An endpoint that goes wrong
where none of its peers ever has is odd; a series that the model does not know proves nothing, because the peers fail at
it, too. ``health.py`` wants two such answers, to different prompts, so who is in doubt is asked what its peers know.
"""

from collections.abc import Iterable

from pulsegate.core.ids import EndpointId, PromptId
from pulsegate.core.probe import ProbeResult
from pulsegate.core.prompts import Prompt, is_expected

MIN_VOUCHERS = 2
"""With one peer nobody knows which of the two is wrong."""

MIN_RIGHT = 6
"""Right answers of those peers, to any prompt, before they vouch: a weak model would have failed by then."""


class Canary:
    """What each endpoint of one pool made of each deep prompt."""

    __slots__ = ("_failed", "_right")

    def __init__(self) -> None:
        self._right: dict[EndpointId, dict[PromptId, int]] = {}
        self._failed: dict[EndpointId, set[PromptId]] = {}

    def forget(self, endpoint: EndpointId) -> None:
        """A new incarnation, or gone: what it said before is nobody's answer."""
        self._right.pop(endpoint, None)
        self._failed.pop(endpoint, None)

    def complaint(self, endpoint: EndpointId, prompt: Prompt, result: ProbeResult) -> str | None:
        """Take in one answer; what is odd about it in a few words, None if nothing is."""
        if result.fault is not None:
            return None  # a refusal that proves life is no answer
        if is_expected(prompt, result.text):
            right = self._right.setdefault(endpoint, {})
            right[prompt.id] = right.get(prompt.id, 0) + 1
            return None
        self._failed.setdefault(endpoint, set()).add(prompt.id)
        if not self._vouched(endpoint, prompt.id):
            return None
        return f"said {result.text.strip()[:20]!r} where its peers go on with {prompt.expected!r}"

    def known_to_peers(self, endpoint: EndpointId, prompts: Iterable[Prompt]) -> tuple[Prompt, ...]:
        """Those of ``prompts`` at which a failure of ``endpoint`` would be odd."""
        return tuple(prompt for prompt in prompts if self._vouched(endpoint, prompt.id))

    def _vouched(self, endpoint: EndpointId, prompt: PromptId) -> bool:
        """Whether most others, and enough of them, have always been right about this prompt, and often in general."""
        asked = {one for one, right in self._right.items() if prompt in right}
        asked |= {one for one, failed in self._failed.items() if prompt in failed}
        asked.discard(endpoint)
        clean = [one for one in asked if prompt not in self._failed.get(one, ())]
        right = sum(sum(self._right[one].values()) for one in clean)
        return len(clean) >= MIN_VOUCHERS and 2 * len(clean) > len(asked) and right >= MIN_RIGHT
