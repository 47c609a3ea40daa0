"""Which rule a request falls under."""

import random

from pulsegate.sim import read_script
from pulsegate.sim.matching import RuleBook, Sight
from pulsegate.sim.request import Request
from pulsegate.sim.script import Group

GEN = frozenset({Group.GEN})


def chosen(script: str, *sights: dict, flags=()) -> list[str | None]:
    """The names of the rules chosen for these requests, in order."""
    book = RuleBook(read_script(script).rules, since=0.0)
    rng, names = random.Random(1), []
    for sight in sights:
        request = Request("POST", "/v1/completions", "", sight.pop("headers", {}), b"", **sight.pop("line", {}))
        request.json = sight.pop("json", {})
        choice = book.choose(request, Sight(**({"groups": GEN, "now": 0.0} | sight)), set(flags), rng)
        names.append(choice.rule.name if choice else None)
    return names


def test_without_a_path_generations_are_meant():
    script = "[{name: a, do: hang}]"
    assert chosen(script, {}, {"groups": frozenset({Group.HEALTH})}) == ["a", None]


def test_any_means_every_request_but_no_event_of_the_connection():
    script = "[{name: a, match: {path: any}, do: hang}]"
    groups = [Group.HEALTH, Group.METRICS, Group.ANY, Group.CONNECT, Group.ABORT]
    assert chosen(script, *({"groups": frozenset({group})} for group in groups)) == ["a", "a", "a", None, None]


def test_counts_are_of_requests_that_meet_the_other_conditions():
    script = "[{name: first, match: {to: 1}, do: hang}, {name: long, match: {longer_than: 3, from: 2}, do: hang}]"
    sights = [{"prompt": text} for text in ("abcd", "ab", "abcd", "abcd", "ab")]
    assert chosen(script, *sights) == ["first", None, "long", "long", None]


def test_every_kth():
    assert chosen("[{name: a, match: {every: 3}, do: hang}]", *({} for _ in range(7))) == [
        None,
        None,
        "a",
        None,
        None,
        "a",
        None,
    ]


def test_time_windows():
    script = "[{name: a, match: {after: 5s, until: 10s}, do: hang}]"
    assert chosen(script, *({"now": at} for at in (4.9, 5.0, 9.9, 10.0))) == [None, "a", "a", None]


def test_flags():
    script = "[{name: a, match: {flag: x}, do: hang}, {name: b, match: {no_flag: y}, do: hang}]"
    assert chosen(script, {}, flags={"x"}) == ["a"]
    assert chosen(script, {}, flags={"y"}) == [None]
    assert chosen(script, {}) == ["b"]


def test_what_the_request_asks_for():
    script = """
    - {name: short, match: {max_tokens_below: 16}, do: hang}
    - {name: logprobs, match: {has_field: logprobs}, do: hang}
    - {name: stream, match: {stream: true}, do: hang}
    - {name: rank, match: {rank: 1}, do: hang}
    """
    sights = [
        {"max_tokens": 1},
        {"max_tokens": 16, "json": {"logprobs": 1}},
        {"json": {"logprobs": None}},
        {"stream": True},
        {"rank": 1},
    ]
    assert chosen(script, *sights) == ["short", "logprobs", None, "stream", "rank"]


def test_who_asks():
    script = "[{name: probe, match: {probe: true}, do: hang}, {name: tenant, match: {header: {X-T: 'a.*'}}, do: hang}]"
    sights = [{"headers": {b"x-llm-probe": b"true"}}, {"headers": {b"x-t": b"abc"}}, {"headers": {b"x-t": b"b"}}]
    assert chosen(script, *sights) == ["probe", "tenant", None]


def test_what_has_happened():
    script = """
    - {name: crowd, match: {open_probes_from: 2}, do: hang}
    - {name: aborts, match: {aborts_from: 100}, do: hang}
    - {name: reused, match: {request_on_connection_from: 2, idle_over: 1s}, do: hang}
    """
    sights = [
        {"open_probes": 2},
        {"aborts": 100},
        {"line": {"number_on_connection": 2, "idle_before_s": 1.5}},
        {"line": {"number_on_connection": 2, "idle_before_s": 0.5}},
    ]
    assert chosen(script, *sights) == ["crowd", "aborts", "reused", None]


def test_chance():
    names = chosen("[{name: a, match: {probability: 0.25}, do: hang}]", *({} for _ in range(400)))
    assert 60 < names.count("a") < 140
