"""Puts values of the environment in the place of ``${NAME}`` and ``${NAME:-default}``.

``$${`` is a literal ``${``. As in a shell, the default also stands in for a variable that is set but empty.
"""

import os
import re
from collections.abc import Mapping

_REFERENCE = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<broken>\$\{[^}]*\}?)"
)


def process_environment() -> Mapping[str, str]:
    """The environment of this process; read nowhere else."""
    return os.environ  # noqa: TID251 - this is the one place


class FromEnvironment(str):
    """Text that came (in part) from the environment: never shown, and taken for a number where one is wanted."""

    __slots__ = ()


class MissingVariablesError(Exception):
    """Variables that the text names and the environment does not have."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        super().__init__(", ".join(names))


class BrokenReferenceError(Exception):
    """Something that begins like a reference and is none."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        super().__init__(reference)


def expand(text: str, environ: Mapping[str, str]) -> str:
    """The text with its references replaced; the same object when there are none.

    Raises:
        MissingVariablesError: naming all variables that are not set and have no default.
        BrokenReferenceError: for ``${`` that is not followed by a name and ``}``.
    """
    if "${" not in text:
        return text
    missing: list[str] = []

    def value(match: re.Match[str]) -> str:
        if match["broken"] is not None:
            raise BrokenReferenceError(match["broken"])
        if match["name"] is None:
            return "${"
        found = environ.get(match["name"])
        if match["default"] is not None:
            return found or match["default"]
        if found is None:
            missing.append(match["name"])
        return found or ""

    expanded = _REFERENCE.sub(value, text)
    if missing:
        raise MissingVariablesError(tuple(dict.fromkeys(missing)))
    return FromEnvironment(expanded)
