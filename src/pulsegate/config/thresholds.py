"""Which thresholds must come before which, for the file as a whole and for each model with its overrides."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from pulsegate.config import raw
from pulsegate.config.document import Document
from pulsegate.config.errors import Problem
from pulsegate.config.policies import EJECTION, PROBE, EjectionSection, ProbeSection
from pulsegate.config.raw import Raw
from pulsegate.config.redaction import KeyPath
from pulsegate.config.units import show_seconds
from pulsegate.core.fleet import EjectionPolicy, ProbePolicy


@dataclass(frozen=True, slots=True)
class _Order:
    """``low`` must be less than ``high`` (or equal, where that makes sense)."""

    low: str
    high: str
    may_be_equal: bool = False


_PROBE_ORDER = (
    _Order("healthy_ttft", "congested_ttft", may_be_equal=True),
    _Order("congested_ttft", "timeout"),
    _Order("timeout", "interval"),
    _Order("timeout", "deep_timeout", may_be_equal=True),
    _Order("interval", "busy_interval", may_be_equal=True),
    _Order("interval", "deep_interval", may_be_equal=True),
    _Order("deep_timeout", "deep_interval"),
    _Order("interval", "startup_deadline"),
)
_EJECTION_ORDER = (_Order("hold_off", "hold_off_max", may_be_equal=True), _Order("hold_off", "flap_window"))

_Layers = list[tuple[KeyPath, frozenset[str]]]
"""Where the operator set which keys; what is set further back wins."""


def problems(document: Document) -> Iterator[Problem]:
    """Thresholds in the wrong order. A model is looked at only where it overrides something."""
    yield from _walk(document, "probe")
    yield from _walk(document, "ejection")


def _walk(document: Document, name: str) -> Iterator[Problem]:
    base = _section(document.data, name)
    if base is None:
        return
    policy = base.over(PROBE) if isinstance(base, ProbeSection) else base.over(EJECTION)
    layers: _Layers = [((name,), _set_keys(base))]
    known_wrong = set(_wrong(policy))
    yield from (_problem(document, order, policy, layers) for order in _ordered(known_wrong))
    for path, model in raw.mappings(document.data, "models"):
        section = _section(model, name) if name in model else None
        if section is None:
            continue
        own = _over(section, policy)
        own_layers: _Layers = [*layers, ((*path, name), _set_keys(section))]
        wrong = set(_wrong(own)) - known_wrong
        yield from (_problem(document, order, own, own_layers) for order in _ordered(wrong))


def _section(holder: Raw, name: str) -> ProbeSection | EjectionSection | None:
    """The section, or None if the schema has complaints about it."""
    kind = ProbeSection if name == "probe" else EjectionSection
    try:
        return kind.model_validate(holder.get(name, {}))
    except ValidationError:
        return None


def _over(section: ProbeSection | EjectionSection, base: ProbePolicy | EjectionPolicy) -> ProbePolicy | EjectionPolicy:
    match section, base:
        case ProbeSection(), ProbePolicy():
            return section.over(base)
        case EjectionSection(), EjectionPolicy():
            return section.over(base)
        case _:
            return base


def _set_keys(section: ProbeSection | EjectionSection) -> frozenset[str]:
    return frozenset(name.removesuffix("_s") for name in section.model_fields_set)


def _wrong(policy: ProbePolicy | EjectionPolicy) -> Iterator[_Order]:
    for order in _PROBE_ORDER if isinstance(policy, ProbePolicy) else _EJECTION_ORDER:
        low, high = _value(policy, order.low), _value(policy, order.high)
        if order.high == "deep_interval" and high == 0:
            continue  # switched off
        if low > high or (low == high and not order.may_be_equal):
            yield order


def _ordered(wrong: set[_Order]) -> list[_Order]:
    return [order for order in (*_PROBE_ORDER, *_EJECTION_ORDER) if order in wrong]


def _value(policy: ProbePolicy | EjectionPolicy, key: str) -> float:
    return cast("float", getattr(policy, f"{key}_s"))


def _problem(document: Document, order: _Order, policy: ProbePolicy | EjectionPolicy, layers: _Layers) -> Problem:
    """Blames the key that the operator set last; the other one may be a default."""
    low, high = show_seconds(_value(policy, order.low)), show_seconds(_value(policy, order.high))
    bound = "at least" if order.may_be_equal else "more than"
    other_bound = "at most" if order.may_be_equal else "less than"
    for path, keys in reversed(layers):
        if order.high in keys:
            message = f"is {high} and must be {bound} `{order.low}`, {_origin(order.low, low, layers)}"
            return document.problem((*path, order.high), message, f"raise it above {low}, or lower `{order.low}`")
        if order.low in keys:
            message = f"is {low} and must be {other_bound} `{order.high}`, {_origin(order.high, high, layers)}"
            return document.problem((*path, order.low), message, f"lower it below {high}, or raise `{order.high}`")
    raise AssertionError(f"the defaults are out of order: {order}")


def _origin(key: str, value: str, layers: _Layers) -> str:
    return value if any(key in keys for _, keys in layers) else f"{value} by default"
