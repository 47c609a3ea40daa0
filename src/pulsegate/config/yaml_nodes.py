"""From bytes to YAML's node tree, or to the one problem that stands in the way.

Words such as ``on`` and ``1:30`` stay text: PyYAML's YAML 1.1 would make a boolean and a number of them.
"""

import re

import yaml
from yaml.composer import Composer
from yaml.nodes import Node
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from pulsegate.config.errors import ConfigErrors, Problem
from pulsegate.config.source import Mark, Source

TAG = "tag:yaml.org,2002:"


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """YAML 1.2's core schema, by the first character of the word as PyYAML wants it."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, first, pattern in (
        ("bool", "tTfF", r"true|True|TRUE|false|False|FALSE"),
        ("int", "-+0123456789", r"[-+]?[0-9]+"),
        ("float", "-+.0123456789", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?"),
        ("null", "~nN", r"~|null|Null|NULL"),
        ("merge", "<", r"<<"),
    ):
        for char in first:
            table.setdefault(char, []).append((f"{TAG}{tag}", re.compile(rf"(?:{pattern})\Z")))
    table[""] = [(f"{TAG}null", re.compile(r"\Z"))]
    return table


class _Composer(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's pipeline up to the node tree, with resolvers of its own."""

    yaml_implicit_resolvers = _resolvers()

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)


def decode(raw: bytes, file: str) -> Source:
    """The text of the file. A byte order mark of UTF-8 is dropped.

    Raises:
        ConfigErrors: when it is not UTF-8.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigErrors([Source(file, "").problem(None, (), "is not UTF-8 but UTF-16", "save it as UTF-8")])
    try:
        return Source(file, raw.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        before = Source(file, raw[: exc.start].decode("utf-8-sig"))
        message = f"is not UTF-8 text: byte 0x{raw[exc.start]:02x}"
        raise ConfigErrors([before.problem(before.mark_at(exc.start), (), message, "save it as UTF-8")]) from exc


def compose(source: Source) -> Node:
    """The tree of the file's only document.

    Raises:
        ConfigErrors: when it is empty or not YAML.
    """
    try:
        root = _Composer(source.text).get_single_node()
    except ReaderError as exc:
        mark = source.mark_at(exc.position)
        message = f"is not text: it holds the control character U+{ord(source.text[exc.position]):04X}"
        raise ConfigErrors([source.problem(mark, (), message, "remove it")]) from exc
    except yaml.MarkedYAMLError as exc:
        raise ConfigErrors([_syntax_problem(exc, source)]) from exc
    except RecursionError as exc:
        raise ConfigErrors([source.problem(None, (), "is nested too deeply")]) from exc
    if root is None:
        raise ConfigErrors([source.problem(None, (), "is empty", "begin with `models:`")])
    return root


def _syntax_problem(exc: yaml.MarkedYAMLError, source: Source) -> Problem:
    where = exc.problem_mark or exc.context_mark
    mark = Mark.of(where) if where else None
    line = source.line(mark.line) if mark else ""
    said = " ".join(part for part in (exc.context, exc.problem) if part)
    message, fix = f"is not valid YAML: {said}", "problems further down show once this one is solved"
    if mark and line[mark.column - 1 : mark.column] == "\t":
        message, fix = "a tab where YAML wants spaces", "indent with spaces"
    elif "undefined alias" in said:  # its name may be a secret that begins with *
        message, fix = (
            "is not valid YAML: an alias (`*...`) that is not defined",
            "quote text that begins with * & or !",
        )
    elif "expected a single document" in said:
        message, fix = "a second document begins here", "keep one document per file: remove this `---`"
    elif re.search(r"[{\[].*[^\"']\$\{", line):
        fix = 'inside {...} and [...] quote references: "${NAME}"'
    elif "mapping values are not allowed" in said:
        fix = "check the indentation, and quote text that holds `: `"
    return source.problem(mark, (), message, fix)
