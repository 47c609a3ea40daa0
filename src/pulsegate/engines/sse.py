"""Server-sent events and plain lines out of bytes, however they were cut: no I/O, no clock, bounded memory.

Follows the event stream format of the WHATWG HTML standard, section 9.2.6 ("Interpreting an event stream"). What an
event means is the dialect's business.
"""

from typing import NamedTuple

MAX_LINE_BYTES = 1024 * 1024
MAX_EVENT_BYTES = 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "


class SseError(Exception):
    """The stream broke a limit; ``limit`` says which one, in words fit for a log line. The parser is of no more use."""

    def __init__(self, limit: str) -> None:
        super().__init__(limit)
        self.limit = limit


class SseEvent(NamedTuple):
    """One event. ``data`` joins the event's data lines with line feeds; ``event`` is empty if none was named.

    Bytes that are not UTF-8 become U+FFFD, as the standard says.
    """

    data: str
    event: str = ""


class LineSplitter:
    """Cuts bytes into lines at LF, CRLF or a lone CR, without their ends. For NDJSON as for event streams."""

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._rest = bytearray()
        self._after_cr = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete.

        Raises:
            SseError: a line is longer than the limit.
        """
        if self._after_cr and data:
            # a CR ended the last line at once; the LF of a CRLF that was cut in two belongs to it
            self._after_cr = False
            if data.startswith(b"\n"):
                data = data[1:]
        if not data:
            return []
        self._after_cr = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        held = len(self._rest)
        if lines and held:
            lines[0] = bytes(self._rest + lines[0])
            self._rest.clear()
        if rest:
            self._rest += rest
        if len(data) + held > self._max_line_bytes:  # only then can a line be too long
            longest = max(len(self._rest), max(map(len, lines), default=0))
            if longest > self._max_line_bytes:
                raise SseError(f"a line is longer than {self._max_line_bytes} bytes")
        return lines

    def finish(self) -> bytes:
        """The last line if the stream ended without a line end, else empty."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class SseParser:
    """Turns the bytes of an event stream into events.

    ``comments`` counts comment lines (keep-alives among them): they are no events and no sign of life.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments = 0
        self._lines = LineSplitter(max_line_bytes)
        self._max_event_bytes = max_event_bytes
        self._data: list[bytes] = []
        self._size = 0
        self._name = b""
        self._first_line = True

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that these bytes complete.

        Raises:
            SseError: a line or an event is longer than its limit.
        """
        events: list[SseEvent] = []
        for line in self._lines.feed(data):
            if line.startswith(_DATA):  # what nearly every line of a stream is
                self._add(line[len(_DATA) :])
            elif line or self._first_line:
                self._take(line, events)
            else:
                self._dispatch(events)
        return events

    def finish(self) -> list[SseEvent]:
        """The last event if the stream ended without its closing blank line.

        The standard drops it; servers that forget the blank line are common enough for a prober to read it.

        Raises:
            SseError: the event is longer than its limit.
        """
        events: list[SseEvent] = []
        rest = self._lines.finish()
        if rest:
            self._take(rest, events)
        self._dispatch(events)
        return events

    def _take(self, line: bytes, events: list[SseEvent]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(b":")
        if not name:
            self.comments += line.startswith(b":")
            return
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._name = value

    def _add(self, value: bytes) -> None:
        self._first_line = False
        self._data.append(value)
        self._size += len(value) + 1
        if self._size > self._max_event_bytes:
            raise SseError(f"an event is longer than {self._max_event_bytes} bytes")

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            name = self._name.decode("utf-8", "replace") if self._name else ""
            events.append(SseEvent(data.decode("utf-8", "replace"), name))
            self._data.clear()
            self._size = 0
        self._name = b""
