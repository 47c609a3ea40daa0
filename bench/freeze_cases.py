"""What ``make trial-freeze`` plays: for each case what happens to the engines, and what must hold for the clients."""

from dataclasses import dataclass
from enum import StrEnum

RESCUE_S = 2.0  # no first token later than this
SEEN_S = 3.0  # after that long nothing is sent to a dead engine any more
AT_ONCE_S = 0.25  # how quickly a request is refused that nobody can serve


class Trouble(StrEnum):
    FREEZE = "freeze"  # the web server lives, tokens stop; thawed later
    KILL = "kill -9"  # started again later
    TERM = "SIGTERM"  # started again later
    SLOW = "slow"  # first tokens take 400 ms


class Rule(StrEnum):
    """What else is asked of a case than that nobody fails."""

    RESCUED = "rescued"  # no first token later than RESCUE_S, nothing sent to the dead after SEEN_S
    SERVED = "served in full"  # as many answers as requests, no first token later than RESCUE_S
    SPARED = "spared"  # as SERVED, and nothing goes to the degraded engine once it is known
    FALLBACK = "falls back"  # within SEEN_S (suspicion alone asks no other pool), at once when known
    REFUSED = "refused at once"  # 503 with Retry-After within AT_ONCE_S once the death is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run. ``victims`` of the pool's two engines are troubled.

    Attributes:
        tokens, itl_ms: how long an answer is: decides how many streams are under way when the trouble begins.
        itl_deadline: of the gateway, as its configuration writes it.
        mid_stream_ends: streams that had a token when the trouble came must end by an error event (True), or may go on
            when it is over (False).
        real: whether real engines can play it too.
    """

    name: str
    trouble: Trouble
    rule: Rule = Rule.RESCUED
    victims: int = 1
    stream: bool = True
    tokens: int = 16
    itl_ms: int = 20
    itl_deadline: str = "30s"
    mid_stream_ends: bool = False
    fallback: bool = False
    real: bool = False

    @property
    def answer_s(self) -> float:
        """How long a whole answer takes where that is what its client waits for: added to what a rescue may take."""
        return 0.0 if self.stream else self.tokens * self.itl_ms / 1000


CASES = (
    Case(name="frozen", trouble=Trouble.FREEZE, real=True),
    Case(name="frozen, without streaming", trouble=Trouble.FREEZE, stream=False, real=True),
    Case(name="kill -9", trouble=Trouble.KILL, real=True),
    Case(name="kill -9, without streaming", trouble=Trouble.KILL, stream=False),
    Case(name="SIGTERM", trouble=Trouble.TERM, real=True),
    Case(name="frozen in mid-stream, thawed in time", trouble=Trouble.FREEZE, tokens=64, itl_ms=40),
    Case(
        name="frozen in mid-stream for too long",
        trouble=Trouble.FREEZE,
        tokens=64,
        itl_ms=40,
        itl_deadline="5s",
        mid_stream_ends=True,
    ),
    Case(name="one degraded, all traffic normal", trouble=Trouble.SLOW, rule=Rule.SPARED),
    Case(name="whole pool degraded", trouble=Trouble.SLOW, rule=Rule.SERVED, victims=2),
    Case(name="whole pool dead, with a fallback", trouble=Trouble.FREEZE, rule=Rule.FALLBACK, victims=2, fallback=True),
    Case(name="whole pool dead, no fallback", trouble=Trouble.FREEZE, rule=Rule.REFUSED, victims=2),
)
