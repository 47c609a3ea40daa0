"""The state machine of one endpoint: what it is in, why, and what moves it.

``record.py`` looks signals up in ``TABLE`` and is the only code that moves a record. Nothing here knows why a signal
was sent: that is ``outcome.py`` (what a probe amounts to) and ``evidence.py`` (busy or dead). What a state means for
routing is ``ejection.py`` and ``weights.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from types import MappingProxyType


class State(StrEnum):
    """What an endpoint is, as far as routing goes."""

    WARMING = "warming"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    MISCONFIGURED = "misconfigured"
    DRAINING = "draining"


class Reason(StrEnum):
    """Why it is in that state."""

    STARTING = "starting"  # warming: no three fast tokens yet
    LOADING = "loading"  # warming: the engine says that it is loading
    SLEEPING = "sleeping"  # warming: put to sleep on purpose
    OK = "ok"
    SLOW = "slow"
    CONGESTED = "congested"
    TIMEOUT = "timeout"
    BUSY = "busy"
    HUNG = "hung"
    CUDA = "cuda"
    ENGINE_DEAD = "engine_dead"
    ERROR = "error"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    TLS = "tls"
    PROTOCOL = "protocol"
    WRONG_OUTPUT = "wrong_output"
    STALLED = "stalled"  # first tokens come, later ones do not
    TRUNCATED = "truncated"  # a token came, and nothing said that the answer was whole
    RECOVERING = "recovering"
    STARTUP_DEADLINE = "startup_deadline"
    AUTH = "auth"
    BILLING = "billing"
    RATE_LIMITED = "rate_limited"  # of a provider's key
    NOT_FOUND = "not_found"
    REJECTED = "rejected"
    OPERATOR = "operator"  # draining
    LOCAL = "local"  # never of a state: our own fault, shown on a probe


class Signal(StrEnum):
    """What can happen to an endpoint, as far as its health goes."""

    FAST = "fast token"
    DEEP = "deep probe passed"
    SLOW = "slow token"
    SLOW_LOADED = "slow token under load"  # slow while users' tokens flow or the engine's counters move
    HELD = "token, meaning open"  # whether its answer is right is not known yet
    TRUNCATED = "truncated token"
    RIGHT = "right answer"  # the meaning of an answer was confirmed, by peers or, without peers, by our own checks
    LATE = "token late"
    TIMEOUT = "timeout"  # no token in time; nothing tells whether the engine makes progress
    TIMEOUT_FLAT = "timeout (counters flat)"  # flat, but not for long enough to call it frozen
    TIMEOUT_FROZEN = "timeout (counters frozen)"
    TIMEOUT_PROGRESS = "timeout (progress seen)"
    STALLED = "stalled"  # counts as a timeout
    FROZEN = "counters frozen"  # the reading that makes it certain, after the timeouts
    OVERDUE = "verdict overdue"  # the counters did not decide in time
    PROGRESS = "counters moved"  # the reading that shows life, after a timeout
    FATAL = "fatal error"
    ERROR = "error"
    BUSY = "busy answer"
    WRONG = "wrong answer"
    REJECTED = "rejected"
    STARTING = "still starting"
    SLEEPING = "asleep"
    EXPIRED = "start-up deadline"
    RESTARTED = "restarted"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    LOCAL = "local fault"


WRONG_LIMIT = 2
"""Wrong answers in a row, to different prompts, that make unhealthy."""


class Count(Enum):
    """What a move does to a counter."""

    KEEP = auto()
    ZERO = auto()
    UP = auto()


class Limit(Enum):
    """Which counter, when full, turns a move into its ``at_limit``."""

    NONE = auto()
    RISE = auto()  # streak reaches ``rise`` and no deep probe is due
    FALL = auto()  # fails reach ``fall``
    WRONG = auto()  # wrong reaches two


class Special(Enum):
    """Moves that are not about counting."""

    NO = auto()
    RESTART = auto()  # a new record, with the reason of the target
    COVER = auto()  # draining begins; the record goes beneath
    BENEATH = auto()  # the signal is for the record beneath
    UNCOVER = auto()  # draining ends; the record beneath comes back


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to. ``state`` None stays. ``reason`` None is the signal's; a present reason in ``hold`` is kept."""

    state: State | None = None
    reason: Reason | None = None
    hold: frozenset[Reason] = frozenset()
    hard: bool = False


