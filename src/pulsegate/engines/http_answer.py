"""One HTTP answer out of bytes: head, limits, what is never followed or unpacked. No I/O, no clock.

Decides whether an answer is whole, over a limit or not HTTP; what a body means is the listener's business.
"""

from functools import lru_cache
from urllib.parse import urlsplit

import httptools

from pulsegate.core.probe import Fault, FaultClass
from pulsegate.core.tls_hint import TLS_RECORD, USE_HTTPS
from pulsegate.engines.blame import closed_fault, protocol_fault
from pulsegate.engines.exchange import Flow, Limits, Listener
from pulsegate.engines.redaction import presentable

_MIN_FINAL_STATUS = 200
_QUOTE_CHARS = 80
_BODILESS = frozenset({204, 304})


class HttpAnswer:
    """Takes the reads of one connection in turn and tells the listener.

    Attributes:
        fault: set when the answer is of no use; no further byte is looked at.
        whole: the body ended properly.
        stopped: the listener had enough.
        lingered: the listener said that the token came.
        keep_alive: whole, and the connection may serve another request.
    """

    def __init__(self, listener: Listener, limits: Limits, secrets: tuple[str, ...] = ()) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.fault: Fault | None = None
        self.whole = False
        self.stopped = False
        self.lingered = False
        self.keep_alive = False
        self.bytes_read = 0
        self._listener = listener
        self._limits = limits
        self._secrets = secrets
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._head_bytes = 0
        self._head_done = False
        self._head_told = False
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._silent_bytes = 0  # read since the last body byte: heads, chunk sizes, trailers
        self._complete = False

    @property
    def over(self) -> bool:
        """Nothing more will come of this answer."""
        return self.whole or self.stopped or self.fault is not None

    def feed(self, data: bytes, at_s: float) -> None:
        """Take one read, stamped ``at_s``. Raises what the listener raises."""
        parser = self._parser
        if parser is None:
            return
        self.bytes_read += len(data)
        trouble = ""
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            trouble = "the server switched protocols"
        except httptools.HttpParserError as exc:
            trouble = str(exc) or type(exc).__name__
        self._check_head_size(len(data))
        if self._head_done and not self._head_told and self.fault is None:
            self._tell_head(at_s)
        if self._body and self.fault is None:
            self._tell_body(at_s)
        if self.fault is None and not self.stopped:
            if self._complete:
                self._end(at_s)
            elif trouble:
                self.fault = self._garbage(data, trouble)
        if self.over:
            self.keep_alive = self.keep_alive and self.whole
            self.release()

    def eof(self, at_s: float) -> None:
        """The peer ended the connection: the end of a body without length, a cut for any other."""
        if self.over:
            return
        if self._head_done and self._until_close():
            self._complete = True
            self._end(at_s)
            self.keep_alive = False
        else:
            self.fault = closed_fault("the server closed the connection before the answer was whole", self.status)
        self.release()

    def release(self) -> None:
        """Let go of the parser, which refers back to this object."""
        self._parser = None

    # what httptools calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody here asked for."""
        if self._head_done:
            return
        key, text = _field_name(name), value.decode("latin-1")
        self._head_bytes += len(name) + len(value)
        known = self.headers.get(key)
        self.headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """The end of a head: an interim one (1xx) is forgotten."""
        if self._complete or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status < _MIN_FINAL_STATUS:
            self.headers.clear()
            return
        self.status = status
        self._head_done = True

    def on_body(self, data: bytes) -> None:
        """A piece of the body; pieces of one read are told together."""
        if not self._complete:
            self._body.append(data)

    def on_message_begin(self) -> None:
        """After the end, a second answer that nobody asked for begins."""
        if self._complete:
            self.keep_alive = False

    def on_message_complete(self) -> None:
        """The end of a message, an interim one included."""
        if self._head_done and not self._complete and self._parser is not None:
            self._complete = True
            self.keep_alive = self._parser.should_keep_alive()

    # what they amount to

    def _check_head_size(self, read_bytes: int) -> None:
        limit = self._limits.header_bytes
        self._silent_bytes = 0 if self._body else self._silent_bytes + read_bytes
        if self._head_bytes > limit or (not self._head_done and self.bytes_read > limit):
            self.fault = protocol_fault(f"the head of the answer is longer than {limit} bytes", self.status)
        elif self._head_done and self._head_told and self._silent_bytes > limit:
            self.fault = protocol_fault(f"more than {limit} bytes of chunk sizes or trailers", self.status)

    def _tell_head(self, at_s: float) -> None:
        self._head_told = True
        status = self.status or 0
        self._listener.on_head(status, self.headers, at_s)
        encoding = self.headers.get("content-encoding", "").strip().lower()
        coding = self.headers.get("transfer-encoding", "chunked").strip().lower()
        if 300 <= status < 400:  # noqa: PLR2004 - the class of redirects
            where = self._quote(_host_of(self.headers.get("location", "")))
            self.fault = Fault(
                kind=FaultClass.REDIRECT, detail=f"redirects are not followed; this one leads to {where}", status=status
            )
        elif encoding not in ("", "identity"):
            self.fault = protocol_fault(
                f"the body is packed ({self._quote(encoding)}) although identity was asked", status
            )
        elif coding != "chunked":
            self.fault = protocol_fault(f"unknown transfer coding ({self._quote(coding)})", status)

    def _tell_body(self, at_s: float) -> None:
        data = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.body_bytes:
            self.fault = protocol_fault(f"the body is longer than {self._limits.body_bytes} bytes", self.status)
            return
        flow = self._listener.on_body(data, at_s)
        if flow is Flow.LINGER:
            self.lingered = True
        elif flow is Flow.STOP:
            self.stopped = True

    def _end(self, at_s: float) -> None:
        self.whole = True
        self._listener.on_end(at_s)

    def _quote(self, text: str) -> str:
        return presentable(text, self._secrets, _QUOTE_CHARS)

    def _until_close(self) -> bool:
        return (
            "content-length" not in self.headers
            and "transfer-encoding" not in self.headers
            and self.status not in _BODILESS
        )

    def _garbage(self, data: bytes, trouble: str) -> Fault:
        if self.status is None and self.bytes_read == len(data) and TLS_RECORD.match(data):
            return Fault(kind=FaultClass.TLS, detail=USE_HTTPS)
        return protocol_fault(f"not a proper HTTP answer: {trouble}", self.status)


@lru_cache(maxsize=64)
def _field_name(name: bytes) -> str:
    return name.decode("latin-1").lower()


def _host_of(location: str) -> str:
    """The host of a redirect's target: its path and query may hold secrets."""
    try:
        host = urlsplit(location).hostname
    except ValueError:
        return "an unreadable address"
    return host or "the same host"
