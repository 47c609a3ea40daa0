"""Reads YAML into plain data and remembers where everything stands.

Decides what is well-formed: text in UTF-8, one YAML 1.2-like document, no duplicate keys, references to the
environment that exist. Does not decide what the keys mean. Words such as ``on`` and ``1:30`` stay text (PyYAML's
YAML 1.1 would make a boolean and a number of them).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from pulsegate.config.environment import BrokenReferenceError, MissingVariablesError, expand
from pulsegate.config.errors import ConfigErrors, KeyPath, Problem, show_path
from pulsegate.config.redaction import MASK, is_reference, is_secret, mask_line, mask_userinfo

MAX_VALUES = 200_000
"""Far more than the largest sensible fleet; aliases of aliases can grow without bound."""

_TAG = "tag:yaml.org,2002:"


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
            table.setdefault(char, []).append((f"{_TAG}{tag}", re.compile(rf"(?:{pattern})\Z")))
    table[""] = [(f"{_TAG}null", re.compile(r"\Z"))]
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


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the file, counted from 1."""

    line: int
    column: int

    @classmethod
    def of(cls, mark: yaml.Mark) -> "Mark":
        """PyYAML counts from 0."""
        return cls(mark.line + 1, mark.column + 1)


@dataclass(frozen=True, slots=True)
class _Span:
    start: Mark
    end: Mark


