"""What the next probe of an endpoint asks, and by when it must be answered."""

from pulsegate.core.canary import Canary
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import PoolName, PromptId
from pulsegate.core.meaning import Past
from pulsegate.core.peers import Peers
from pulsegate.core.probe import ProbeAsk, ProbeKind
from pulsegate.core.prompts import DEEP, MICRO, Prompt, nonce, spoken
from pulsegate.core.watched import Doubt, Watched

FEWEST_PROMPTS = 4
"""Prompts are dropped down to this many: with fewer, two in a row would be the same."""

SUSPICIOUS_READ_S = 0.25
"""How often counters are read while a failure waits for its confirmation."""

_STRIDE = 5  # to the prompt of the next attempt in the same turn: another one than that of the next turn
_DEEP_TOKENS = 4
_DEEP_PATIENCE = 1.25  # times the timeout: a longer prompt takes longer, and detection may not take much longer


class Conversation:
    """What one pool is asked: its prompts, turn by turn, and what it has said so far."""

    def __init__(self, pool: PoolName, seed: int) -> None:
        self._pool = pool
        self._seed = seed
        self._micro: tuple[Prompt, ...] = MICRO
        self._nonce: tuple[tuple[int, int], str] = ((-1, -1), "")
        self.peers = Peers()
        self.canary = Canary()
        self.past = Past()

    def micro_prompt(self, turn: tuple[int, int]) -> Prompt:
        """The same for all endpoints of the pool in one turn; another one in the next turn and the next attempt."""
        number, attempt = turn
        return self._micro[(number + _STRIDE * attempt) % len(self._micro)]

    def deep_prompt(self, watched: Watched) -> Prompt:
        """Each in its turn, so that in time every endpoint has answered all; in doubt, one that the peers know."""
        if watched.doubt is Doubt.DEEP:
            wrong = watched.record.judged.wrong_prompt
            known = self.canary.known_to_peers(watched.id, (prompt for prompt in DEEP if prompt.id != wrong))
            if known:
                return known[watched.deep_asked % len(known)]
        return DEEP[watched.deep_asked % len(DEEP)]

    def nonce(self, turn: tuple[int, int]) -> str:
        """The same for all endpoints of the pool in one turn; made once, for most ask in the same turn."""
        if self._nonce[0] != turn:
            self._nonce = (turn, nonce(self._seed, self._pool, *turn))
        return self._nonce[1]

    def is_droppable(self, prompt: PromptId) -> bool:
        """Whether the bank can do without it."""
        return len(self._micro) > FEWEST_PROMPTS and any(one.id == prompt for one in self._micro)

    def drop(self, prompt: PromptId) -> None:
        """Never ask this again."""
        self._micro = tuple(one for one in self._micro if one.id != prompt)


def next_turn(watched: Watched, at: float) -> tuple[int, int]:
    """(turn, attempt): a turn is one interval of the absolute grid; a second probe in it is the second attempt."""
    number = int(at // watched.policy.interval_s)
    last, attempt = watched.turn
    return (number, attempt + 1) if number == last else (number, 0)


def make_ask(watched: Watched, prompt: Prompt, nonce_text: str) -> ProbeAsk:
    """The probe to take of this endpoint."""
    kind = watched.next_kind
    deep = kind is ProbeKind.DEEP
    deadline_s = _deep_deadline_s(watched) if deep else watched.limits.timeout_s
    return ProbeAsk(
        kind=kind,
        prompt_id=prompt.id,
        prompt=spoken(prompt, nonce_text),
        nonce=nonce_text,
        max_tokens=_DEEP_TOKENS if deep else 1,
        deadline_s=deadline_s,
        end_deadline_s=max(deadline_s, watched.policy.deep_timeout_s) if deep else None,
    )


def _deep_deadline_s(watched: Watched) -> float:
    """By when the first token of a deep probe must be there.

    Before an endpoint is (again) healthy nobody waits for it, so there is time; and as long as it is not known how long
    it needs for a long prompt, nobody can say that it is late. In service a freeze must be found as fast as by the
    other probes, unless the endpoint is known to need longer for a long prompt.
    """
    record = watched.record.judged
    patient_s = max(watched.policy.deep_timeout_s, watched.limits.timeout_s)
    if record.state in (State.WARMING, State.UNHEALTHY) or (record.reason is Reason.RECOVERING and record.fails == 0):
        return patient_s
    if watched.deep_ttft_s is None:
        return patient_s
    quick_s = _DEEP_PATIENCE * watched.limits.timeout_s
    return min(patient_s, max(quick_s, 2 * watched.deep_ttft_s))


def reads_from_start(watched: Watched) -> float | None:
    """How often to read counters from the start of the probe on: only where a failure waits for confirmation."""
    record = watched.record.judged
    return SUSPICIOUS_READ_S if record.state is State.DEGRADED and record.fails > 0 else None
