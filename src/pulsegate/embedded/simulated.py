"""Simulated engines where no real one can run: one ``pulsegate sim`` that plays them all."""

import json
import sys
from typing import TypedDict, cast

from pulsegate.core.fleet import EngineName
from pulsegate.embedded.child import Child, ReadyPipe
from pulsegate.embedded.local_http import get, post

MODEL = "sim"
_START_TIMEOUT_S = 20.0
_SWITCH_TIMEOUT_S = 5.0


class _Engine(TypedDict):
    name: str
    url: str


class _Announcement(TypedDict):
    """The line that the simulator prints when it is ready."""

    admin: str
    engines: list[_Engine]


class SimulatedEngine:
    """One of the engines that a simulator plays; they end together."""

    dialect = EngineName.LLAMACPP
    model = MODEL

    def __init__(self, child: Child, admin_url: str, name: str, url: str) -> None:
        self._child = child
        self._switches = f"{admin_url}/_sim/{name}"
        self.url = url

    def __repr__(self) -> str:
        return f"<SimulatedEngine {self.url} {self._child!r}>"

    def freeze(self) -> str:
        """Hang its imagined compute thread."""
        self._switch("freeze")
        return f"the simulated engine at {self.url} gives no token any more"

    def thaw(self) -> None:
        """Let it run on."""
        if not self._child.ended:
            self._switch("thaw")

    def health_status(self) -> int | None:
        """What a health check that asks the web server would see."""
        try:
            return get(f"{self.url}/health", 1.0)[0]
        except OSError:
            return None

    def stop(self) -> None:
        """End it, and the others of its simulator."""
        self._child.stop()

    def _switch(self, verb: str) -> None:
        status, answer = post(f"{self._switches}/{verb}", {}, _SWITCH_TIMEOUT_S)
        if status != 200:  # noqa: PLR2004
            raise self._child.failure(f"did not {verb}: {status} {answer[:200]!r}")


def start_simulated(count: int) -> tuple[SimulatedEngine, ...]:
    """``count`` engines, each at a port of its own, that speak llama.cpp's dialect.

    Raises:
        ChildError: the simulator did not start; shows its log.
    """
    ready = ReadyPipe()
    command = [sys.executable, "-m", "pulsegate", "sim", "--engine", EngineName.LLAMACPP, "--model", MODEL]
    child = Child(
        "pulsegate sim", [*command, "--count", str(count), "--port", "0", "--ports"], stdout_fd=ready.writer_fd
    )
    ready.started()
    try:
        said = cast("_Announcement", json.loads(ready.line(child, _START_TIMEOUT_S)))
    except BaseException:
        child.stop()
        raise
    return tuple(SimulatedEngine(child, said["admin"], one["name"], one["url"]) for one in said["engines"])
