"""Durations, sizes and shares, written with their units; and the types of the schema that are made of them.

A bare number is refused: nobody can tell whether ``timeout: 5`` means seconds or milliseconds. What is raised here says
what is wrong without repeating the value, which may be a secret; the caller shows the value as it stands in the file.
"""

import re
from collections.abc import Callable
from decimal import Decimal
from difflib import get_close_matches
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from pulsegate.config.environment import FromEnvironment

_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]+)")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_MAX_DURATION_S = 366 * 86400

E = TypeVar("E", bound=StrEnum)


def rejected(message: str, fix: str | None = None) -> PydanticCustomError:
    """What is wrong with a value (a phrase that follows the value) and what to write instead."""
    return PydanticCustomError("rejected", "{message}", {"message": message, "fix": fix})


def seconds(value: object) -> float:
    """``1.5s``, ``200ms``, ``2m``, ``1h``, ``1h30m`` in seconds."""
    text = _text_with_unit(value, "3s, 200ms, 2m or 1h", lambda bare: f"write {bare}s or {bare}ms")
    if not _DURATION.fullmatch(text):
        raise rejected("is not a duration", "write it with its unit: 3s, 200ms, 2m or 1h")
    total = sum((Decimal(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text)), Decimal(0))
    if total <= 0:
        raise rejected("must be longer than nothing")
    if total > _MAX_DURATION_S:
        raise rejected("is longer than a year")
    return float(total)


def size_bytes(value: object) -> int:
    """``32MiB``, ``500 kB`` in bytes."""
    text = _text_with_unit(value, "32MiB or 512KiB", lambda bare: f"write {bare}B, or for example 32MiB")
    match = _SIZE.fullmatch(text)
    if match is None:
        raise rejected("is not a size", "write it with its unit: 32MiB or 512KiB")
    unit = match[2]
    if unit not in _BYTES:
        nearest = next((known for known in _BYTES if known.lower() in {unit.lower(), f"{unit.lower()}b"}), "MiB")
        raise rejected(f"has a unit that is not known, {unit}", f"write {nearest}; known are {', '.join(_BYTES)}")
    size = int(Decimal(match[1]) * _BYTES[unit])
    if size < 1:
        raise rejected("must be at least one byte")
    return size


def percent(value: object) -> float:
    """``50%`` as a share of one."""
    text = _text_with_unit(value, "50%", _with_percent_sign)
    if not text.endswith("%") or not _NUMBER.fullmatch(text[:-1].rstrip()):
        raise rejected("is not a share", "write a percentage: 50%")
    share = float(Decimal(text[:-1].rstrip()) / 100)
    if not 0 <= share <= 1:
        raise rejected("must be between 0% and 100%")
    return share


def whole_percent(value: object) -> int:
    """``50%`` as 50."""
    share = percent(value) * 100
    if abs(share - round(share)) > 1e-9:  # noqa: PLR2004 - what binary fractions lose
        raise rejected("must be a whole percentage")
    return round(share)


def number(value: object) -> object:
    """Lets a number come from the environment, where everything is text."""
    if isinstance(value, FromEnvironment):
        return int(value) if re.fullmatch(r"[-+]?\d+", value) else str(value)
    return value


def switch(value: object) -> object:
    """Lets a boolean come from the environment, where everything is text."""
    if isinstance(value, FromEnvironment):
        return {"true": True, "false": False}.get(value.lower(), str(value))
    return value


def one_of(kind: type[E]) -> BeforeValidator:
    """Takes one of the enum's words; the error names the nearest."""

    def choose(value: object) -> object:
        words = [member.value for member in kind]
        if isinstance(value, str):
            if value in words:
                return kind(value)
            near = get_close_matches(value.lower(), words, n=1, cutoff=0.5)
            raise rejected("is not one of the choices", _choices(words, near[0] if near else None))
        raise rejected("must be a word", _choices(words, None))

    return BeforeValidator(choose)


def _choices(words: list[str], nearest: str | None) -> str:
    known = f"choose from {', '.join(words)}"
    return f"did you mean `{nearest}`? {known}" if nearest else known


def _with_percent_sign(bare: str) -> str:
    as_share = f"{float(Decimal(bare) * 100):g}%"
    return f"write {bare}%" if abs(Decimal(bare)) > 1 else f"write {as_share}"


def _text_with_unit(value: object, examples: str, mend: Callable[[str], str]) -> str:
    if isinstance(value, bool) or value is None or not isinstance(value, (str, int, float)):
        raise rejected("needs a number with a unit", f"write for example {examples}")
    text = str(value)
    if _NUMBER.fullmatch(text):
        is_shown = not isinstance(value, FromEnvironment)
        raise rejected("has no unit", mend(text) if is_shown else f"write for example {examples}")
    return text


Seconds = Annotated[float, BeforeValidator(seconds)]
Bytes = Annotated[int, BeforeValidator(size_bytes)]
Share = Annotated[float, BeforeValidator(percent)]
Percent = Annotated[int, BeforeValidator(whole_percent)]
Whole = Annotated[int, BeforeValidator(number)]
Switch = Annotated[bool, BeforeValidator(switch)]


def show_seconds(value: float) -> str:
    """The shortest way to write a duration: ``1.5s``, ``200ms``, ``30m``."""
    if value < 1:
        return f"{value * 1000:g}ms"
    for unit in ("h", "m"):
        if value % float(_SECONDS[unit]) == 0:
            return f"{value / float(_SECONDS[unit]):g}{unit}"
    return f"{value:g}s"


def show_bytes(value: int) -> str:
    """The shortest exact way to write a size."""
    for unit in ("GiB", "MiB", "KiB"):
        if value % _BYTES[unit] == 0:
            return f"{value // _BYTES[unit]}{unit}"
    return f"{value}B"
