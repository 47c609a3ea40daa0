"""The control interface, ``/_sim``: what each engine is doing, and switches for its faults."""

from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qs

from msgspec.json import encode

from pulsegate.sim.durations import seconds
from pulsegate.sim.engine import SimEngine
from pulsegate.sim.grammar import ScriptError, read_script

Query = Mapping[str, list[str]]


def administer(
    engines: Sequence[SimEngine], urls: Sequence[str], *, method: str, path: str, query: str, body: bytes
) -> tuple[int, bytes]:
    """Answer one request: status and JSON body.

    ``GET /_sim[/e0]`` shows; ``PUT /_sim/e0/script`` (YAML or JSON), ``POST /_sim/e0/freeze`` and its like act on one
    engine, without the name on all.
    """
    parts = [part for part in path.split("/") if part][1:]
    chosen = list(range(len(engines)))
    if parts and parts[0] in {engine.name for engine in engines}:
        chosen = [int(parts.pop(0)[1:])]
    verb = "/".join(parts)
    try:
        if method == "GET" and not verb:
            shown = [describe(engines[index], urls[index]) for index in chosen]
            return 200, encode({"engines": shown})
        if method == "PUT" and verb == "script":
            script = read_script(body.decode("utf-8", "replace"))
            for index in chosen:
                engines[index].set_script(script)
            return 200, encode({"ok": True, "engines": len(chosen)})
        act = _VERBS.get(verb) if method == "POST" else None
        if act is None:
            return 404, encode({"error": f"no such action: {method} {path}", "actions": sorted(_VERBS)})
        asked = parse_qs(query)
        for index in chosen:
            act(engines[index], asked)
    except (ScriptError, ValueError, IndexError) as exc:
        return 400, encode({"error": str(exc)})
    return 200, encode({"ok": True, "engines": len(chosen)})


def describe(engine: SimEngine, url: str) -> dict[str, object]:
    """One engine's state and counters."""
    return {
        "name": engine.name,
        "engine": engine.config.engine,
        "model": engine.config.model,
        "url": url,
        "phase": engine.phase.value,
        "frozen": [rank.frozen for rank in engine.ranks],
        "running": [rank.slots.taken for rank in engine.ranks],
        "waiting": [rank.slots.waiting for rank in engine.ranks],
        "flags": sorted(engine.flags),
        "rules": [rule.name for rule in engine.script.rules],
        "counters": engine.counters.as_dict(),
    }


def _duration(query: Query, name: str) -> float | None:
    return seconds(query[name][-1]) if name in query else None


def _rank(query: Query) -> int | None:
    return int(query["rank"][-1]) if "rank" in query else None


_VERBS: Mapping[str, Callable[[SimEngine, Query], None]] = {
    "freeze": lambda engine, query: engine.freeze(_rank(query)),
    "thaw": lambda engine, query: engine.thaw(_rank(query)),
    "kill": lambda engine, query: engine.crash(_duration(query, "restart"), _duration(query, "loading") or 0.0),
    "start": lambda engine, query: engine.start(_duration(query, "loading") or 0.0),
    "break": lambda engine, _query: engine.break_down(),
    "sleep": lambda engine, _query: engine.set_asleep(True),
    "wake": lambda engine, _query: engine.set_asleep(False),
    "refuse": lambda engine, query: engine.refuse_port(_duration(query, "for")),
    "deaf": lambda engine, query: engine.be_deaf(_duration(query, "for")),
    "reset": lambda engine, _query: engine.reset(),
}
