"""Child processes of a measurement: start, find out where they listen, weigh them, end them."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Self

TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


class Process:
    """One child with a log of its own, ended on leaving the context, with all that it started."""

    def __init__(self, command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self.log = log
        self._file: IO[bytes] = log.open("wb")
        self._popen = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
            env=None if env is None else {**os.environ, **env},  # noqa: TID251 - what we start inherits ours
            process_group=0,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def ended(self) -> bool:
        return self._popen.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def line(self, marker: str, patience_s: float = 30.0) -> dict:
        """The first line of its log that holds ``marker``, as JSON."""
        deadline = time.perf_counter() + patience_s
        while time.perf_counter() < deadline:
            whole, _, _ = self.log.read_text(errors="replace").rpartition("\n")
            for line in whole.splitlines():
                if marker in line:
                    return json.loads(line)
            if self.ended:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{self.command[:4]} said no {marker!r}; its log ends with:\n{self.tail()}")

    def await_port(self, port: int, patience_s: float = 60.0) -> None:
        """Come back when something listens there."""
        deadline = time.perf_counter() + patience_s
        while time.perf_counter() < deadline:
            if self.ended:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self.command[:4]} does not listen on {port}; its log ends with:\n{self.tail()}")

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def stop(self, grace_s: float = 10.0) -> None:
        """Ask, wait, then kill the whole group. Safe to call twice."""
        if self._popen.returncode is None:
            self._popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()


def free_ports(count: int) -> int:
    """The first of so many ports in a row that are free, below those that the kernel hands out by itself.

    For programs that cannot tell which port they took, and for servers that are to come back where they were.
    """
    while True:
        first = random.randrange(15_000, 32_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first


def tree(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text().split():
                yield from tree(int(child))


def cpu_us(pid: int) -> float:
    """CPU that a process tree has used: of those that live, and of those that ended and were waited for."""
    used = 0.0
    for member in tree(pid):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
            used += sum(int(field) for field in fields[11:15]) * TICK_US
    return used


def rss_mib(pid: int) -> float:
    """Resident memory of a process tree; pages that several of them share are counted once for each."""
    total = 0.0
    for member in tree(pid):
        with contextlib.suppress(OSError):
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1]) * PAGE_MIB
    return total
