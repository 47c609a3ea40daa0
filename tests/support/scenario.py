"""Scenarios as text: what the engines do and when, a line of equals signs, and everything that the board made of it.

# any number of comments
pool m: a b c            endpoints of a pool
probe interval_s=3 jitter=0      fields of ProbePolicy, for all pools
ejection hold_off_s=5            fields of EjectionPolicy
0    a b: answers 20ms           from that second on; also text=..., deep=..., finish=..., cut, lag=300ms
10   a: hangs counters=frozen:1000:16:4      value, running, waiting; moving:PER_SECOND:16:4; none
20   a: pauses until=21.5        no token before
30   b: fails refused after=1ms retry=5s     any fault class
40   c: stalls                   the first token of a deep probe comes, the others do not
50   a: users tokens=20 every=0.5s for=10s   also failures=1, stalls=1, inflight=3
60   a: drain                    and undrain
until 90
====
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from pulsegate.core.events import DrainAsked, TrafficSeen
from pulsegate.core.fleet import EjectionPolicy, EndpointSpec, PoolSpec, ProbePolicy
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.probe import Counters, Ending, Fault, FaultClass
from support.core_world import Manner, World, frozen, moving

RULE = "===="


def play(path: Path) -> tuple[str, str, str]:
    """The scenario's input, the trace that it should give and the one that it gives."""
    told, _, expected = path.read_text(encoding="utf-8").partition(f"{RULE}\n")
    lines = [line for line in told.splitlines() if line.strip() and not line.startswith("#")]
    world = World(*_pools(lines))
    until = 0.0
    for line in lines:
        first, _, rest = line.partition(" ")
        if first == "until":
            until = float(rest)
        elif first not in ("pool", "probe", "ejection"):
            names, _, action = rest.partition(":")
            moment = float(first)
            for act in _acts(world, names.split(), action.split(), moment):
                world.at(*act)
    world.run(until)
    return told, expected, "".join(f"{line}\n" for line in world.trace)


def rewrite(path: Path) -> None:
    told, _, actual = play(path)
    path.write_text(f"{told}{RULE}\n{actual}", encoding="utf-8")


def _pools(lines: list[str]) -> list[PoolSpec]:
    probe, ejection = ProbePolicy(), EjectionPolicy()
    for line in lines:
        words = line.split()
        if words[0] == "probe":
            probe = replace(probe, **_settings(ProbePolicy, words[1:]))
        elif words[0] == "ejection":
            ejection = replace(ejection, **_settings(EjectionPolicy, words[1:]))
    pools: list[PoolSpec] = []
    for line in lines:
        if not line.startswith("pool "):
            continue
        name, _, members = line.removeprefix("pool ").partition(":")
        specs = tuple(
            EndpointSpec(id=EndpointId(one), pool=PoolName(name), url=f"http://{one}.test") for one in members.split()
        )
        pools.append(PoolSpec(name=PoolName(name), endpoints=specs, probe=probe, ejection=ejection))
    return pools


def _settings(cls: type, words: list[str]) -> dict[str, Any]:
    types: dict[str, Any] = {field.name: field.type for field in fields(cls)}
    parsed: dict[str, Any] = {}
    for word in words:
        name, _, value = word.partition("=")
        kind = types[name]
        parsed[name] = value == "yes" if kind is bool else str(value) if kind == str | None else kind(value)
    return parsed


def _acts(
    world: World, names: list[str], action: list[str], moment: float
) -> Iterator[tuple[float, Callable[[], None]]]:
    verb, options = action[0], dict(_option(word) for word in action[1:])
    for name in names:
        endpoint = EndpointId(name)
        match verb:
            case "drain" | "undrain":
                yield moment, _drain(world, endpoint, drain=verb == "drain")
            case "users":
                yield from _users(world, endpoint, options, moment)
            case _:
                manner = _manner(verb, options)
                yield moment, lambda name=name, manner=manner: world.set(manner, name)


def _option(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    return (name, value) if equals else ("", name) if name[0].isdigit() or name in set(FaultClass) else (name, "yes")


def _manner(verb: str, options: dict[str, str]) -> Manner:
    manner = Manner(
        text=_text(options.get("text")),
        deep_text=_text(options.get("deep")),
        finish_reason=options.get("finish", "length"),
        lag_s=_seconds(options.get("lag", "0")),
        counters=_counters(options.get("counters", "none")),
    )
    if "cut" in options:
        manner = replace(manner, ending=Ending.CUT, finish_reason=None)
    match verb:
        case "answers":
            return replace(manner, ttft_s=_seconds(options.get("", "20ms")))
        case "hangs":
            return replace(manner, ttft_s=None)
        case "pauses":
            return replace(manner, ready_at=float(options["until"]))
        case "stalls":
            return replace(manner, decodes=False)
        case "fails":
            retry = options.get("retry")
            kind = FaultClass(options[""])
            fault = Fault(
                kind=kind, detail=f"a fault: {kind}", retry_after_s=None if retry is None else _seconds(retry)
            )
            return replace(manner, ttft_s=_seconds(options.get("after", "5ms")), fault=fault)
        case _:
            raise ValueError(verb)


def _text(value: str | None) -> str | None:
    return None if value is None else value.replace("_", " ").replace("<empty>", "").replace("<?>", "\ufffd")


def _seconds(text: str) -> float:
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text.removesuffix("s"))


def _counters(text: str) -> Callable[[float], Counters | None]:
    kind, *numbers = text.split(":")
    if kind == "none":
        return lambda _at: None
    value, running, waiting = map(float, numbers)
    return (frozen if kind == "frozen" else moving)(value, running, waiting)


def _drain(world: World, endpoint: EndpointId, *, drain: bool) -> Callable[[], None]:
    return lambda: world.apply(DrainAsked(at=world.now, endpoint=endpoint, drain=drain)) and None


def _users(
    world: World, endpoint: EndpointId, options: dict[str, str], moment: float
) -> Iterator[tuple[float, Callable[[], None]]]:
    counts = {name: int(options.get(name, "0")) for name in ("tokens", "failures", "stalls", "inflight")}
    every_s, for_s = _seconds(options.get("every", "1s")), _seconds(options.get("for", "0"))

    def report() -> None:
        world.apply(TrafficSeen(at=world.now, endpoint=endpoint, **counts))

    for turn in range(int(for_s / every_s) + 1):
        yield moment + turn * every_s, report
