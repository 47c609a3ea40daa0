"""Who serves an address, and how a new control process takes over from the workers that a dead one left behind.

A control process holds a name for its gateway address: an abstract Unix socket, which is gone with the process whatever
ends it. So two never share an address, although an orphaned worker still holds the listening socket. The orphan looks
for that name again and again, hands the listening socket over and, once its successor serves, is told to end. The
socket is never closed on the way: no connection is lost.
"""

import asyncio
import contextlib
import os
import socket
import struct
from typing import Self

from pulsegate.core.figures import WorkerFigures

SEARCH_S = 0.5  # how often an orphan looks for its successor
INHERIT_S = 2.0  # how long a new control process waits for orphans when its address is taken
QUIET_S = 60.0  # an orphan that nobody asks for anything that long ends
_DISMISSED = b"."
_HELLO = b"listener"
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


class Succession:
    """Holds the name of an address; greets orphans that are left from an earlier holder.

    Usage::

        with Succession.of(address) as succession:       # OSError: somebody lives who holds it
            listener = await succession.inherited(...)   # only if the address is taken
            ...
            succession.serving()                         # orphans may go
    """

    def __init__(self, door: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
        self._door = door
        self._loop = loop
        self._orphans: set[socket.socket] = set()
        self._inheritance: asyncio.Future[socket.socket] = loop.create_future()
        self._taken = False
        self._serving = False
        loop.add_reader(door, self._came)

    @classmethod
    def of(cls, address: tuple[str, int]) -> Self:
        """Take the name of this address (a literal IP and a port), for the running loop.

        Raises:
            OSError: another process holds it.
        """
        door = _unix_socket()
        try:
            door.bind(name_of(address))
            door.listen()
        except OSError:
            door.close()
            raise
        return cls(door, asyncio.get_running_loop())

    async def inherited(self, within_s: float) -> socket.socket | None:
        """The listening socket of the first orphan that comes in that time; it is the caller's then."""
        await asyncio.wait([self._inheritance], timeout=within_s)
        if not self._inheritance.done():
            return None
        self._taken = True
        return self._inheritance.result()

    def serving(self) -> None:
        """We serve: orphans that are here, and those that are still to come, may go."""
        self._serving = True
        for orphan in list(self._orphans):
            self._dismiss(orphan)

    def close(self) -> None:
        """Give up the name."""
        self._loop.remove_reader(self._door)
        self._door.close()
        for orphan in list(self._orphans):
            self._forget(orphan)
        if self._inheritance.done() and not self._taken:
            self._inheritance.result().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _came(self) -> None:
        try:
            orphan, _ = self._door.accept()
        except OSError:
            return
        if not _is_ours(orphan):
            orphan.close()
            return
        orphan.setblocking(False)  # noqa: FBT003 - the socket API
        self._orphans.add(orphan)
        self._loop.add_reader(orphan, self._heard, orphan)

    def _heard(self, orphan: socket.socket) -> None:
        """It brings its listening socket, or it is gone."""
        try:
            said, descriptors, _, _ = socket.recv_fds(orphan, len(_HELLO), 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors = b"", []
        for descriptor in descriptors:
            self._inherit(socket.socket(fileno=descriptor))
        if not said:
            self._forget(orphan)
        elif self._serving:
            self._dismiss(orphan)

    def _inherit(self, listener: socket.socket) -> None:
        if self._inheritance.done() or self._serving:
            listener.close()
            return
        listener.setblocking(False)  # noqa: FBT003 - the socket API
        self._inheritance.set_result(listener)

    def _dismiss(self, orphan: socket.socket) -> None:
        with contextlib.suppress(OSError):
            orphan.send(_DISMISSED)
        self._forget(orphan)

    def _forget(self, orphan: socket.socket) -> None:
        self._loop.remove_reader(orphan)
        self._orphans.discard(orphan)
        orphan.close()


async def succeeded(listener: socket.socket) -> None:
    """An orphan's wait: hands ``listener`` to whoever takes its address over; returns when that process serves."""
    while not await _handed_over(listener):  # noqa: ASYNC110 - what is waited for is another process
        await asyncio.sleep(SEARCH_S)


async def _handed_over(listener: socket.socket) -> bool:
    """Whether there is a successor and it serves; waits for the latter as long as it lives."""
    with _unix_socket() as line:
        try:
            line.connect(name_of(listener.getsockname()))  # never waits: local, or nobody is there
            if not _is_ours(line):
                return False
            socket.send_fds(line, [_HELLO], [listener.fileno()])
            return await asyncio.get_running_loop().sock_recv(line, len(_DISMISSED)) == _DISMISSED
        except OSError:
            return False


class Quiet:
    """How long nobody has asked a worker for anything, told by its own counters."""

    def __init__(self) -> None:
        self._asked = -1
        self._since = 0.0

    def seconds(self, figures: WorkerFigures, now: float) -> float:
        """For how long, as of ``now`` (monotonic seconds)."""
        asked = sum(sum(route.requests.values()) for route in figures.routes)
        if asked != self._asked or figures.in_flight:
            self._asked = asked
            self._since = now
        return now - self._since


def name_of(address: tuple[str, int]) -> str:
    """What a control process that serves this address is called."""
    host, port = address[:2]
    return f"\0pulsegate/gateway/{host}:{port}"


def _unix_socket() -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)  # noqa: FBT003 - the socket API
    return sock


def _is_ours(peer: socket.socket) -> bool:
    """Whether the other end is a process of the same user: names in the abstract namespace are anybody's."""
    raw = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, _ = _CREDENTIALS.unpack(raw)
    return uid == os.getuid()
