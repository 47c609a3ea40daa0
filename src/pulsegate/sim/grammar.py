"""Reads scripts (YAML, JSON or data) into the values of ``script.py``; says what it did not understand and where.

The shape of a script::

    flags: [poisoned]
    start: {refuse: 2s, deaf: 0s, loading: 1s}
    metrics: {running: 0, waiting: 6, kv_usage: 0, rise_per_s: 100}
    load: {ttft: 2s, slots: 4}
    rules:
      - name: half an answer
        match: {path: gen, from: 3}
        do: [role, {token: Hello}, hang]
"""

from collections.abc import Mapping
from typing import cast

import yaml

from pulsegate.sim.fields import Fields, ScriptError, as_items, as_mapping
from pulsegate.sim.load import Spread
from pulsegate.sim.script import Group, Match, Metered, Rule, Script, Start
from pulsegate.sim.vocabulary import read_step

__all__ = ["ScriptError", "read_script"]


def read_script(source: Mapping[str, object] | str) -> Script:
    """The script in ``source``: YAML or JSON text, or the same as data. A list stands for its rules.

    Raises:
        ScriptError: it cannot be understood; says where.
    """
    data: object = source
    if isinstance(source, str):
        try:
            data = yaml.safe_load(source)
        except yaml.YAMLError as exc:
            raise ScriptError("script", f"not YAML: {exc}") from exc
    if isinstance(data, list):
        data = {"rules": cast("object", data)}
    fields = Fields("script", as_mapping("script", cast("object", data) if data is not None else {}))
    script = Script(
        rules=_rules(fields),
        start=_start(fields),
        metered=_metered(fields),
        flags=frozenset(fields.texts("flags")),
        load=_load(fields),
    )
    fields.done()
    return script


def _rules(fields: Fields) -> tuple[Rule, ...]:
    items = as_items("rules", fields.take("rules") or [])
    return tuple(_rule(f"rules[{n}]", as_mapping(f"rules[{n}]", item)) for n, item in enumerate(items))


def _rule(where: str, data: Mapping[str, object]) -> Rule:
    fields = Fields(where, data)
    steps = fields.take("do")
    if steps is None:
        raise ScriptError(where, "needs a 'do' with its steps")
    listed = cast("list[object]", steps) if isinstance(steps, list) else [steps]
    rule = Rule(
        name=fields.text("name") or "",
        match=_match(f"{where}.match", as_mapping(f"{where}.match", fields.take("match") or {})),
        steps=tuple(read_step(f"{where}.do[{n}]", step) for n, step in enumerate(listed)),
    )
    fields.done()
    return rule


def _match(where: str, data: Mapping[str, object]) -> Match:
    fields = Fields(where, data)
    groups, paths = _paths(where, fields.texts("path"))
    nth = fields.count("nth")
    match = Match(
        groups=groups,
        paths=paths,
        nth_from=nth or fields.count("from"),
        nth_to=nth or fields.count("to"),
        every=fields.count("every"),
        after_s=fields.duration("after"),
        until_s=fields.duration("until"),
        longer_than=fields.count("longer_than"),
        max_tokens_below=fields.count("max_tokens_below"),
        has_field=fields.text("has_field"),
        header=fields.strings("header"),
        probe=fields.flag("probe"),
        stream=fields.flag("stream"),
        probability=fields.share("probability"),
        flag=fields.text("flag"),
        no_flag=fields.text("no_flag"),
        request_on_connection_from=fields.count("request_on_connection_from"),
        idle_over_s=fields.duration("idle_over"),
        open_probes_from=fields.count("open_probes_from"),
        aborts_from=fields.count("aborts_from"),
        rank=fields.count("rank"),
    )
    fields.done()
    return match


def _paths(where: str, names: list[str]) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    groups = [Group(name) for name in names if name in set(Group)]
    paths = [name for name in names if name.startswith("/")]
    for name in names:
        if name not in set(Group) and not name.startswith("/"):
            known = ", ".join(Group)
            raise ScriptError(f"{where}.path", f"{name!r} is neither a path (/...) nor one of {known}")
    return tuple(groups), tuple(paths)


def _start(fields: Fields) -> Start | None:
    inner = fields.inner("start")
    if inner is None:
        return None
    start = Start(
        refuse_s=inner.duration("refuse") or 0.0,
        deaf_s=inner.duration("deaf") or 0.0,
        loading_s=inner.duration("loading") or 0.0,
    )
    inner.done()
    return start


def _metered(fields: Fields) -> Metered:
    inner = fields.inner("metrics")
    if inner is None:
        return Metered()
    metered = Metered(
        running=inner.count("running"),
        waiting=inner.count("waiting"),
        kv_usage=inner.share("kv_usage"),
        rise_per_s=inner.number("rise_per_s") or 0.0,
    )
    inner.done()
    return metered


def _load(fields: Fields) -> dict[str, object]:
    """The fields of ``Load`` that are named, under the names of ``Load``."""
    inner = fields.inner("load")
    if inner is None:
        return {}
    ttft = inner.duration("ttft")
    sigma = inner.number("ttft_sigma") or 0.0
    found: dict[str, object] = {
        "slots": inner.count("slots"),
        "queue": inner.count("queue"),
        "ttft": Spread(median_s=ttft, sigma=sigma) if ttft is not None else None,
        "itl_s": inner.duration("itl"),
        "shared_tokens_per_s": inner.number("shared_tokens_per_s"),
        "prefill_tokens_per_s": inner.number("prefill_tokens_per_s"),
        "comment_every_s": inner.duration("comment_every"),
        "comment": inner.text("comment"),
        "hold_after_abort_s": inner.duration("hold_after_abort"),
        "web_threads": inner.count("web_threads"),
        "keep_alive_s": inner.duration("keep_alive"),
        "priorities": inner.flag("priorities"),
        "max_model_len": inner.count("max_model_len"),
        "reply_tokens": inner.count("reply_tokens"),
    }
    inner.done()
    return {name: value for name, value in found.items() if value is not None}
