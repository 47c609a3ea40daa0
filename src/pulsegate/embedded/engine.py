"""What can be done with an engine that we run ourselves, and the llama.cpp one."""

import os
import signal
import sys
from pathlib import Path
from typing import Protocol

from pulsegate.core.fleet import EngineName
from pulsegate.embedded.child import Child, ChildError, ReadyPipe
from pulsegate.embedded.freeze import FreezeError, FrozenThread, busiest_thread, thread_cpu_ticks
from pulsegate.embedded.local_http import get, post

MODEL = "smollm2"
_START_TIMEOUT_S = 60.0
_FIRST_ANSWER_TIMEOUT_S = 60.0
_FIRST_ANSWER_TOKENS = 32  # long enough to see in the clock ticks which thread computes


class OwnEngine(Protocol):
    """An engine that can be hung and healed on purpose."""

    @property
    def url(self) -> str:
        """Where it listens."""
        ...

    @property
    def dialect(self) -> EngineName:
        """The dialect that it speaks."""
        ...

    def freeze(self) -> str:
        """Hang it; says in one line what was done."""
        ...

    def thaw(self) -> None:
        """Let it run on. Safe to call twice."""
        ...

    def health_status(self) -> int | None:
        """The status of its own health check, None if it does not answer within a second."""
        ...

    def stop(self) -> None:
        """End it. Safe to call twice."""
        ...


class LlamaEngine:
    """A llama.cpp server with SmolLM2-135M as a child process."""

    dialect = EngineName.LLAMACPP

    def __init__(self, name: str, weights: Path, *, port: int = 0) -> None:
        """Start it; returns at once, see :meth:`wait_ready`."""
        self._ready: ReadyPipe | None = ReadyPipe()
        self._url: str | None = None
        self._compute_tid: int | None = None
        self._frozen: FrozenThread | None = None
        self._stopped_whole = False
        command = [sys.executable, "-m", "pulsegate.embedded.llama_server", "--weights", str(weights)]
        options = ["--model", MODEL, "--port", str(port), "--ready-fd", str(self._ready.writer_fd)]
        self.child = Child(name, [*command, *options], pass_fds=[self._ready.writer_fd])
        self._ready.started()

    def __repr__(self) -> str:
        state = "frozen" if self._frozen or self._stopped_whole else "running"
        return f"<LlamaEngine {self._url or 'starting'} {state} {self.child!r}>"

    def wait_ready(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Come back when it has loaded its model and answered a first request.

        Raises:
            ChildError: it ended or took too long; shows its log.
        """
        if self._ready is None:
            return
        ready, self._ready = self._ready, None
        self._url = ready.line(self.child, timeout_s)
        before = thread_cpu_ticks(self.child.pid)
        body = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": _FIRST_ANSWER_TOKENS}
        try:
            status, answer = post(f"{self._url}/v1/completions", body, _FIRST_ANSWER_TIMEOUT_S)
        except OSError as exc:
            raise self.child.failure(f"did not answer its first request ({exc})") from exc
        if status != 200:  # noqa: PLR2004
            raise self.child.failure(f"answered its first request with {status} {answer[:200]!r}")
        self._compute_tid = busiest_thread(before, thread_cpu_ticks(self.child.pid))

    @property
    def url(self) -> str:
        """Where it listens; known once it is ready."""
        if self._url is None:
            raise ChildError(f"{self.child.name} is not ready yet")
        return self._url

    def freeze(self) -> str:
        """Hang the thread that computes, so that ``/health`` goes on; the whole process where that is forbidden."""
        if self._compute_tid is not None:
            try:
                self._frozen = FrozenThread(self._compute_tid)
            except FreezeError as exc:
                why = str(exc)
            else:
                return f"compute thread {self._compute_tid} of process {self.child.pid} stands still"
        else:
            why = "its compute thread is not known"
        self.child.signal(signal.SIGSTOP)
        self._stopped_whole = True
        return f"process {self.child.pid} stopped as a whole ({why}), so /health hangs too"

    def thaw(self) -> None:
        """Let it run on."""
        if self._frozen is not None:
            self._frozen.thaw()
            self._frozen = None
        if self._stopped_whole:
            self.child.signal(signal.SIGCONT)
            self._stopped_whole = False

    def health_status(self) -> int | None:
        """What a health check that asks the web server would see."""
        try:
            return get(f"{self.url}/health", 1.0)[0]
        except OSError:
            return None

    def kill(self) -> None:
        """End it as a crash would."""
        os.kill(self.child.pid, signal.SIGKILL)

    def stop(self) -> None:
        """End it, frozen or not."""
        self.thaw()
        if self._ready is not None:
            self._ready.abandon()
            self._ready = None
        self.child.stop()
