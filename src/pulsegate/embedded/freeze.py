"""Hang one thread of another process, the way a stuck kernel hangs an engine while its web server lives on.

ptrace(2) stops a single thread; SIGSTOP would stop them all, and a server that answers nothing is an easy case. The
thread runs on when it is thawed, and by itself when the process that froze it ends.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_PTRACE_DETACH = 17
_WALL = 0x40000000  # wait for threads too

_STAT_USER_TICKS = 11  # proc(5), /proc/PID/stat, counted from the state, which follows the name in parentheses
_STAT_SYSTEM_TICKS = 12


class FreezeError(Exception):
    """The thread could not be frozen: tracing is not permitted here, or the thread is gone."""


def thread_cpu_ticks(pid: int) -> dict[int, int]:
    """CPU time that each thread of a process has used, in clock ticks, by thread id. Empty where there is no /proc."""
    ticks: dict[int, int] = {}
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # the thread has just ended
            continue
        ticks[int(stat.parent.name)] = int(fields[_STAT_USER_TICKS]) + int(fields[_STAT_SYSTEM_TICKS])
    return ticks


def busiest_thread(before: Mapping[int, int], after: Mapping[int, int]) -> int | None:
    """The thread that used most CPU between two readings; None if none used any."""
    used = {tid: ticks - before.get(tid, 0) for tid, ticks in after.items()}
    tid = max(used, key=lambda tid: used[tid], default=None)
    return tid if tid is not None and used[tid] > 0 else None


class FrozenThread:
    """One thread, stopped until :meth:`thaw`.

    Only the thread that attached may detach, so a thread of ours holds it.
    """

    def __init__(self, tid: int) -> None:
        """Freeze thread ``tid``; it stands still on return.

        Raises:
            FreezeError: not permitted, no such thread, or not on this platform.
        """
        self.tid = tid
        self._settled = threading.Event()
        self._release = threading.Event()
        self._error: str | None = None
        self._holder = threading.Thread(target=self._hold, name=f"freeze-{tid}", daemon=True)
        self._holder.start()
        self._settled.wait()
        if self._error is not None:
            raise FreezeError(f"cannot freeze thread {tid}: {self._error}")

    def __repr__(self) -> str:
        return f"<FrozenThread {self.tid} {'frozen' if self._holder.is_alive() else 'thawed'}>"

    def thaw(self) -> None:
        """Let it run on. Safe to call twice."""
        self._release.set()
        self._holder.join()

    def _hold(self) -> None:
        try:
            libc = _attach(self.tid)
        except OSError as exc:
            self._error = exc.strerror
            return
        finally:
            self._settled.set()
        self._release.wait()
        libc.ptrace(_PTRACE_DETACH, self.tid, 0, 0)


def _attach(tid: int) -> ctypes.CDLL:
    if not sys.platform.startswith("linux"):
        raise OSError(0, "this platform cannot stop a single thread of a process")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    libc.ptrace.restype = ctypes.c_long
    for request in (_PTRACE_SEIZE, _PTRACE_INTERRUPT):
        if libc.ptrace(request, tid, 0, 0) != 0:
            errno = ctypes.get_errno()
            raise OSError(errno, os.strerror(errno))
    os.waitpid(tid, _WALL)
    return libc
