"""The text of a configuration file: where things stand in it, and how a line of it is shown without its secrets."""

import re
from dataclasses import dataclass, field

import yaml

from pulsegate.config.errors import Problem, show_path
from pulsegate.config.redaction import MASK, KeyPath, mask_comment, mask_unparsed, mask_url

_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # as YAML counts lines
_SHOWN_BEFORE = 100
_SHOWN_AFTER = 100


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file, counted from 1."""

    line: int
    column: int

    @classmethod
    def of(cls, mark: yaml.Mark) -> "Mark":
        """PyYAML counts from 0."""
        return cls(mark.line + 1, mark.column + 1)


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """From one place up to another."""

    start: Mark
    end: Mark

    def columns(self, line: int, length: int) -> tuple[int, int]:
        """The part of a line of that length that the span covers, as a slice; empty if none."""
        if not self.start.line <= line <= self.end.line:
            return (0, 0)
        first = self.start.column - 1 if self.start.line == line else 0
        return (first, self.end.column - 1 if self.end.line == line else length)


@dataclass(slots=True)
class Source:
    """One file's text. ``secrets`` is None until the text has been parsed: lines are then masked by their looks."""

    file: str
    text: str
    secrets: list[Span] | None = None
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = _LINE_BREAK.split(self.text)

    def mark_at(self, position: int) -> Mark:
        """The place of a character, given its index in the text."""
        before = _LINE_BREAK.split(self.text[:position])
        return Mark(len(before), len(before[-1]) + 1)

    def line(self, number: int) -> str:
        """A line, secrets and all; empty beyond the end."""
        return self.lines[number - 1] if number <= len(self.lines) else ""

    def problem(self, mark: Mark | None, path: KeyPath, message: str, fix: str | None = None) -> Problem:
        """A problem at that place; without one the file as a whole is meant."""
        if mark is None:
            return Problem(file=self.file, line=0, column=0, key=show_path(path), message=message, fix=fix)
        before, after = self._masked(mark) if self.secrets is None else self._spared(mark, self.secrets)
        before = before if len(before) <= _SHOWN_BEFORE else f"...{before[-_SHOWN_BEFORE:]}"
        after = after if len(after) <= _SHOWN_AFTER else f"{after[:_SHOWN_AFTER]}..."
        return Problem(
            file=self.file,
            line=mark.line,
            column=mark.column,
            key=show_path(path),
            message=message,
            fix=fix,
            excerpt=before + after,
            caret=len(before) + 1,
        )

    def _masked(self, mark: Mark) -> tuple[str, str]:
        """What stands before and after that place, masked by its looks: before the file was parsed."""
        line, cut = self.line(mark.line), mark.column - 1
        masked = mask_unparsed(self.lines, mark.line - 1) if line else ""
        return (masked[:cut], masked[cut:]) if masked[:cut] == line[:cut] else (masked, "")

    def _spared(self, mark: Mark, secrets: list[Span]) -> tuple[str, str]:
        """What stands before and after that place, without the secrets that are known."""
        line, cut = self.line(mark.line), mark.column - 1
        spans = sorted(span.columns(mark.line, len(line)) for span in secrets)
        return _without(spans, line, 0, cut), _without(spans, line, cut, len(line))


def _without(spans: list[tuple[int, int]], line: str, start: int, end: int) -> str:
    """A part of a line. No problem is ever reported in the middle of a secret, so parts do not cut one."""
    shown = ""
    for first, last in spans:
        if start <= first < min(last, end):
            shown += line[start:first] + MASK
            start = last
    return mask_comment(mask_url(shown + line[start:end]))
