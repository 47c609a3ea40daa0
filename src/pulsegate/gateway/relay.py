"""After the first token: bytes go on as they came, chunk framing included, until the answer ends, is cut or stalls.

A read that ends with an event and its chunk, as nearly all do, is written as it is. A read that ends anywhere else is
taken out of its framing and goes on with the rest of its event, so that a client never gets half an event, and an
error event can be put after any read. That is also how the usage chunk that only we asked for is left out.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

from pulsegate.core.figures import GAP_BOUNDS_S
from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.counters import EndpointCounters
from pulsegate.gateway.framing import (
    ALIGNED,
    EVENT_ENDS,
    LAST_CHUNK,
    SizeLines,
    chunk,
    events_of,
    whole_chunks,
    whole_events,
)
from pulsegate.gateway.gate import CUT_SHORT
from pulsegate.gateway.upstream import UpstreamConnection
from pulsegate.gateway.usage import Usage, is_usage_only, usage_in_events

_USAGE = b'"usage"'
_ERROR = b'{"error"'
_NO_CHOICES = (b'"choices":[]', b'"choices": []')
_ENDED = (b"[DONE]", b'"finish_reason":"', b'"finish_reason": "', b"response.completed", b"response.incomplete")


class Ending(Protocol):
    """Who is told how a relay ends."""

    def closing(self) -> None:
        """The answer is here to its end; its last bytes go out next."""
        ...

    def relayed(self) -> None:
        """The answer has gone out to its end."""
        ...

    def broke(self, conn: UpstreamConnection, kind: FailureKind, detail: str) -> None:
        """The connection ended before, or with, the answer."""
        ...


class Relay:
    """One answer on its way to the client. The upstream connection's owner from the first token on.

    Attributes:
        events: how many with tokens went by; an event is about a token.
        token_at: when the latest token went by; comments do not count.
        told_error: an error event of the endpoint's own went by.
    """

    __slots__ = (
        "_aligned",
        "_careful",
        "_chunked_out",
        "_conn",
        "_counters",
        "_ending",
        "_events_only",
        "_gaps",
        "_hide_usage",
        "_last_payload",
        "_now",
        "_pending",
        "_size_lines",
        "_usage_payload",
        "_verbatim",
        "_write",
        "events",
        "token_at",
        "told_error",
    )

    def __init__(
        self,
        write: Callable[[bytes], object],
        ending: Ending,
        counters: EndpointCounters,
        *,
        chunked_in: bool,
        chunked_out: bool,
        stream: bool,
        hide_usage: bool,
        careful: bool = False,
        size_lines: SizeLines,
        now: Callable[[], float],
    ) -> None:
        """Nothing is written yet.

        Args:
            write: sends bytes to the client.
            ending: is told how it ends.
            counters: of the endpoint.
            chunked_in: the endpoint's answer is chunked.
            chunked_out: the client's answer is; False for HTTP/1.0, where the payload goes bare.
            stream: the payload is an event stream; other payload is passed on wherever it is cut.
            hide_usage: leave out the chunk that has usage and nothing else.
            careful: the stream may say that it ends before its time, as providers' do.
            size_lines: of the worker.
            now: monotonic seconds.
        """
        self._write = write
        self._ending = ending
        self._counters = counters
        self._gaps = counters.gaps.counts
        self._chunked_out = chunked_out
        self._verbatim = chunked_in and chunked_out and stream
        self._events_only = stream
        self._hide_usage = hide_usage
        self._careful = careful
        self._size_lines = size_lines
        self._aligned = False
        self._pending = b""
        self._usage_payload = b""
        self._last_payload = b""
        self._now = now
        self.events = 0
        self.token_at = 0.0
        self.told_error = False

    def begin(self, conn: UpstreamConnection, payload: list[bytes], last_read: bytes, now: float) -> None:
        """Become the owner of ``conn``; what was held back goes out. ``last_read`` is the read that opened the gate."""
        self.token_at = now
        self._conn = conn
        conn.owner = self
        if self._verbatim:
            conn.divert(self._careful_tap if self._careful else self.tap)
        self._reframe(b"".join(payload), now, complete=conn.complete)
        self._aligned = self._verbatim and not self._pending and last_read.endswith(ALIGNED)
        if conn.complete:
            self._ending.relayed()

    def tap(self, data: bytes) -> None:
        """A read came: pass it on unparsed if it is whole chunks of whole events and nothing else.

        That is what nearly all reads of all streams are: one chunk, or several when we were busy elsewhere. Size lines
        and ends prove it, so that llhttp need not hear of it: behind it, as before it, a chunk begins.
        """
        lines = self._size_lines
        if not (
            self._aligned
            and data.endswith(ALIGNED)
            and data.rfind(_USAGE) < 0  # "in" takes twice as long: before it looks, it raises and drops a TypeError
            and data.rfind(_ERROR) < 0
            and (data.startswith(lines[len(data)]) or whole_chunks(data, lines))
        ):
            self._conn.parse(data)
            return
        write, clock = self._write, self._now  # called as attributes they would be looked up the slow way
        write(data)
        events = data.count(b"data:")
        if events:
            now = clock()
            self._gaps[bisect_left(GAP_BOUNDS_S, now - self.token_at)] += 1
            counters = self._counters
            counters.tokens += events
            self.events += events
            counters.sign_at = self.token_at = now

    def _careful_tap(self, data: bytes) -> None:
        """The same for streams that may say that they end before their time."""
        if data.rfind(CUT_SHORT) < 0:
            self.tap(data)
        else:
            self._conn.parse(data)

    def fed(self, conn: UpstreamConnection, data: bytes) -> None:
        """Owner: a read came that is not so simple."""
        self._pass_on(b"" if conn.excess else data, conn.pieces, self._now(), complete=conn.complete)
        if conn.complete:
            self._ending.relayed()

    def broke(self, conn: UpstreamConnection, kind: FailureKind, detail: str) -> None:
        """Owner: the connection ended."""
        self._ending.broke(conn, kind, detail)

    def _pass_on(self, data: bytes, pieces: list[bytes], now: float, *, complete: bool) -> None:
        """Pass on a read that may not be aligned, may tell usage or an error, or may be the last.

        ``data`` is empty if the read may not go on as it is.
        """
        payload = b"".join(pieces)
        if self._aligned and not self._hides(payload) and _closed_by(data, payload, complete=complete):
            self._look_at(payload, now)
            if complete:
                self._ending.closing()
            self._write(data)
            return
        self._reframe(payload, now, complete=complete)
        self._aligned = self._verbatim and not self._pending and data.endswith(ALIGNED)

    def _hides(self, payload: bytes) -> bool:
        """Whether the chunk that has to be left out may be in here."""
        return self._hide_usage and _USAGE in payload and any(mark in payload for mark in _NO_CHOICES)

    def _reframe(self, payload: bytes, now: float, *, complete: bool) -> None:
        """Take payload out of its framing and put whole events into ours."""
        pending = self._pending + payload
        cut = len(pending) if complete or not self._events_only else whole_events(pending)
        out, self._pending = pending[:cut], pending[cut:]
        if out:
            self._last_payload = out
            self._look_at(out, now)
            if self._hide_usage and _USAGE in out:
                out = b"".join(event for event in events_of(out) if not _only_usage(event))
        if complete:
            self._ending.closing()
        if out:
            self._write(chunk(out) if self._chunked_out else out)
        if complete and self._chunked_out:
            self._write(LAST_CHUNK)

    def _look_at(self, payload: bytes, now: float) -> None:
        """Notice tokens, usage and errors in whole events that go by."""
        events = payload.count(b"data:")
        if events:
            if now > self.token_at:  # the first token has no gap before it
                self._gaps[bisect_left(GAP_BOUNDS_S, now - self.token_at)] += 1
            counters = self._counters
            counters.tokens += events
            self.events += events
            counters.sign_at = self.token_at = now
        if _USAGE in payload and (not self._usage_payload or _tells_usage(payload)):
            self._usage_payload = payload
        if self._events_only and (_ERROR in payload or CUT_SHORT in payload):
            self.told_error = True

    def end_with(self, event: bytes) -> None:
        """End the stream with this event, properly framed. What is left of half an event is dropped."""
        self._pending = b""
        if self._last_payload and not self._last_payload.endswith(EVENT_ENDS):
            event = b"\n\n" + event  # after an event that was too large to be waited for
        self._write(chunk(event) + LAST_CHUNK if self._chunked_out else event)

    def finish_at_close(self) -> bool:
        """The endpoint closed an answer that had no length: end it, if it looks whole; else say False."""
        whole = any(mark in self._last_payload or mark in self._pending for mark in _ENDED)
        if whole or not self._events_only:
            self._reframe(b"", self.token_at, complete=True)
            return True
        return False

    def usage(self) -> Usage | None:
        """The last usage that went by."""
        return usage_in_events(self._usage_payload) if self._usage_payload else None


def _tells_usage(payload: bytes) -> bool:
    """Whether what was told before is to be forgotten: the last word counts, but not one that says null or zero."""
    if payload.count(_USAGE) == payload.count(b'"usage":null') + payload.count(b'"usage": null'):
        return False
    usage = usage_in_events(payload)
    return usage is not None and not usage.is_zero


def _only_usage(event: bytes) -> bool:
    data = event.strip()
    return data.startswith(b"data:") and _USAGE in data and is_usage_only(data[5:])


def _closed_by(data: bytes, payload: bytes, *, complete: bool) -> bool:
    """Whether nothing stays open after this read: no event and no chunk."""
    if complete:
        return data.endswith(LAST_CHUNK) and (not payload or payload.endswith(EVENT_ENDS))
    return data.endswith(ALIGNED) and payload.endswith(EVENT_ENDS)
