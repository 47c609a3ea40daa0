"""The catalogue as data: one YAML file per kind of failure, one entry per case.

Fields of a case::

    id, title, sources     what it is and where it was seen
    engine                 the dialect that is simulated
    speak                  the dialect that Pulsegate is told to speak, when that is another one
    from                   ``start``: it is ill from its start; else it was healthy first
    peers                  so many sound engines beside it in its pool
    everywhere             its peers are as ill as it is
    script, actions        what goes wrong: a fault script, or switches (``{do: freeze, after_s: 2}``)
    traffic                users' requests: ``prompt_chars, max_tokens, streams`` (at once), ``times``
    expect                 ``states`` one of which it must end in, ``reasons``, ``ejected``, ``passes`` states that it
                           must go through, ``never`` states that it must not, ``at_most``: counters of the engine
    cannot_know            why a prober by itself cannot come to the conclusion that an operator would; ``expect`` is
                           then what it comes to instead
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Expected:
    states: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    ejected: bool | None = None
    passes: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    at_most: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Action:
    do: str
    after_s: float = 0.0
    query: str = ""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    prompt_chars: int = 20
    max_tokens: int = 1
    streams: int = 1
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    title: str
    sources: tuple[str, ...]
    engine: str
    speak: str
    from_start: bool
    peers: int
    everywhere: bool
    script: Mapping[str, Any]
    actions: tuple[Action, ...]
    traffic: tuple[Traffic, ...]
    expect: Expected
    cannot_know: str | None


def load_cases() -> tuple[Case, ...]:
    """All cases of all kinds, in order; a field that means nothing is an error."""
    entries = [entry for path in sorted(HERE.glob("kind*.yaml")) for entry in yaml.safe_load(path.read_text())]
    return tuple(_case(dict(entry)) for entry in entries)


def _case(entry: dict[str, Any]) -> Case:
    case = Case(
        id=entry.pop("id"),
        title=entry.pop("title"),
        sources=tuple(entry.pop("sources")),
        speak=entry.pop("speak", entry["engine"]),
        engine=entry.pop("engine"),
        from_start=entry.pop("from", "health") == "start",
        peers=entry.pop("peers", 0),
        everywhere=entry.pop("everywhere", False),
        script=entry.pop("script", {}),
        actions=tuple(_action(dict(action)) for action in entry.pop("actions", ())),
        traffic=tuple(Traffic(**each) for each in entry.pop("traffic", ())),
        expect=_expected(entry.pop("expect")),
        cannot_know=entry.pop("cannot_know", None),
    )
    if entry:
        raise ValueError(f"{case.id}: unknown fields {sorted(entry)}")
    return case


def _action(action: dict[str, Any]) -> Action:
    verb, after_s = action.pop("do"), action.pop("after_s", 0.0)
    return Action(do=verb, after_s=after_s, query="&".join(f"{name}={value}" for name, value in action.items()))


def _expected(expect: dict[str, Any]) -> Expected:
    lists = {name: tuple(expect.pop(name)) for name in ("states", "reasons", "passes", "never") if name in expect}
    return Expected(**lists, **expect)
