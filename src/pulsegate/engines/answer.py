"""Listens to one answer to a probe: decides how its bytes are cut into events and when the first token came.

A stream may turn out to be an error, one JSON object, or not what it says; what the events mean is the dialect's.
"""

from collections.abc import Mapping
from typing import Final

from pulsegate.core.probe import Fault, FaultClass
from pulsegate.engines.dialect import Dialect, Facts, Framing
from pulsegate.engines.error_body import SCANNED_BYTES
from pulsegate.engines.exchange import Flow
from pulsegate.engines.faults import JUDGED_CHARS, classify_answer
from pulsegate.engines.redaction import presentable
from pulsegate.engines.sse import LineSplitter, SseError, SseParser

_MAX_WHOLE_BYTES: Final = 256 * 1024  # of an answer that was not streamed; one token is far less
_OK: Final = 200
_REDIRECTS: Final = range(300, 400)


class Answer:
    """A :class:`Listener` that fills :class:`Facts`.

    Attributes:
        facts: what the answer has said.
        first_token_s: the stamp of the read that brought the first token.
        status: of the answer, None before its head.
    """

    def __init__(self, dialect: Dialect, secrets: tuple[str, ...] = ()) -> None:
        self.facts = Facts(secrets)
        self.first_token_s: float | None = None
        self.status: int | None = None
        self._dialect = dialect
        self._secrets = secrets
        self._headers: Mapping[str, str] = {}
        self._sse: SseParser | None = None
        self._lines: LineSplitter | None = None
        self._undecided = False
        self._events = 0
        self._body = bytearray()

    def __repr__(self) -> str:
        return f"Answer({self._dialect.name}, status={self.status}, {self.facts})"

    @property
    def said(self) -> str:
        """The beginning of the body of an answer that was not streamed, as lower-case text."""
        return self._body[:JUDGED_CHARS].decode("utf-8", "replace").lower()

    def on_head(self, status: int, headers: Mapping[str, str], at_s: float) -> None:  # noqa: ARG002 - no token yet
        """Choose how to read the body."""
        self.status = status
        self._headers = headers
        if status != _OK:
            return
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream":
            self._sse = SseParser()
        elif "ndjson" in kind or kind == "application/jsonl":
            self._lines = LineSplitter()
        elif not kind.endswith("json"):
            self._undecided = True  # some gateways stream as text/plain

    def on_body(self, data: bytes, at_s: float) -> Flow:
        """Read on; LINGER from the first token on, STOP once nothing good can come."""
        if self._undecided:
            self._decide(data)
        try:
            if self._sse is not None:
                for event in self._sse.feed(data):
                    self._event(event.data, event.event)
            elif self._lines is not None:
                for line in self._lines.feed(data):
                    self._line(line)
            elif not self._keep(data):
                return Flow.STOP
        except SseError as exc:
            self._fail(exc.limit)
        return self._flow(at_s)

    def on_end(self, at_s: float) -> None:
        """Read what was left without its closing line, or the whole of an unstreamed answer."""
        try:
            if self._sse is not None:
                for event in self._sse.finish():
                    self._event(event.data, event.event)
            elif self._lines is not None:
                self._line(self._lines.finish())
            elif self.status == _OK:
                self._line(bytes(self._body))
        except SseError as exc:
            self._fail(exc.limit)
        if self.status == _OK and self._events == self.facts.unreadable:
            kind = self._headers.get("content-type", "without content type")
            self._fail(f"HTTP 200, {kind}: {self.said or 'not one readable event'}")
        self._flow(at_s)

    def fault(self) -> Fault | None:
        """What the answer amounts to if it is a failure; to be asked when it is over."""
        if self.status is None or self.status == _OK or self.status in _REDIRECTS:  # the wire speaks for redirects
            return self.facts.fault
        if self.facts.fault is None:
            self.facts.fault = classify_answer(self.status, bytes(self._body), self._headers, self._secrets)
        return self.facts.fault

    def _decide(self, data: bytes) -> None:
        """By the first bytes: JSON begins with a brace, nothing in an event stream does."""
        start = data.lstrip()
        if not start:
            return
        self._undecided = False
        if not start.startswith((b"{", b"[")):
            self._sse = SseParser()
        elif self._dialect.framing is Framing.LINES:
            self._lines = LineSplitter()

    def _event(self, data: str, name: str) -> None:
        if not data or self.facts.fault is not None:  # what follows a failure changes nothing
            return
        self._events += 1
        self._dialect.read(self.facts, data)
        if name == "error":
            self.facts.error(data)

    def _line(self, line: bytes) -> None:
        line = line.strip()
        if line:
            self._events += 1
            self._dialect.read(self.facts, line.decode("utf-8", "replace"))

    def _keep(self, data: bytes) -> bool:
        """Hold on to a body that is read as a whole; False when it has grown beyond reason."""
        room = (_MAX_WHOLE_BYTES if self.status == _OK else SCANNED_BYTES) - len(self._body)
        self._body += data[:room]
        if len(data) <= room:
            return True
        if self.status == _OK:
            self._fail(f"an answer in one piece of more than {_MAX_WHOLE_BYTES} bytes")
        return False

    def _fail(self, detail: str) -> None:
        if self.facts.fault is None:
            self.facts.fault = Fault(
                kind=FaultClass.PROTOCOL, detail=presentable(detail, self._secrets), status=self.status
            )

    def _flow(self, at_s: float) -> Flow:
        if self.facts.token_seen and self.first_token_s is None:
            self.first_token_s = at_s
        if self.facts.fault is not None:
            return Flow.STOP
        return Flow.LINGER if self.facts.token_seen or self.facts.done else Flow.CONTINUE
