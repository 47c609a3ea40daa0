"""Writes lines: each with one ``write`` to a descriptor that appends, the moment it comes.

Several processes may write to one ledger: the kernel keeps their lines apart. A line that cannot be written is kept and
tried again; it is never written in two parts, because another process's line could come between them.
"""

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fcntl import LOCK_NB, LOCK_SH, flock
from pathlib import Path
from typing import Final

import msgspec

from pulsegate.control.ledger import Entry
from pulsegate.control.ports import Clock
from pulsegate.ledger.lines import ROWS, encoded
from pulsegate.ledger.mending import is_ended, mend_end
from pulsegate.ledger.segments import MODE, rotated_name, sole
from pulsegate.ledger.syncing import Fsync, Syncer

MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingRules:
    """How a ledger is written.

    Attributes:
        path: where it is.
        fsync: when the disk must have it; ``fsync_interval_s`` is how often, for ``INTERVAL``.
        rotate_bytes: a file this large is rotated away; None: never for its size.
        day_of: names the day of a time; a file of another day than today is rotated away. None: never for its day.
    """

    path: Path
    fsync: Fsync = Fsync.INTERVAL
    fsync_interval_s: float = 1.0
    rotate_bytes: int | None = None
    day_of: Callable[[float], str] | None = None


class LedgerWriter:
    """A ``Ledger`` in files. Belongs to one thread.

    Attributes:
        lost: lines that could be kept no longer.
        torn_bytes: of lines without an end that were found and mended.
    """

    def __init__(self, rules: WritingRules, clock: Clock) -> None:
        """Opens the file; one that cannot be opened is ``trouble`` and no error."""
        self._rules = rules
        self._clock = clock
        self._syncer = Syncer(rules.fsync, rules.fsync_interval_s)
        self._fd = _NONE
        self._inode = 0
        self._first_day: str | None = None
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_cut = False  # the file ends within a line of ours
        self._problem: str | None = None
        self.lost = 0
        self.torn_bytes = 0
        self._open()

    @property
    def trouble(self) -> str | None:
        """Ledger: why lines cannot be written now."""
        problem = self._problem or self._syncer.trouble
        if problem is not None and self.lost:
            return f"{problem}; {self.lost} lines lost"
        return problem

    def book(self, entry: Entry) -> bool:
        """Ledger: one line, at once."""
        line = encoded(entry)
        if self._waiting or self._fd == _NONE or self._is_cut or not self._write(line):
            self._keep(line)
            return False
        return True

    def tend(self) -> None:
        """Ledger: follow rotations, rotate, try again."""
        if self._fd == _NONE or not self._is_current():
            self._open()
        if self._fd != _NONE and self._is_due():
            self._rotate()
        self._try_again()

    def close(self) -> None:
        """Ledger: what waits is tried once more."""
        self.tend()
        self._fd = _NONE
        self._syncer.close()

    def _write(self, line: bytes) -> bool:
        """Write a line; False leaves it to be written again, as a whole."""
        try:
            written = os.write(self._fd, line)
        except OSError as exc:
            self._problem = f"{self._rules.path} cannot be written: {exc.strerror}"
            return False
        self._syncer.wrote()
        if written < len(line):
            self._is_cut = True
            self._problem = f"{self._rules.path} cannot be written: the disk took a part of a line"
            return written == len(line) - 1  # all but its end: a reader will take it for what it is
        return True

    def _keep(self, line: bytes) -> None:
        if self._waiting_bytes + len(line) > MAX_WAITING_BYTES:
            self.lost += 1
            return
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    def _try_again(self) -> None:
        if self._fd == _NONE:
            return
        if self._is_cut:
            if not self._end_line():
                return
            self._is_cut = False
        while self._waiting:
            if not self._write(self._waiting[0]):
                return
            self._waiting_bytes -= len(self._waiting.popleft())
        if not self._is_cut:
            self._problem = None

    def _end_line(self) -> bool:
        with suppress(OSError):
            return os.write(self._fd, b"\n") == 1
        return False

    def _open(self) -> None:
        path = self._rules.path
        try:
            fd = os.open(path, _FLAGS, MODE)
        except OSError as exc:
            self._problem = f"{path} cannot be opened: {exc.strerror}"
            self._switch(_NONE, 0)
            return
        try:
            flock(fd, LOCK_SH | LOCK_NB)  # held as long as it is open: nobody rewrites the file meanwhile
            self.torn_bytes += mend_end(fd, path, self._clock.wall())
            inode = os.fstat(fd).st_ino
        except OSError as exc:
            os.close(fd)
            busy = isinstance(exc, BlockingIOError)
            self._problem = f"{path} is being repaired" if busy else f"{path} cannot be used: {exc.strerror}"
            self._switch(_NONE, 0)
            return
        self._is_cut = False
        self._problem = None
        self._switch(fd, inode)

    def _switch(self, fd: int, inode: int) -> None:
        self._fd, self._inode = fd, inode
        self._first_day = None
        self._syncer.switch(fd)

    def _is_current(self) -> bool:
        """Whether the path still names the file that is open: another process may have rotated it away."""
        try:
            return self._rules.path.stat().st_ino == self._inode
        except OSError:
            return False

    def _is_due(self) -> bool:
        rules = self._rules
        size = os.fstat(self._fd).st_size
        if size == 0:
            return False
        if rules.rotate_bytes is not None and size >= rules.rotate_bytes:
            return True
        return rules.day_of is not None and self._day_begun(rules.day_of) != rules.day_of(self._clock.wall())

    def _day_begun(self, day_of: Callable[[float], str]) -> str:
        """The day of the file's first line."""
        if self._first_day is None:
            first = os.pread(self._fd, 4096, 0).partition(b"\n")[0]
            try:
                self._first_day = day_of(ROWS.decode(first).ts)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self._first_day = day_of(self._clock.wall())
        return self._first_day

    def _rotate(self) -> None:
        """Rename the file; who has it open goes on writing to it until it looks at the name again: no line is lost."""
        path = self._rules.path
        try:
            with sole(path) as is_ours:
                if is_ours and self._is_current():
                    if not is_ended(self._fd):
                        os.write(self._fd, b"\n")
                    path.rename(rotated_name(path, self._clock.wall()))
        except OSError as exc:
            self._problem = f"{path} cannot be rotated: {exc.strerror}"
            return
        self._open()
