"""Takes typed fields out of parsed YAML and complains about what is left."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import cast

from pulsegate.sim.durations import seconds

BARE = "_"  # the field that keeps the value of a step that was given without names


class ScriptError(Exception):
    """A script cannot be understood: ``where`` in it, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where


def as_mapping(where: str, value: object) -> Mapping[str, object]:
    """``value`` if it is a mapping with text keys."""
    if not isinstance(value, Mapping):
        raise ScriptError(where, f"a mapping is expected, not {shown(value)}")
    found = cast("Mapping[object, object]", value)
    for key in found:
        if not isinstance(key, str):
            raise ScriptError(where, f"{key!r} is not a name; quote it")
    return cast("Mapping[str, object]", found)


def as_items(where: str, value: object) -> list[object]:
    """``value`` if it is a list."""
    if not isinstance(value, list):
        raise ScriptError(where, f"a list is expected, not {shown(value)}")
    return cast("list[object]", value)


def shown(value: object) -> str:
    """A value as a message shows it, shortened."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."  # noqa: PLR2004 - a message fits a line


def unknown(where: str, name: str, known: list[str]) -> ScriptError:
    """The complaint about a name that means nothing, with the nearest that does."""
    known = [each for each in known if each != BARE]
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(sorted(known))}"
    return ScriptError(where, f"unknown key {name!r}{hint}")


class Fields:
    """A mapping whose fields are taken out one by one; :meth:`done` names what nobody took."""

    def __init__(self, where: str, data: Mapping[str, object]) -> None:
        self.where = where
        self._data = dict(data)
        self._known: list[str] = []

    def __repr__(self) -> str:
        return f"Fields({self.where}, {sorted(self._data)} left)"

    def take(self, name: str) -> object:
        """The value, whatever it is; None if it is not there."""
        self._known.append(name)
        return self._data.pop(name, None)

    def has(self, name: str) -> bool:
        """Whether it is there and not taken yet; None counts."""
        return name in self._data

    def done(self) -> None:
        """Complain about what is left."""
        for name in self._data:
            raise unknown(self.where, name, self._known)

    def _bad(self, name: str, expected: str, value: object) -> ScriptError:
        return ScriptError(f"{self.where}.{name}", f"{expected} is expected, not {shown(value)}")

    def text(self, name: str) -> str | None:
        """A text."""
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self._bad(name, "a text", value)
        return value

    def texts(self, name: str) -> list[str]:
        """A text or a list of them."""
        value = self.take(name)
        if value is None:
            return []
        items: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
        texts = [item for item in items if isinstance(item, str)]
        if len(texts) < len(items):
            raise self._bad(name, "a text or a list of texts", items)
        return texts

    def strings(self, name: str) -> dict[str, str]:
        """A mapping of texts; numbers are written out."""
        value = self.take(name)
        if value is None:
            return {}
        return {key: str(item) for key, item in as_mapping(f"{self.where}.{name}", value).items()}

    def count(self, name: str) -> int | None:
        """A whole number, 0 or more."""
        value = self.take(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise self._bad(name, "a whole number", value)
        return value

    def number(self, name: str) -> float | None:
        """A number, 0 or more."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise self._bad(name, "a number", value)
        return float(value)

    def share(self, name: str) -> float | None:
        """A number between 0 and 1."""
        value = self.number(name)
        if value is not None and value > 1:
            raise self._bad(name, "a number between 0 and 1", value)
        return value

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self._bad(name, "true or false", value)
        return value

    def duration(self, name: str) -> float | None:
        """Seconds."""
        value = self.take(name)
        if value is None:
            return None
        try:
            return seconds(value)
        except ValueError as exc:
            raise ScriptError(f"{self.where}.{name}", str(exc)) from exc

    def inner(self, name: str) -> "Fields | None":
        """The fields of a mapping inside."""
        value = self.take(name)
        if value is None:
            return None
        where = f"{self.where}.{name}"
        return Fields(where, as_mapping(where, value))
