"""Workers without processes: the port ``Hire`` on made-up time, and an observer that writes everything down."""

import asyncio
from collections.abc import Callable
from typing import cast

from pulsegate.control.line import Line
from pulsegate.control.link import DrainNow, FrameReader, Message, NewSetup, NewSnapshot, Ready, Refused, frame
from pulsegate.core.figures import WorkerFigures


class FakeWorker:
    """A ``Hired`` that answers setups and drains as it was told to, and ends when the test says so."""

    def __init__(self, heard: Callable[[Message], None], *, refuses: Callable[[bytes], str | None]) -> None:
        self._refuses = refuses
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[int] = self._loop.create_future()
        self._wire = _Wire(self._told)
        self.got: list[Message] = []
        self.killed = False
        self.answers_drains = True
        self.line = Line(heard=heard, lost=lambda: None)
        self.line.connection_made(cast("asyncio.Transport", self._wire))

    async def wait(self) -> int:
        return await asyncio.shield(self._over)

    def kill(self) -> None:
        self.killed = True
        self.end(-9)

    def end(self, status: int) -> None:
        if not self._over.done():
            self._over.set_result(status)

    def say(self, message: Message) -> None:
        """It reports something."""
        self.line.data_received(frame(message))

    def setups(self) -> list[bytes]:
        return [message.setup for message in self.got if isinstance(message, NewSetup)]

    def snapshots(self) -> list[int]:
        return [message.snapshot.version for message in self.got if isinstance(message, NewSnapshot)]

    def _told(self, message: Message) -> None:
        self.got.append(message)
        if isinstance(message, NewSetup):
            problem = self._refuses(message.setup)
            answer = Ready() if problem is None else Refused(problem)
            self._loop.call_soon(self.say, answer)
            if problem is not None and len(self.setups()) == 1:
                self._loop.call_soon(self.end, 3)
        elif isinstance(message, DrainNow) and self.answers_drains:
            self._loop.call_soon(self.end, 0)


class _Wire:
    """What a ``Line`` writes to: makes messages of it."""

    def __init__(self, told: Callable[[Message], None]) -> None:
        self._told = told
        self._reader = FrameReader()
        self._closing = False

    def write(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            self._told(message)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True


class FakeHire:
    """The port ``Hire``.

    ``lives_s``: how long the workers live, one after the other; the rest for ever. ``refuses``: why a setup cannot be
    served, if it cannot. ``mute``: they never say a word.
    """

    def __init__(
        self, *lives_s: float, refuses: Callable[[bytes], str | None] = lambda _setup: None, mute: bool = False
    ) -> None:
        self._lives = list(lives_s)
        self.mute = mute
        self._refuses = refuses
        self.failing = 0  # so many times a worker cannot be started
        self.hired: list[tuple[float, FakeWorker]] = []

    async def __call__(self, heard: Callable[[Message], None], /) -> FakeWorker:
        if self.failing:
            self.failing -= 1
            raise BlockingIOError(11, "Resource temporarily unavailable")
        loop = asyncio.get_running_loop()
        worker = FakeWorker((lambda _message: None) if self.mute else heard, refuses=self._refuses)
        self.hired.append((loop.time(), worker))
        if self._lives:
            loop.call_later(self._lives.pop(0), worker.end, -11)
        return worker

    @property
    def last(self) -> FakeWorker:
        return self.hired[-1][1]

    @property
    def times(self) -> list[float]:
        return [round(at, 3) for at, _ in self.hired]


class Noted:
    """A ``WorkforceObserver`` that writes everything down."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.figures: list[tuple[int, WorkerFigures]] = []

    def worker_ready(self, number: int) -> None:
        self.lines.append(f"{number} ready")

    def worker_refused(self, number: int, problem: str) -> None:
        self.lines.append(f"{number} refused: {problem}")

    def worker_died(self, number: int, status: int, lived_s: float) -> None:
        self.lines.append(f"{number} died with {status} after {lived_s:.1f} s")

    def worker_not_started(self, number: int, problem: str) -> None:
        self.lines.append(f"{number} not started: {problem}")

    def worker_gone(self, number: int) -> None:
        self.lines.append(f"{number} gone")

    def worker_counted(self, number: int, figures: WorkerFigures) -> None:
        self.figures.append((number, figures))
