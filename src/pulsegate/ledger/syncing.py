"""Has the disk keep what was written, in a thread of its own: a slow disk must not hold up the event loop."""

import os
import threading
from contextlib import suppress
from enum import StrEnum
from typing import Final

CLOSE_PATIENCE_S: Final = 5.0


class Fsync(StrEnum):
    """When lines must be on the disk: what a power failure may take. A crash of ours takes nothing in any case."""

    INTERVAL = "interval"
    ALWAYS = "always"
    NEVER = "never"


class Syncer:
    """Owns the descriptors that it is given: they are closed here, after their last sync.

    With ``ALWAYS`` a sync begins with each line; lines that come while one is under way share the next.
    """

    def __init__(self, fsync: Fsync, interval_s: float) -> None:
        self._each_line = fsync is Fsync.ALWAYS
        self._is_wanted = fsync is not Fsync.NEVER
        self._interval_s = interval_s
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._fd = -1
        self._old: list[int] = []
        self._is_dirty = False
        self._thread: threading.Thread | None = None
        self.trouble: str | None = None
        self.count = 0

    def switch(self, fd: int) -> None:
        """From now on lines go to ``fd``; the former one is synced and closed. -1: to none."""
        former, self._fd = self._fd, fd
        if former < 0:
            return
        if not self._is_wanted:
            os.close(former)
            return
        self._old.append(former)
        self._wake.set()
        self._start()

    def wrote(self) -> None:
        """A line was written."""
        if self._is_dirty or not self._is_wanted:
            return
        self._is_dirty = True
        if self._thread is None:
            self._start()
        if self._each_line:
            self._wake.set()

    def close(self) -> None:
        """Sync what is left and end, within a few seconds."""
        self.switch(-1)
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_PATIENCE_S)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ledger-fsync", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            if self._each_line:
                self._wake.wait()
                self._wake.clear()
            else:
                self._ending.wait(self._interval_s)
            self._sync()
        self._sync()

    def _sync(self) -> None:
        if self._is_dirty:
            self._is_dirty = False  # before the sync: what is written meanwhile is synced next time
            fd = self._fd
            if fd >= 0:
                self._sync_one(fd)
        while self._old:
            fd = self._old[0]
            self._sync_one(fd)
            with suppress(OSError):
                os.close(fd)
            self._old.pop(0)

    def _sync_one(self, fd: int) -> None:
        try:
            os.fsync(fd)
        except OSError as exc:
            self.trouble = f"fsync failed: {exc.strerror}"
        else:
            self.trouble = None
            self.count += 1
