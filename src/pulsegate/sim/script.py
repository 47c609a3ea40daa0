"""The script language as values: what an engine does instead of being well. ``grammar.py`` reads it.

A script is a list of rules. The first rule whose conditions all hold plays its steps; a request that no rule
wants is answered as a sound engine would. When the steps are through and nothing was answered, so is that request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pulsegate.sim.answer import Wrong


class Group(StrEnum):
    """Paths by what they are for."""

    GEN = "gen"
    HEALTH = "health"
    MODELS = "models"
    METRICS = "metrics"
    ANY = "any"
    CONNECT = "connect"  # a connection was accepted, nothing has been read yet; only where an engine has its own port
    ABORT = "abort"  # a client left before its answer was whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The conditions of a rule; what is None is not asked. Counts are of requests that meet all other conditions.

    ``nth_from``, ``nth_to``, ``every``: which of them, counted from 1. ``after_s``, ``until_s``: seconds since the
    script was set or the engine started, whichever is later. ``longer_than``: characters of prompt.
    """

    groups: tuple[Group, ...] = ()
    paths: tuple[str, ...] = ()
    nth_from: int | None = None
    nth_to: int | None = None
    every: int | None = None
    after_s: float | None = None
    until_s: float | None = None
    longer_than: int | None = None
    max_tokens_below: int | None = None
    has_field: str | None = None
    header: Mapping[str, str] = field(default_factory=dict[str, str])
    probe: bool | None = None
    stream: bool | None = None
    probability: float | None = None
    flag: str | None = None
    no_flag: str | None = None
    request_on_connection_from: int | None = None
    idle_over_s: float | None = None
    open_probes_from: int | None = None
    aborts_from: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep:
    """Wait; the n-th time that the rule plays takes the n-th duration, the last one for ever after."""

    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Hang:
    """Send nothing more; the connection stays open."""


@dataclass(frozen=True, slots=True)
class Reset:
    """RST."""


@dataclass(frozen=True, slots=True)
class Fin:
    """Close now, whatever was promised: no chunk terminator."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """Announce a chunk, send half of it, close."""


@dataclass(frozen=True, slots=True)
class End:
    """End the body properly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Respond:
    """A whole response."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    content_type: str = ""
    chunked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Refuse in the words of this engine: busy, loading, asleep, dead, no_model, bad_request, unauthorized."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Status line and headers of a chunked body."""

    status: int = 200
    content_type: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Role:
    """What the engine sends before the first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """``times`` tokens with this text, ``every_s`` apart; ``finish`` goes into the last one."""

    text: str
    times: int = 1
    every_s: float = 0.0
    reasoning: bool = False
    finish: str | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The event with the finish reason and no text; None and ``""`` are what some servers write."""

    reason: str | None


@dataclass(frozen=True, slots=True)
class Usage:
    """An event with token counts: None the real ones, else these."""

    values: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Done:
    """``data: [DONE]``."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event with this payload."""

    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Error:
    """An error event in this engine's shape."""

    message: str
    status: int = 500
    kind: str = "InternalServerError"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """``times`` SSE comments, ``every_s`` apart."""

    text: str = "keep-alive"
    times: int = 1
    every_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Bytes: into the body, or straight to the socket. ``times`` repeats them, ``every_s`` apart."""

    data: bytes
    times: int = 1
    every_s: float = 0.0
    to_socket: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """Random bytes (the same each time): into the body, or straight to the socket."""

    size_bytes: int
    to_socket: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndlessHeaders:
    """A status line and headers that never stop."""

    every_s: float = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class HugeLine:
    """A data line of this many bytes, without an end if ``endless``."""

    size_bytes: int
    endless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """How the rest of this response is framed; see :class:`~pulsegate.sim.reply.Style`."""

    eol: bytes = b"\n"
    bom: bool = False
    space: bool = True
    piece_bytes: int = 0
    piece_every_s: float = 0.0
    gzip: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Answer as a sound engine would, but for what is said here; steps after ``tokens`` go on from there.

    ``tokens`` stops (without finishing) after that many. ``scale`` multiplies every delay.
    """

    ttft_s: float | None = None
    itl_s: float | None = None
    scale: float = 1.0
    tokens: int | None = None
    text: str | None = None
    wrong: Wrong | None = None


@dataclass(frozen=True, slots=True)
class Freeze:
    """The engine loop stands still; the web server lives."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """It goes on."""


@dataclass(frozen=True, slots=True)
class Break:
    """The engine behind the web server dies: health paths and generations fail, the port stays open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """All connections are reset and the port refuses; comes back after ``restart_s``, then loads."""

    restart_s: float | None = None
    loading_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusePort:
    """The port refuses connections for that long (None: until told otherwise); open ones live on."""

    for_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deaf:
    """Connections are not accepted for that long: the backlog fills up."""

    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class SleepMode:
    """Put to sleep on purpose, or woken."""

    on: bool


@dataclass(frozen=True, slots=True)
class SetFlag:
    """Set or clear a flag that rules can ask for."""

    name: str
    on: bool = True


Step = (
    Sleep
    | Hang
    | Reset
    | Fin
    | Truncate
    | End
    | Respond
    | Refuse
    | Head
    | Role
    | Token
    | Finish
    | Usage
    | Done
    | Event
    | Error
    | Comment
    | Raw
    | Noise
    | EndlessHeaders
    | HugeLine
    | Frame
    | Generate
    | Freeze
    | Thaw
    | Break
    | Crash
    | RefusePort
    | Deaf
    | SleepMode
    | SetFlag
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When ``match`` holds, play ``steps``."""

    match: Match
    steps: tuple[Step, ...]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How the engine comes up: nothing listens, then nobody accepts, then it loads. Seconds."""

    refuse_s: float = 0.0
    deaf_s: float = 0.0
    loading_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Metered:
    """What ``/metrics`` says instead of the truth; ``rise_per_s`` lets its counters grow by themselves."""

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    rise_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All that is wrong with one engine. ``load``: fields of :class:`~pulsegate.sim.load.Load` to change."""

    rules: tuple[Rule, ...] = ()
    start: Start | None = None
    metered: Metered = Metered()
    flags: frozenset[str] = frozenset()
    load: Mapping[str, object] = field(default_factory=dict[str, object])


SOUND = Script()
