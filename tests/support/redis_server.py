"""A real redis-server on a free port of 127.0.0.1, started and stopped (or killed, or frozen) by a test."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pulsegate.core.coordination import RedisAddress, RedisSpec

REQUIRED = "PULSEGATE_TESTS_NEED_REDIS"
"""Set where a missing redis-server is a failure and no reason to skip."""


def require_redis() -> str:
    """The binary; without one the test is skipped, or fails where ``REQUIRED`` is set."""
    binary = shutil.which("redis-server")
    if binary is None:
        why = "no redis-server here: apt-get install redis-server (or valkey-server, linked under that name)"
        if os.environ.get(REQUIRED):  # noqa: TID251 - where tests run, not how Pulsegate does
            pytest.fail(why)
        pytest.skip(why)
    return binary


def free_port() -> int:
    """Free a moment ago: redis-server cannot choose one by itself."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@dataclass
class RedisServer:
    """``settings`` are arguments of redis-server. With a ``config_file`` of the folder it is a Sentinel."""

    folder: Path
    settings: tuple[str, ...] = ()
    config_file: str | None = None
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def spec(self) -> RedisSpec:
        return RedisSpec(addresses=(RedisAddress("127.0.0.1", self.port),))

    async def start(self, within_s: float = 10.0) -> None:
        """Comes back when it answers."""
        command = [require_redis(), *((self.config_file, "--sentinel") if self.config_file else ("--save", ""))]
        command += ["--port", str(self.port), "--bind", "127.0.0.1", *self.settings]
        self._process = subprocess.Popen(  # noqa: ASYNC220, S603 - does not wait; our own words
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        async with asyncio.timeout(within_s):
            while not await self._accepts():
                assert self._process.poll() is None, f"redis-server ended: {' '.join(command)}"
                await asyncio.sleep(0.02)

    async def _accepts(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def kill(self) -> None:
        """As power failure would."""
        self._send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def stop(self) -> None:
        if self._process is not None:
            self.kill()

    def ask(self, *words: str) -> str:
        """What redis-cli says."""
        command = ["redis-cli", "-p", str(self.port), "--raw", *words]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)  # noqa: S603 - our own words
        return said.stdout.strip()

    async def until_it_says(self, wanted: str, *words: str, within_s: float = 20.0) -> None:
        """Asks until the answer holds that."""
        async with asyncio.timeout(within_s):
            while wanted not in self.ask(*words):  # noqa: ASYNC110 - another process cannot set an event
                await asyncio.sleep(0.05)

    def _send(self, sign: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(sign)
