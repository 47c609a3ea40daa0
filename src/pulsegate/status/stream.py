"""Tells whoever listens what happens, as server-sent events.

Every listener has a bounded queue; one that does not keep up is dropped instead of holding memory, and may come back
with ``Last-Event-ID`` to get what it missed, as far as that is still remembered.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import msgspec

from pulsegate.control.clock import iso8601, wall_time_of
from pulsegate.control.ports import Clock
from pulsegate.core.events import Alerted, Effect, Transitioned

QUEUE_FRAMES = 256
REMEMBERED_FRAMES = 256
KEEP_ALIVE_S = 15.0
KEEP_ALIVE_FRAME = b": keep-alive\n\n"


class TransitionEvent(msgspec.Struct, kw_only=True):
    """``event: transition``: the state or the reason of an endpoint changed."""

    at: str
    endpoint: str
    pool: str
    incarnation: int
    old: str
    new: str
    old_reason: str
    reason: str
    detail: str


class AlertEvent(msgspec.Struct, kw_only=True):
    """``event: alert``: something that a human should look at."""

    at: str
    kind: str
    pool: str | None
    endpoint: str | None
    detail: str


class Listener:
    """One open event stream: what waits to be sent to it."""

    __slots__ = ("_frames", "_wake", "open")

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self.open = True

    def offer(self, frame: bytes) -> bool:
        """Queue one frame; False, and the stream ends, when the listener is too far behind."""
        if len(self._frames) >= QUEUE_FRAMES:
            self.close()
            return False
        self._frames.append(frame)
        self._wake.set()
        return True

    def close(self) -> None:
        """End the stream after what is queued already."""
        self.open = False
        self._wake.set()

    async def take(self) -> bytes | None:
        """All queued frames in one piece, a keep-alive comment after a quiet while, or None when the stream is over."""
        if not self._frames and self.open:
            self._wake.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._wake.wait()
            except TimeoutError:
                return KEEP_ALIVE_FRAME
        if not self._frames:
            return None
        piece = b"".join(self._frames)
        self._frames.clear()
        return piece


class EventHub:
    """An ``Observer`` that sends transitions and alerts to every listener."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: set[Listener] = set()
        self._recent: deque[tuple[int, bytes]] = deque(maxlen=REMEMBERED_FRAMES)
        self._last_id = 0
        self._closed = False
        self.dropped = 0

    @property
    def listeners(self) -> int:
        """How many streams are open."""
        return len(self._listeners)

    def saw(self, effect: Effect) -> None:
        """Send what a person would want to know; the rest is not for this stream."""
        match effect:
            case Transitioned():
                self._send("transition", _transition(effect, self._iso(effect.at)))
            case Alerted():
                self._send("alert", _alert(effect, self._iso(effect.at)))
            case _:
                pass

    async def stream(self, last_seen: int | None = None) -> AsyncIterator[bytes]:
        """The frames for one client, beginning with those after event ``last_seen`` if it names one."""
        listener = Listener()
        if self._closed:
            return
        for frame in self._missed(last_seen):
            listener.offer(frame)
        self._listeners.add(listener)
        try:
            yield b"retry: 2000\n\n"
            while (piece := await listener.take()) is not None:
                yield piece
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End every stream; new ones end at once."""
        self._closed = True
        for listener in self._listeners:
            listener.close()

    def _missed(self, last_seen: int | None) -> list[bytes]:
        if last_seen is None:
            return []
        if last_seen > self._last_id:  # an id of an earlier process: all of ours is news
            last_seen = 0
        return [frame for event_id, frame in self._recent if event_id > last_seen]

    def _iso(self, at: float) -> str:
        return iso8601(wall_time_of(self._clock, at))

    def _send(self, name: str, payload: msgspec.Struct) -> None:
        self._last_id += 1
        frame = b"id: %d\nevent: %s\ndata: %s\n\n" % (self._last_id, name.encode(), msgspec.json.encode(payload))
        self._recent.append((self._last_id, frame))
        late = [listener for listener in self._listeners if not listener.offer(frame)]
        self._listeners.difference_update(late)
        self.dropped += len(late)


def _transition(effect: Transitioned, at: str) -> TransitionEvent:
    return TransitionEvent(
        at=at,
        endpoint=effect.endpoint,
        pool=effect.pool,
        incarnation=effect.incarnation,
        old=effect.old,
        new=effect.new,
        old_reason=effect.old_reason,
        reason=effect.reason,
        detail=effect.detail,
    )


def _alert(effect: Alerted, at: str) -> AlertEvent:
    return AlertEvent(at=at, kind=effect.kind, pool=effect.pool, endpoint=effect.endpoint, detail=effect.detail)
