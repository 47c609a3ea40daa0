"""Decides which rule of a script a request falls under."""

import random
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pulsegate.sim.request import Request
from pulsegate.sim.script import Group, Match, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a rule can ask about, besides the request itself. ``prompt`` is None where there is none."""

    groups: frozenset[Group]
    now: float
    prompt: str | None = None
    max_tokens: int | None = None
    stream: bool = False
    rank: int | None = None
    open_probes: int = 0
    aborts: int = 0


@dataclass(slots=True)
class _Entry:
    rule: Rule
    seen: int = 0
    played: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The rule to play and how often it has been played, this time included."""

    rule: Rule
    turn: int


class RuleBook:
    """The rules of a script with their counts."""

    __slots__ = ("_entries", "since")

    def __init__(self, rules: Iterable[Rule], since: float) -> None:
        self._entries = [_Entry(rule) for rule in rules]
        self.since = since

    def __bool__(self) -> bool:
        return bool(self._entries)

    def choose(self, request: Request, sight: Sight, flags: AbstractSet[str], rng: random.Random) -> Choice | None:
        """The first rule whose conditions all hold; every rule counts what meets its other conditions."""
        chosen: Choice | None = None
        for entry in self._entries:
            match = entry.rule.match
            if not (_where(match, request, sight) and _what(match, request, sight)):
                continue
            if not (_when(match, sight.now - self.since) and _state(match, sight, flags) and _line(match, request)):
                continue
            entry.seen += 1
            if chosen is None and _turn(match, entry.seen) and _chance(match, rng):
                entry.played += 1
                chosen = Choice(entry.rule, entry.played)
        return chosen


def _where(match: Match, request: Request, sight: Sight) -> bool:
    if match.groups or match.paths:
        wanted = request.path in match.paths or not sight.groups.isdisjoint(match.groups)
        return wanted or (Group.ANY in match.groups and not sight.groups & {Group.CONNECT, Group.ABORT})
    return Group.GEN in sight.groups


def _what(match: Match, request: Request, sight: Sight) -> bool:
    if match.longer_than is not None and (sight.prompt is None or len(sight.prompt) <= match.longer_than):
        return False
    if match.max_tokens_below is not None and (sight.max_tokens or match.max_tokens_below) >= match.max_tokens_below:
        return False
    if match.has_field is not None and request.json.get(match.has_field) in (None, False):
        return False
    told = ((match.probe, request.is_probe), (match.stream, sight.stream), (match.rank, sight.rank))
    if any(wanted is not None and wanted != seen for wanted, seen in told):
        return False
    return all(_has_header(request, name, pattern) for name, pattern in match.header.items())


def _has_header(request: Request, name: str, pattern: str) -> bool:
    value = request.headers.get(name.lower().encode())
    return value is not None and re.fullmatch(pattern, value.decode("latin-1")) is not None


def _when(match: Match, age_s: float) -> bool:
    return (match.after_s is None or age_s >= match.after_s) and (match.until_s is None or age_s < match.until_s)


def _state(match: Match, sight: Sight, flags: AbstractSet[str]) -> bool:
    if match.open_probes_from is not None and sight.open_probes < match.open_probes_from:
        return False
    if match.aborts_from is not None and sight.aborts < match.aborts_from:
        return False
    return (match.flag is None or match.flag in flags) and match.no_flag not in flags


def _line(match: Match, request: Request) -> bool:
    """Conditions about the connection that the request came in on."""
    nth, idle_s = match.request_on_connection_from, match.idle_over_s
    return (nth is None or request.number_on_connection >= nth) and (idle_s is None or request.idle_before_s > idle_s)


def _turn(match: Match, seen: int) -> bool:
    if match.nth_from is not None and seen < match.nth_from:
        return False
    if match.nth_to is not None and seen > match.nth_to:
        return False
    return match.every is None or seen % match.every == 0


def _chance(match: Match, rng: random.Random) -> bool:
    return match.probability is None or rng.random() < match.probability
