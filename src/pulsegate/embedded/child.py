"""A child process on a leash: it ends with us, its log is shown when it fails, and it leaves nothing behind."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

_LOG_TAIL_BYTES = 4000


class ChildError(Exception):
    """A child process did not do what it was started for; the message carries the end of its log."""


class Child:
    """One running child. Start it on the main thread: the leash is tied to the thread that holds it.

    Its standard input is a pipe that closes with us. Its output (but for standard output, if ``stdout_fd`` takes that)
    goes to a temporary file that has no name, so it is gone with the last process that holds it, however that ends.
    It has a process group of its own, so that Ctrl-C at the terminal reaches us alone and we decide the order in which
    things stop.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        stdout_fd: int | None = None,
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
        leash_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.name = name
        self._log: IO[bytes] = tempfile.TemporaryFile(prefix="pulsegate-")  # noqa: SIM115 # closed by stop()
        leash = [sys.executable, "-m", "pulsegate.embedded.leash", str(os.getpid()), str(int(leash_signal))]
        self._process = subprocess.Popen(  # noqa: S603 # the command is ours
            [*leash, *command],
            stdin=subprocess.PIPE,
            stdout=self._log if stdout_fd is None else stdout_fd,
            stderr=self._log,
            pass_fds=pass_fds,
            env=None if env is None else dict(env),
            process_group=0,
        )

    def __repr__(self) -> str:
        return f"<Child {self.name} pid={self.pid} exit={self._process.poll()}>"

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended, by itself or because it was stopped."""
        return self._process.poll() is not None

    def log_tail(self) -> str:
        """The end of what it has written."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), _LOG_TAIL_BYTES, max(0, size - _LOG_TAIL_BYTES)).decode(errors="replace")

    def failure(self, what: str) -> ChildError:
        """An error that shows the log."""
        code = self._process.poll()
        state = "is still running" if code is None else f"ended with {code}"
        return ChildError(f"{self.name} {what} (it {state}). Its log ends with:\n{self.log_tail()}")

    def signal(self, signum: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        self._process.send_signal(signum)

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, or None if it does not end in that time."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, grace_s: float = 5.0) -> None:
        """End it: ask, wait ``grace_s``, then kill; then whatever it has left behind. Safe to call twice."""
        if self._log.closed:
            return
        if not self.ended:
            self._process.terminate()
            self.wait(grace_s)
        with contextlib.suppress(ProcessLookupError):  # its process group is empty
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._log.close()


class ReadyPipe:
    """How a child tells that it is ready: one line through a pipe of its own, apart from its log."""

    def __init__(self) -> None:
        self._reader, self.writer_fd = os.pipe()

    def started(self) -> None:
        """The child has its end; close ours, so that its death can be seen."""
        os.close(self.writer_fd)

    def abandon(self) -> None:
        """Nobody will wait for the line."""
        os.close(self._reader)

    def line(self, child: Child, timeout_s: float) -> str:
        """The child's line; closes the pipe.

        Raises:
            ChildError: it ended or took longer than ``timeout_s``.
        """
        try:
            readable, _, _ = select.select([self._reader], [], [], timeout_s)
            if not readable:
                raise child.failure(f"was not ready after {timeout_s:.0f} s")
            data = os.read(self._reader, 4096)  # a line this short is written at once
            if not data.endswith(b"\n"):
                child.wait(1.0)
                raise child.failure("failed to start")
            return data.decode().strip()
        finally:
            os.close(self._reader)
