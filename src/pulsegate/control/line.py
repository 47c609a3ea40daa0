"""One end of the line between the control process and a worker: messages out, messages in, over a stream socket.

Of snapshots only the latest matters: while the other end does not read, newer ones replace the one that waits.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from pulsegate.control.link import FrameReader, LinkError, Message, NewSnapshot, frame
from pulsegate.core.snapshot import Snapshot


class Line(asyncio.Protocol):
    """Give it to ``loop.create_connection(lambda: line, sock=...)``.

    Args:
        heard: is called with each message that arrives.
        lost: is called once, when the other end is gone or talked nonsense.
    """

    def __init__(self, heard: Callable[[Message], None], lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._choked = False
        self._waiting: Snapshot | None = None

    def say(self, message: Message) -> None:
        """Send a message; nothing happens when the line is down."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(message))

    def offer(self, snapshot: Snapshot) -> None:
        """Send the latest snapshot as soon as the other end reads."""
        if self._choked:
            self._waiting = snapshot
        else:
            self.say(NewSnapshot(snapshot))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: the line is up."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are no subclass of it

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes from the other end."""
        try:
            messages = self._reader.feed(data)
        except LinkError:
            self.close()
            return
        for message in messages:
            self._heard(message)

    def pause_writing(self) -> None:
        """asyncio: the other end does not read."""
        self._choked = True

    def resume_writing(self) -> None:
        """asyncio: it reads again."""
        self._choked = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.say(NewSnapshot(waiting))

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the line is down."""
        del exc
        self._transport = None
        self._lost()
