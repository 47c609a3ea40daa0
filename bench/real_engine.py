"""Real llama.cpp engines that can be frozen, ended and started again."""

import contextlib
import signal
from collections.abc import Generator
from pathlib import Path

from bench.processes import free_ports
from pulsegate.embedded.engine import MODEL, LlamaEngine
from pulsegate.embedded.weights import Missing, find_llamacpp


class RealEngine:
    """One engine on a port that stays."""

    engine, model = "llamacpp", MODEL

    def __init__(self, weights: Path) -> None:
        self._weights = weights
        self._port = free_ports(1)
        self._engine = LlamaEngine("llama.cpp", weights, port=self._port)
        self.url = f"http://127.0.0.1:{self._port}"

    def wait_ready(self) -> None:
        self._engine.wait_ready()

    def freeze(self) -> None:
        self._engine.freeze()

    def thaw(self) -> None:
        self._engine.thaw()

    def end(self, number: signal.Signals) -> None:
        self._engine.child.signal(number)

    def start(self) -> None:
        """Returns before it has loaded its model."""
        self._engine.stop()
        self._engine = LlamaEngine("llama.cpp", self._weights, port=self._port)

    def stop(self) -> None:
        self._engine.stop()


@contextlib.contextmanager
def real_engines(count: int) -> Generator[list[RealEngine]]:
    found = find_llamacpp()
    if isinstance(found, Missing):
        raise SystemExit(f"no real engine can run here: {found.what}")
    with contextlib.ExitStack() as stack:
        engines = []
        for _ in range(count):
            engines.append(RealEngine(found.weights))
            stack.callback(engines[-1].stop)
        for engine in engines:
            engine.wait_ready()
        yield engines