@dataclass(slots=True, kw_only=True)
class Document:
    """One parsed file: ``data`` is plain (dict, list, str, int, float, bool, None).

    ``broken`` are paths whose values are known to be wrong already, so that nobody complains a second time.
    """

    file: str
    lines: list[str]
    data: object = None
    broken: set[KeyPath] = field(default_factory=set[KeyPath])
    problems: list[Problem] = field(default_factory=list[Problem])
    keys: dict[KeyPath, Mark] = field(default_factory=dict[KeyPath, Mark])
    values: dict[KeyPath, Mark] = field(default_factory=dict[KeyPath, Mark])
    texts: dict[KeyPath, str] = field(default_factory=dict[KeyPath, str])
    secrets: list[_Span] = field(default_factory=list[_Span])

    def problem(self, path: KeyPath, message: str, fix: str | None = None, *, at_key: bool = False) -> Problem:
        """A problem at that path, or at the nearest place above it that stands in the file."""
        return self.problem_at(self._mark(path, at_key=at_key), path, message, fix)

    def problem_at(self, mark: Mark | None, path: KeyPath, message: str, fix: str | None = None) -> Problem:
        """A problem at that place."""
        return Problem(
            file=self.file,
            line=mark.line if mark else 0,
            column=mark.column if mark else 0,
            key=show_path(path),
            message=message,
            fix=fix,
            excerpt=self._excerpt(mark.line) if mark else None,
            caret=len(self._excerpt(mark.line, mark.column)) + 1 if mark else 0,
        )

    def line_of(self, path: KeyPath) -> int:
        """The line where that value stands."""
        mark = self._mark(path, at_key=False)
        return mark.line if mark else 0

    def shown(self, path: KeyPath) -> str | None:
        """A scalar as it stands in the file; None for secrets, lists and mappings."""
        text = self.texts.get(path)
        if text is None or (is_secret(path) and not is_reference(text)):
            return None
        return mask_userinfo(text)

    def _mark(self, path: KeyPath, *, at_key: bool) -> Mark | None:
        places = (self.keys, self.values) if at_key else (self.values, self.keys)
        for known in (path[:length] for length in range(len(path), 0, -1)):
            for marks in places:
                if known in marks:
                    return marks[known]
            places = (self.keys, self.values)  # further up, the key is what a reader looks for
        return None

    def _excerpt(self, line: int, before: int | None = None) -> str:
        """A line, or what stands in it before that column, without secrets."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        text = text if before is None else text[: before - 1]
        for span in sorted(self.secrets, key=lambda span: span.start.column, reverse=True):
            if span.start.line <= line <= span.end.line:
                start = span.start.column - 1 if span.start.line == line else 0
                end = span.end.column - 1 if span.end.line == line else len(text)
                text = text[:start] + MASK + text[end:] if start < min(end, len(text)) else text
        return mask_userinfo(text) if self.values else mask_line(text)


def parse(raw: bytes, file: str, environ: Mapping[str, str]) -> Document:
    """Reads one file's bytes. ``document.problems`` holds what was found while there is still data to look at.

    Raises:
        ConfigErrors: when there is nothing to look at: not text, not YAML, empty, not a mapping.
    """
    text = _decode(raw, file)
    document = Document(file=file, lines=text.split("\n"))
    root = _compose(text, document)
    if root is None:
        raise ConfigErrors([document.problem_at(None, (), "is empty", "begin with `models:`")])
    builder = _Builder(document, environ)
    data = builder.build(root, ())
    if not isinstance(data, dict):
        where = Mark.of(root.start_mark)
        message = "the file must be a mapping of settings, such as `models:` and `probe:`"
        raise ConfigErrors([document.problem_at(where, (), message), *document.problems])
    document.data = cast("object", data)
    return document


def _decode(raw: bytes, file: str) -> str:
    document = Document(file=file, lines=[])
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigErrors([document.problem_at(None, (), "is not UTF-8 but UTF-16", "save it as UTF-8")])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        before = raw[: exc.start]
        mark = Mark(before.count(b"\n") + 1, exc.start - (before.rfind(b"\n") + 1) + 1)
        problem = Problem(
            file=file,
            line=mark.line,
            column=mark.column,
            key="",
            message=f"is not UTF-8 text: byte 0x{raw[exc.start]:02x}",
            fix="save it as UTF-8",
        )
        raise ConfigErrors([problem]) from exc
    return text.replace("\r\n", "\n")


def _compose(text: str, document: Document) -> Node | None:
    try:
        composer = _Composer(text)
        return composer.get_single_node()
    except yaml.reader.ReaderError as exc:
        before = text[: exc.position]
        mark = Mark(before.count("\n") + 1, exc.position - (before.rfind("\n") + 1) + 1)
        code = ord(exc.character) if isinstance(exc.character, str) else exc.character
        message = f"is not text: it holds the control character U+{code:04X}"
        raise ConfigErrors([document.problem_at(mark, (), message)]) from exc
    except yaml.MarkedYAMLError as exc:
        raise ConfigErrors([_syntax_problem(exc, document)]) from exc
    except (RecursionError, yaml.YAMLError) as exc:
        raise ConfigErrors([document.problem_at(None, (), "is nested too deeply")]) from exc


def _syntax_problem(exc: yaml.MarkedYAMLError, document: Document) -> Problem:
    where = exc.problem_mark or exc.context_mark
    mark = Mark.of(where) if where else None
    line = document.lines[mark.line - 1] if mark and mark.line <= len(document.lines) else ""
    said = " ".join(part for part in (exc.context, exc.problem) if part)
    message, fix = f"is not valid YAML: {said}", "problems further down show once this one is solved"
    if mark and line[mark.column - 1 : mark.column] == "\t":
        message, fix = "a tab where YAML wants spaces", "indent with spaces"
    elif "expected a single document" in said:
        message, fix = "a second document begins here", "keep one document per file: remove this `---`"
    elif re.search(r"[{\[].*[^\"']\$\{", line):
        fix = 'inside {...} and [...] quote references: "${NAME}"'
    elif "mapping values are not allowed" in said:
        fix = "check the indentation, and quote text that holds `: `"
    return document.problem_at(mark, (), message, fix)


class _Builder:
    """Turns nodes into plain data, filling in the document's marks and problems."""

    def __init__(self, document: Document, environ: Mapping[str, str]) -> None:
        self._document = document
        self._environ = environ
        self._open: set[int] = set()
        self._count = 0

    def build(self, node: Node, path: KeyPath) -> object:
        self._count += 1
        if self._count > MAX_VALUES:
            message = f"holds more than {MAX_VALUES:,} values"
            raise ConfigErrors([self._document.problem_at(None, (), message, "look for aliases (`*name`) of aliases")])
        self._document.values[path] = Mark.of(node.start_mark)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            return self._refuse(node, path, "contains itself", "remove the alias")
        self._open.add(id(node))
        try:
            match node:
                case MappingNode():
                    return self._mapping(node, path)
                case SequenceNode():
                    return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
                case _:
                    return None
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, object]:
        built: dict[str, object] = {}
        for key, value in self._pairs(node, path):
            name = key.value
            self._document.keys[*path, name] = Mark.of(key.start_mark)
            built[name] = self.build(value, (*path, name))
        return built

    def _pairs(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[ScalarNode, Node]]:
        """The mapping's own keys after those that it merges in with ``<<``, each name once."""
        merged: dict[str, tuple[ScalarNode, Node]] = {}
        own: dict[str, tuple[ScalarNode, Node]] = {}
        for key, value in cast("list[tuple[Node, Node]]", node.value):
            if key.tag == f"{_TAG}merge":
                merged = dict(self._merged(value, path)) | merged
            elif not isinstance(key, ScalarNode) or key.tag == f"{_TAG}null":
                self._refuse(key, path, "a key must be a word", "quote it, or check the braces")
            elif key.value in own:
                first = own[key.value][0].start_mark.line + 1
                self._refuse(key, (*path, key.value), f"is set twice, first on line {first}", "keep one of them")
            else:
                own[key.value] = (key, value)
        yield from (merged | own).values()

    def _merged(self, value: Node, path: KeyPath) -> Iterator[tuple[str, tuple[ScalarNode, Node]]]:
        sources = cast("list[Node]", value.value) if isinstance(value, SequenceNode) else [value]
        for source in reversed(sources):
            if not isinstance(source, MappingNode):
                self._refuse(source, path, "`<<` needs a mapping", "merge an alias of a mapping: `<<: *name`")
            elif id(source) in self._open:
                self._refuse(source, path, "contains itself", "remove the alias")
            else:
                self._open.add(id(source))
                yield from ((key.value, (key, item)) for key, item in self._pairs(source, path))
                self._open.discard(id(source))

    def _scalar(self, node: ScalarNode, path: KeyPath) -> object:
        text = cast("str", node.value)
        self._document.texts[path] = text
        if is_secret(path) and not is_reference(text):
            self._document.secrets.append(_Span(Mark.of(node.start_mark), Mark.of(node.end_mark)))
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return self._expand(node, path, text)
        convert = _SCALARS.get(kind)
        if convert is None:
            return self._refuse(node, path, f"carries the tag {node.tag}", "remove the tag")
        try:
            return convert(text)
        except ValueError:
            return self._refuse(node, path, f"is not what its tag {node.tag} says", "remove the tag")

    def _expand(self, node: ScalarNode, path: KeyPath, text: str) -> object:
        try:
            return expand(text, self._environ)
        except MissingVariablesError as exc:
            for name in exc.names:
                message = f"the environment variable {name} is not set"
                self._refuse(node, path, message, f"export {name}, or write ${{{name}:-default}}")
        except BrokenReferenceError as exc:
            shown = "`${`" if is_secret(path) else f"`{exc.reference}`"
            fix = "write ${NAME} or ${NAME:-default}; $${ stands for ${ itself"
            self._refuse(node, path, f"{shown} is not a reference to the environment", fix)
        return text

    def _refuse(self, node: Node, path: KeyPath, message: str, fix: str) -> None:
        self._document.broken.add(path)
        self._document.problems.append(self._document.problem_at(Mark.of(node.start_mark), path, message, fix))


def _float(text: str) -> float:
    return float(text)


_SCALARS: Mapping[str, Callable[[str], object]] = {
    "bool": lambda text: text.lower() == "true",
    "int": int,
    "float": _float,
    "null": lambda _: None,
}
