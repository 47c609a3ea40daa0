"""Engines to show Pulsegate with: real ones where they can run, else simulated ones, and it says which."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pulsegate.embedded.child import ChildError
from pulsegate.embedded.engine import MODEL, LlamaEngine, OwnEngine
from pulsegate.embedded.simulated import start_simulated
from pulsegate.embedded.weights import Missing, find_llamacpp


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFleet:
    """Running engines that serve the same ``model``; ``description`` is a line for the person who looks on."""

    engines: tuple[OwnEngine, ...]
    model: str
    description: str


@contextmanager
def start_engines(count: int, *, simulated: bool = False) -> Generator[OwnFleet]:
    """``count`` engines that are ready; all are stopped on leaving.

    Raises:
        ChildError: not even simulated ones would start.
    """
    with ExitStack() as stack:
        if simulated:
            yield _simulated(stack, count, "as asked")
            return
        found = find_llamacpp()
        if isinstance(found, Missing):
            yield _simulated(stack, count, found.what)
            return
        try:
            fleet = _llamacpp(stack, count, found.weights)
        except ChildError as exc:
            stack.close()
            fleet = _simulated(stack, count, f"llama.cpp would not start here: {exc}")
        yield fleet


def _llamacpp(stack: ExitStack, count: int, weights: Path) -> OwnFleet:
    engines: list[LlamaEngine] = []
    for number in range(1, count + 1):
        engine = LlamaEngine(f"llama.cpp {number}", weights)
        stack.callback(engine.stop)
        engines.append(engine)
    for engine in engines:
        engine.wait_ready()
    where = ", ".join(engine.url for engine in engines)
    return OwnFleet(
        engines=tuple(engines), model=MODEL, description=f"{count} real llama.cpp engines ({weights.stem}): {where}"
    )


def _simulated(stack: ExitStack, count: int, why: str) -> OwnFleet:
    engines = start_simulated(count)
    for engine in engines:
        stack.callback(engine.stop)
    where = ", ".join(engine.url for engine in engines)
    return OwnFleet(
        engines=tuple(engines), model=engines[0].model, description=f"{count} SIMULATED engines ({why}): {where}"
    )
