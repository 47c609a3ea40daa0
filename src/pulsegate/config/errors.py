"""What is wrong with a configuration, said so that the operator can put it right.

Every problem names the place (file, line, column), the key, what is wrong and what to do instead. All problems of a
file are reported together. Values of secrets never get into a problem.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pulsegate.config.redaction import KeyPath, show_key


def show_path(path: KeyPath) -> str:
    """A key path as people write it: ``models[0].endpoints[1].url``."""
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{show_key(step)}" for step in path)
    return shown.removeprefix(".")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong.

    ``line`` and ``column`` count from 1; 0 means that the file as a whole is meant. ``key`` is empty there too.
    ``excerpt`` is the source line with secrets masked, and ``caret`` the column in it that is meant.
    """

    file: str
    line: int
    column: int
    key: str
    message: str
    fix: str | None = None
    excerpt: str | None = None
    caret: int = 0

    @property
    def place(self) -> str:
        """``fleet.yaml:3:9``, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def as_dict(self) -> dict[str, str | int | None]:
        """The stable JSON shape of a problem: its fields by name, apart from what only a terminal needs."""
        return {name: value for name, value in asdict(self).items() if name != "caret"}

    def __str__(self) -> str:
        key = f"{self.key}: " if self.key else ""
        fix = f" ({self.fix})" if self.fix else ""
        return f"{self.place}: {key}{self.message}{fix}"


class ConfigError(Exception):
    """The operator's part to put right."""


class ConfigErrors(ConfigError):  # noqa: N818 - it is many
    """Everything that is wrong with one file, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column)))
        super().__init__("\n".join(str(problem) for problem in self.problems))
