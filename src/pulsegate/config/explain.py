"""Says in the operator's words what pydantic found wrong."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from pulsegate.config.document import Document
from pulsegate.config.errors import Problem
from pulsegate.config.redaction import KeyPath, show_key
from pulsegate.config.schema import FileSection

_WANTED = {
    "int_type": ("must be a whole number", None),
    "int_from_float": ("must be a whole number", None),
    "float_type": ("must be a number", None),
    "string_type": ("must be text", "quote it"),
    "bool_type": ("must be true or false", "write true or false"),
    "tuple_type": ("must be a list", "write [a, b], or one `- ` line for each"),
    "dict_type": ("must be a mapping", "write `key: value` lines below it"),
    "model_type": ("must be a mapping", "write `key: value` lines below it"),
    "model_attributes_type": ("must be a mapping", "write `key: value` lines below it"),
    "string_too_short": ("is empty", "set it, or remove the key"),
    "too_short": ("is empty", "list at least one, or remove the key"),
}
_LIMITS = {
    "greater_than_equal": ("ge", "must be at least"),
    "greater_than": ("gt", "must be more than"),
    "less_than_equal": ("le", "must be at most"),
    "less_than": ("lt", "must be less than"),
}


def problems(error: ValidationError, document: Document) -> Iterator[Problem]:
    """One problem for each thing that pydantic complains about, apart from what is known to be wrong already."""
    for detail in error.errors(include_url=False, include_input=False):
        path = detail["loc"]
        if not any(path[: len(known)] == known for known in document.broken):
            yield _problem(detail, path, document)


def _problem(detail: ErrorDetails, path: KeyPath, document: Document) -> Problem:
    kind, context = detail["type"], cast("Mapping[str, object]", detail.get("ctx", {}))
    if kind == "extra_forbidden":
        return _unknown_key(path, document)
    if kind == "missing":
        return document.problem(path, f"`{path[-1]}` is missing", _example(path))
    message, fix = detail["msg"], None
    if kind == "rejected":
        message, fix = str(context["message"]), cast("str | None", context["fix"])
    elif kind in _WANTED:
        message, fix = _WANTED[kind]
    elif kind in _LIMITS:
        limit, words = _LIMITS[kind]
        message = f"{words} {_limit(context[limit], path)}"
    value = document.shown(path)
    return document.problem(path, f"`{value}` {message}" if value else message, fix)


def _unknown_key(path: KeyPath, document: Document) -> Problem:
    name, known = str(path[-1]), keys_at(path[:-1])
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    fix = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
    return document.problem(path, f"unknown key `{show_key(name)}`", fix, at_key=True)


def _example(path: KeyPath) -> str | None:
    return {
        "url": "write url: http://host:port",
        "base_url": "write base_url: https://host/v1",
        "name": "write name: and the name that clients ask for",
        "cert_file": "add it: a certificate needs its key",
        "key_file": "add it: a certificate needs its key",
    }.get(str(path[-1]))


def _limit(value: object, path: KeyPath) -> str:
    """Shares are written as percentages; everything else with a limit is a count."""
    is_share = isinstance(value, float) or str(path[-1]) in {"jitter", "max_lag"}
    in_percent = str(path[-1]) in {"max_ejection", "slow_start_from", "degraded_weight", "warn_at"}
    if is_share:
        return f"{float(str(value)):.0%}"
    return f"{value}%" if in_percent else str(value)


def keys_at(path: KeyPath) -> list[str]:
    """The keys that the schema knows at that place."""
    model: type[BaseModel] | None = FileSection
    for step in path:
        if isinstance(step, str) and model is not None:
            model = next((_model_in(info) for name, info in fields(model) if name == step), None)
    return [name for name, _ in fields(model)] if model else []


def all_keys(model: type[BaseModel] = FileSection) -> frozenset[str]:
    """Every key that the schema knows anywhere."""
    found: set[str] = set()
    for name, info in fields(model):
        inner = _model_in(info)
        found |= {name} | (all_keys(inner) if inner else set())
    return frozenset(found)


def fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """The keys of a section as they are written in the file."""
    for name, info in model.model_fields.items():
        yield info.alias or name, info


def _model_in(info: FieldInfo) -> type[BaseModel] | None:
    """The section that a field holds, be it alone, optional or in a list."""
    pending: list[object] = [info.annotation]
    while pending:
        kind = pending.pop()
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
        pending.extend(get_args(kind))
    return None
