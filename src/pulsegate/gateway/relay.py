"""After the first token: bytes go on as they came, chunk framing included, until the answer ends, is cut or stalls.

A read that ends with an event and its chunk, as nearly all do, is written as it is. A read that ends anywhere else is
taken out of its framing and goes on with the rest of its event, so that a client never gets half an event, and an
error event can be put after any read. That is also how the usage chunk that only we asked for is left out.
"""

from typing import Protocol

from pulsegate.gateway.counters import EndpointCounters
from pulsegate.gateway.framing import ALIGNED, EVENT_ENDS, LAST_CHUNK, chunk, events_of, whole_events
from pulsegate.gateway.usage import Usage, is_usage_only, usage_in_events

_USAGE = b'"usage"'
_ERROR = b'{"error"'
_NO_CHOICES = (b'"choices":[]', b'"choices": []')
_ENDED = (b"[DONE]", b'"finish_reason":"', b'"finish_reason": "', b"response.completed", b"response.incomplete")


class Outlet(Protocol):
    """Where a relay writes to."""

    def write(self, data: bytes, /) -> object:
        """Send these bytes; they are buffered when the client is slow."""
        ...


class Relay:
    """One answer on its way to the client.

    Attributes:
        token_at: when the latest token went by; comments do not count.
        events: how many events with data went by.
        told_error: an error event of the endpoint's own went by.
    """

    __slots__ = (
        "_aligned",
        "_chunked_out",
        "_counters",
        "_events_only",
        "_hide_usage",
        "_last_payload",
        "_outlet",
        "_pending",
        "_usage_payload",
        "_verbatim",
        "events",
        "token_at",
        "told_error",
    )

    def __init__(
        self,
        outlet: Outlet,
        counters: EndpointCounters,
        *,
        chunked_in: bool,
        chunked_out: bool,
        stream: bool,
        hide_usage: bool,
        now: float,
    ) -> None:
        """Nothing is written yet.

        Args:
            outlet: the client's connection.
            counters: of the endpoint.
            chunked_in: the endpoint's answer is chunked.
            chunked_out: the client's answer is; False for HTTP/1.0, where the payload goes bare.
            stream: the payload is an event stream; other payload is passed on wherever it is cut.
            hide_usage: leave out the chunk that has usage and nothing else.
            now: the first token's time.
        """
        self._outlet = outlet
        self._counters = counters
        self._chunked_out = chunked_out
        self._verbatim = chunked_in and chunked_out and stream
        self._events_only = stream
        self._hide_usage = hide_usage
        self._aligned = True
        self._pending = b""
        self._usage_payload = b""
        self._last_payload = b""
        self.token_at = now
        self.events = 0
        self.told_error = False

    def begin(self, payload: list[bytes], last_read: bytes, now: float, *, complete: bool) -> None:
        """What was held back goes out; ``last_read`` is the read that opened the gate."""
        self._reframe(b"".join(payload), now, complete=complete)
        self._aligned = not self._pending and last_read.endswith(ALIGNED)

    def pass_on(self, data: bytes, pieces: list[bytes], now: float, *, complete: bool) -> None:
        """A read came: ``data`` as it was (empty if it may not go on so), ``pieces`` its payload.

        ``complete``: the answer ends with it.
        """
        if self._verbatim and self._aligned and self._closed_by(data, pieces, complete=complete):
            if _ERROR in data:
                self.told_error = True
            if _USAGE not in data:
                self._outlet.write(data)
                self._count(data.count(b"data:"), now)
                return
            self._usage_payload = payload = b"".join(pieces)
            if not self._hide_usage or not any(mark in payload for mark in _NO_CHOICES):
                self._outlet.write(data)
                self._count(data.count(b"data:"), now)
                return
        self._reframe(b"".join(pieces), now, complete=complete)
        self._aligned = not self._pending and data.endswith(ALIGNED)

    def _closed_by(self, data: bytes, pieces: list[bytes], *, complete: bool) -> bool:
        """Whether nothing stays open after this read: no event and no chunk."""
        if complete:
            return data.endswith(LAST_CHUNK) and (not pieces or pieces[-1].endswith(EVENT_ENDS))
        return data.endswith(ALIGNED) and bool(pieces) and pieces[-1].endswith(EVENT_ENDS)

    def _reframe(self, payload: bytes, now: float, *, complete: bool) -> None:
        pending = self._pending + payload
        cut = len(pending) if complete or not self._events_only else whole_events(pending)
        out, self._pending = pending[:cut], pending[cut:]
        if out:
            self._last_payload = out
            self._count(out.count(b"data:"), now)
            if _ERROR in out and self._events_only:
                self.told_error = True
            if _USAGE in out:
                self._usage_payload = out
                if self._hide_usage:
                    out = b"".join(event for event in events_of(out) if not _only_usage(event))
        if out:
            self._outlet.write(chunk(out) if self._chunked_out else out)
        if complete and self._chunked_out:
            self._outlet.write(LAST_CHUNK)

    def _count(self, events: int, now: float) -> None:
        if events:
            counters = self._counters
            if self.events:
                counters.gaps.add(now - self.token_at)
            counters.tokens += events
            counters.sign_at = self.token_at = now
            self.events += events

    def end_with(self, event: bytes) -> None:
        """End the stream with this event, properly framed. What is left of half an event is dropped."""
        self._pending = b""
        if self._last_payload and not self._last_payload.endswith(EVENT_ENDS):
            event = b"\n\n" + event  # after an event that was too large to be waited for
        self._outlet.write(chunk(event) + LAST_CHUNK if self._chunked_out else event)

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


def _only_usage(event: bytes) -> bool:
    data = event.strip()
    return data.startswith(b"data:") and _USAGE in data and is_usage_only(data[5:])
