"""Starts one worker process with a line to it."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

from pulsegate.control.line import Line
from pulsegate.control.link import Message

LAST_WORDS_S = 1.0  # how long what a worker said before it ended may take to be read


class HiredProcess:
    """A ``Hired``: a child process that has one end of a socket pair."""

    def __init__(self, process: asyncio.subprocess.Process, line: Line, silent: asyncio.Event) -> None:
        self._process = process
        self._silent = silent
        self.line = line

    async def wait(self) -> int:
        """Hired: its exit status, once all that it said has been heard; negative: the signal that ended it."""
        status = await self._process.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._silent.wait()
        return status

    def kill(self) -> None:
        """Hired: end it at once."""
        if self._process.returncode is None:
            self._process.kill()


async def hire_process(
    command: Sequence[str], listener: socket.socket, heard: Callable[[Message], None]
) -> HiredProcess:
    """Start a worker.

    Args:
        command: is followed by the numbers of two descriptors: of the listening socket, and of the worker's end of the
            line.
        listener: all workers accept on it; it stays ours.
        heard: is called with what the worker says.

    Raises:
        OSError: the machine has no process, memory or descriptor left for it.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            descriptors = (listener.fileno(), theirs.fileno())
            process = await asyncio.create_subprocess_exec(
                *command,
                *map(str, descriptors),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C is for the control process, which then lets its workers drain
            )
        ours.setblocking(False)  # noqa: FBT003 - the socket API
        silent = asyncio.Event()
        line = Line(heard=heard, lost=silent.set)
        await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
    except BaseException:
        ours.close()  # a worker whose line is down before it was told what to serve ends by itself
        raise
    return HiredProcess(process, line, silent)