STAY = Target()


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One entry of the table."""

    to: Target = STAY
    streak: Count = Count.KEEP
    fails: Count = Count.KEEP
    wrong: Count = Count.KEEP
    limit: Limit = Limit.NONE
    at_limit: Target = STAY
    deep_passed: bool = False
    special: Special = Special.NO


def _to(state: State, reason: Reason | None = None, *, hold: tuple[Reason, ...] = (), hard: bool = False) -> Target:
    return Target(state=state, reason=reason, hold=frozenset(hold), hard=hard)


def _token(to: Target, *, counts: bool, healthy: bool = False, deep: bool = False) -> Move:
    """A token came: failures are forgotten; a fast one counts, a slow one breaks the streak."""
    return Move(
        to=to,
        streak=Count.UP if counts else Count.ZERO,
        fails=Count.ZERO,
        limit=Limit.RISE if healthy else Limit.NONE,
        at_limit=_to(State.HEALTHY, Reason.OK) if healthy else STAY,
        deep_passed=deep,
    )


def _failure(to: Target, at_limit: Target | None) -> Move:
    """No token: counts towards ``fall``; without ``at_limit`` the verdict waits."""
    return Move(
        to=to,
        streak=Count.ZERO,
        fails=Count.UP,
        limit=Limit.NONE if at_limit is None else Limit.FALL,
        at_limit=STAY if at_limit is None else at_limit,
    )


NOTHING = Move()
_BROKEN_STREAK = Move(streak=Count.ZERO)
_RESTART = Move(to=_to(State.WARMING, Reason.STARTING), special=Special.RESTART)
_RESTART_SEEN = Move(to=_to(State.WARMING, Reason.LOADING), special=Special.RESTART)  # it served before: a new life
_COVER = Move(special=Special.COVER)
_BENEATH = Move(special=Special.BENEATH)
_UNCOVER = Move(special=Special.UNCOVER)
_FATAL = Move(to=_to(State.UNHEALTHY, hard=True), streak=Count.ZERO)
_MEANT = Move(wrong=Count.ZERO)
_LOADING = Move(to=_to(State.WARMING, Reason.LOADING), streak=Count.ZERO, fails=Count.ZERO)
_ASLEEP = Move(to=_to(State.WARMING, Reason.SLEEPING), streak=Count.ZERO, fails=Count.ZERO)
_BUSY = Move(to=_to(State.DEGRADED, Reason.BUSY), streak=Count.ZERO, fails=Count.ZERO)
_HUNG = _to(State.UNHEALTHY, Reason.HUNG)
_FROZEN = _to(State.UNHEALTHY, Reason.HUNG, hard=True)
_RECOVERING = _to(State.DEGRADED, Reason.RECOVERING)
_TIMED_OUT = _to(State.DEGRADED, Reason.TIMEOUT)
_SLOW = _token(_to(State.DEGRADED, Reason.SLOW), counts=False)
_SLOW_LOADED = _token(_to(State.DEGRADED, Reason.BUSY), counts=False)
_TRUNCATED = _token(_to(State.DEGRADED, Reason.TRUNCATED), counts=False)
_SERVING: Mapping[Signal, Move] = MappingProxyType(
    {
        Signal.TIMEOUT: _failure(_TIMED_OUT, _HUNG),
        Signal.TIMEOUT_FLAT: _failure(_TIMED_OUT, None),
        Signal.TIMEOUT_FROZEN: _failure(_TIMED_OUT, _FROZEN),
        Signal.TIMEOUT_PROGRESS: _BUSY,
        Signal.STALLED: _failure(_to(State.DEGRADED, Reason.STALLED), _to(State.UNHEALTHY, Reason.STALLED)),
        Signal.FATAL: _FATAL,
        Signal.ERROR: _failure(_to(State.DEGRADED), _to(State.UNHEALTHY)),
        Signal.REJECTED: _failure(_to(State.DEGRADED), _to(State.UNHEALTHY)),
        Signal.BUSY: _BUSY,
        Signal.SLOW: _SLOW,
        Signal.SLOW_LOADED: _SLOW_LOADED,
        Signal.HELD: Move(fails=Count.ZERO),
        Signal.TRUNCATED: _TRUNCATED,
        Signal.RIGHT: _MEANT,
        Signal.WRONG: Move(
            to=_to(State.DEGRADED, Reason.WRONG_OUTPUT),
            streak=Count.ZERO,
            fails=Count.ZERO,
            wrong=Count.UP,
            limit=Limit.WRONG,
            at_limit=_to(State.UNHEALTHY, Reason.WRONG_OUTPUT, hard=True),
        ),
        Signal.STARTING: _RESTART_SEEN,
        Signal.SLEEPING: _ASLEEP,
    }
)

_QUIET: Mapping[Signal, Move] = MappingProxyType(
    dict.fromkeys(Signal, NOTHING) | {Signal.RESTARTED: _RESTART, Signal.DRAIN: _COVER}
)

# How to read the table. Each row is one state, each entry answers one signal with a ``Move``: the state that follows
# and its reason, and what happens to the counters. A move with a ``limit`` counts first: when that counter is full, the
# move goes ``at_limit`` instead.
#
# The ideas behind it:
#
# * A *token* is the only proof of life. Fast ones count up; ``rise`` of them in a row make healthy. After a start or
#   after having been unhealthy one of them must be a deep probe's.
# * *Slow under load* is busy, not slow: it takes part in full, or a loaded pool would push its load around in circles.
#   Who stays slow while most of its peers are fast is told by the signal *slow token*, whatever its load.
# * *Timeouts and errors* count together: the first degrades, ``fall`` of them in a row make unhealthy. A token in
#   between starts the count again, whatever it says, and so does any sign of progress, because busy is not dead.
# * *Fatal errors* need no second opinion. *Wrong answers* need one: two in a row, to different prompts.
# * While *warming* nothing condemns but a fatal error and the start-up deadline. A *rejected* request while warming
#   means that the configuration is wrong; later it is an error like others.
# * *Unhealthy* is left only through a token (by way of degraded) or a new incarnation.
# * *Draining* lies over a state: probes go on judging beneath it, and undrain shows what they found.
# * Our own fault (*local*) moves nothing, anywhere.
#
# The rows are total over ``Signal``: what a row does not name moves nothing (``_QUIET``).
TABLE: Mapping[State, Mapping[Signal, Move]] = MappingProxyType(
    {
        State.WARMING: MappingProxyType(
            {
                **_QUIET,
                Signal.FAST: _token(_to(State.WARMING, Reason.STARTING), counts=True, healthy=True),
                Signal.DEEP: _token(_to(State.WARMING, Reason.STARTING), counts=True, healthy=True, deep=True),
                Signal.SLOW: _SLOW,
                Signal.SLOW_LOADED: _SLOW_LOADED,
                Signal.HELD: _BROKEN_STREAK,
                Signal.TRUNCATED: _TRUNCATED,
                Signal.RIGHT: _MEANT,
                Signal.TIMEOUT: _BROKEN_STREAK,
                Signal.TIMEOUT_FLAT: _BROKEN_STREAK,
                Signal.TIMEOUT_FROZEN: _BROKEN_STREAK,
                # An engine that makes tokens for others is not starting: it is full, as it may well be when
                # Pulsegate itself has just been started in front of a loaded fleet.
                Signal.TIMEOUT_PROGRESS: _BUSY,
                Signal.STALLED: _BROKEN_STREAK,
                Signal.ERROR: _BROKEN_STREAK,
                Signal.BUSY: _BROKEN_STREAK,
                Signal.WRONG: _BROKEN_STREAK,
                Signal.FATAL: _FATAL,
                Signal.REJECTED: Move(to=_to(State.MISCONFIGURED), streak=Count.ZERO),
                Signal.STARTING: _LOADING,
                Signal.SLEEPING: _ASLEEP,
                Signal.EXPIRED: Move(to=_to(State.UNHEALTHY, Reason.STARTUP_DEADLINE, hard=True), streak=Count.ZERO),
            }
        ),
        State.HEALTHY: MappingProxyType(
            {
                **_QUIET,
                **_SERVING,
                Signal.FAST: _token(STAY, counts=True),
                Signal.DEEP: _token(STAY, counts=True, deep=True),
                Signal.LATE: Move(to=_to(State.DEGRADED, Reason.CONGESTED), streak=Count.ZERO),
            }
        ),
        State.DEGRADED: MappingProxyType(
            {
                **_QUIET,
                **_SERVING,
                Signal.FAST: _token(STAY, counts=True, healthy=True),
                Signal.DEEP: _token(STAY, counts=True, healthy=True, deep=True),
                # What was slow without load, or slower than its peers, stays so until three fast tokens say otherwise:
                # the little that it is given must not make it pass for busy.
                Signal.SLOW_LOADED: _token(_to(State.DEGRADED, Reason.BUSY, hold=(Reason.SLOW,)), counts=False),
                # A late token says nothing new here: the reason that it is degraded for says more.
                Signal.LATE: NOTHING,
                Signal.FROZEN: Move(limit=Limit.FALL, at_limit=_FROZEN),
                Signal.OVERDUE: Move(limit=Limit.FALL, at_limit=_HUNG),
                Signal.PROGRESS: _BUSY,
            }
        ),
        State.UNHEALTHY: MappingProxyType(
            {
                **_QUIET,
                Signal.FAST: _token(_RECOVERING, counts=True),
                Signal.DEEP: _token(_RECOVERING, counts=True, deep=True),
                Signal.SLOW: _token(_RECOVERING, counts=False),
                Signal.SLOW_LOADED: _token(_RECOVERING, counts=False),
                Signal.TRUNCATED: _token(_RECOVERING, counts=False),
                Signal.RIGHT: _MEANT,
                # Says more than most reasons that it may have been condemned for, and leaves no doubt.
                Signal.FATAL: Move(to=_to(State.UNHEALTHY, hold=(Reason.CUDA, Reason.ENGINE_DEAD), hard=True)),
                Signal.STARTING: _RESTART_SEEN,
                Signal.SLEEPING: _ASLEEP,
            }
        ),
        State.MISCONFIGURED: MappingProxyType(
            {
                **_QUIET,
                Signal.FAST: _token(_to(State.WARMING, Reason.STARTING), counts=True),
                Signal.DEEP: _token(_to(State.WARMING, Reason.STARTING), counts=True, deep=True),
                Signal.SLOW: _SLOW,
                Signal.SLOW_LOADED: _SLOW_LOADED,
                Signal.TRUNCATED: _TRUNCATED,
                Signal.RIGHT: _MEANT,
                Signal.FATAL: _FATAL,
                Signal.REJECTED: Move(to=_to(State.MISCONFIGURED)),
                Signal.STARTING: _LOADING,
                Signal.SLEEPING: _ASLEEP,
            }
        ),
        State.DRAINING: MappingProxyType(
            dict.fromkeys(Signal, _BENEATH) | {Signal.DRAIN: NOTHING, Signal.UNDRAIN: _UNCOVER, Signal.LOCAL: NOTHING}
        ),
    }
)
