"""What a dialect is: the joints between one kind of engine and the client that speaks to it.

Decides nothing; the dialects in ``dialects/`` do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Final, Protocol

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import Counters, Fault, ProbeAsk
from pulsegate.engines.exchange import Request
from pulsegate.engines.faults import classify_error

MAX_TEXT_CHARS: Final = 200
PROBE_HEADERS: Final = (
    ("X-LLM-Probe", "true"),
    ("Content-Type", "application/json"),
    ("Accept", "text/event-stream"),
)


class Framing(Enum):
    """How a stream is cut into events."""

    SSE = auto()
    LINES = auto()  # one JSON object a line


class Route(StrEnum):
    """Which door of the server is used."""

    COMPLETIONS = "/v1/completions"
    CHAT = "/v1/chat/completions"
    NATIVE = "native"
    NATIVE_WORDS = "native with word lists"  # Triton's TensorRT-LLM ensembles before their inputs became optional


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How one server wants to be asked: at first as its dialect has it, later as it taught us by refusing.

    ``without`` names optional fields that it does not know; ``min_tokens`` is the least output that it accepts.
    """

    route: Route
    without: frozenset[str] = frozenset()
    long_limit_name: bool = False  # "max_completion_tokens" instead of "max_tokens"
    min_tokens: int = 1

    def dropping(self, names: frozenset[str]) -> "Manner":
        """The same without these fields."""
        return replace(self, without=self.without | names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A request that was turned down: the class, and all of the body as lower-case text, to look for field names."""

    fault: Fault
    said: str


class Facts:
    """What an answer has said so far. Filled by a dialect's ``read``, event by event."""

    __slots__ = ("chunks", "done", "fault", "finish_reason", "secrets", "text", "tokens", "unreadable")

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self.secrets = secrets
        self.text = ""
        self.chunks = 0
        self.tokens: int | None = None
        self.finish_reason: str | None = None
        self.fault: Fault | None = None
        self.done = False
        self.unreadable = 0

    def __repr__(self) -> str:
        return f"Facts(chunks={self.chunks}, finish={self.finish_reason}, tokens={self.tokens}, fault={self.fault})"

    @property
    def token_seen(self) -> bool:
        """Whether a token is proven: by text, or, for a token that has none, by a finish reason or the usage."""
        return self.chunks > 0 or self.finish_reason is not None or self.tokens is not None

    @property
    def finished(self) -> bool:
        """Whether the answer said that it is over."""
        return self.done or self.finish_reason is not None or self.tokens is not None

    def token(self, text: str) -> None:
        """An event carried a token."""
        self.chunks += 1
        if len(self.text) < MAX_TEXT_CHARS:
            self.text = (self.text + text)[:MAX_TEXT_CHARS]

    def error(self, value: object) -> None:
        """An event carried an error, decoded or as text; the first one counts."""
        if self.fault is None:
            self.fault = classify_error(value, secrets=self.secrets)


class CounterReader(Protocol):
    """Reads the progress counters of one server; may remember what it read before."""

    def path(self, model: str | None) -> str:
        """Where they are."""
        ...

    def read(self, body: bytes, headers: Mapping[str, str], rank: int | None) -> Counters | None:
        """What they say; None if nothing."""
        ...


class Dialect(Protocol):
    """One kind of engine. Values, shared by all endpoints of that kind."""

    @property
    def name(self) -> EngineName:
        """Which."""
        ...

    @property
    def routes(self) -> tuple[Route, ...]:
        """The doors, in the order in which they are tried."""
        ...

    @property
    def framing(self) -> Framing:
        """How its stream is cut."""
        ...

    @property
    def needs_model(self) -> bool:
        """Whether a request has to name the model."""
        ...

    @property
    def ends_silently(self) -> bool:
        """Whether a stream that simply ends is complete: the engine has no word for the end."""
        ...

    @property
    def counter_reader(self) -> Callable[[], CounterReader] | None:
        """Makes a reader of its progress counters; None if it has none."""
        ...

    @property
    def sleep_page(self) -> str | None:
        """Which page says whether the engine was put to sleep on purpose; None if none does."""
        ...

    def request(self, ask: ProbeAsk, model: str | None, manner: Manner, rank: int | None) -> Request:
        """The probe request."""
        ...

    def read(self, facts: Facts, data: str) -> None:
        """Take in one event of the stream, or the whole body of an answer that was not streamed. Never raises."""
        ...

    def adapt(self, manner: Manner, refusal: Refusal) -> Manner | None:
        """Another manner to try after this refusal; None if the refusal stands."""
        ...
