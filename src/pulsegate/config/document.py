"""From YAML's nodes to plain data that knows where everything stands.

Decides what is well-formed: no key twice, no tags, references to the environment that exist. Does not decide what the
keys mean.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pulsegate.config.environment import BrokenReferenceError, MissingVariablesError, expand
from pulsegate.config.errors import ConfigErrors, Problem
from pulsegate.config.redaction import KeyPath, hides, is_secret, mask_url, show_key
from pulsegate.config.source import Mark, Source, Span
from pulsegate.config.yaml_nodes import TAG, compose, decode

MAX_VALUES = 200_000
"""Far more than the largest sensible fleet; aliases of aliases can grow without bound."""

MAX_DEPTH = 32


@dataclass(slots=True)
class Document:
    """One parsed file: ``data`` is plain (dict, list, str, int, float, bool; None where the value is broken).

    ``texts`` holds scalars as they stand in the file. ``broken`` are paths whose values are known to be wrong
    already, so that nobody complains a second time.
    """

    source: Source
    known: frozenset[str] = frozenset()
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    broken: set[KeyPath] = field(default_factory=set[KeyPath])
    problems: list[Problem] = field(default_factory=list[Problem])
    keys: dict[KeyPath, Mark] = field(default_factory=dict[KeyPath, Mark])
    values: dict[KeyPath, Mark] = field(default_factory=dict[KeyPath, Mark])
    texts: dict[KeyPath, str] = field(default_factory=dict[KeyPath, str])

    def problem(self, path: KeyPath, message: str, fix: str | None = None, *, at_key: bool = False) -> Problem:
        """A problem at that path, or at the nearest place above it that stands in the file."""
        return self.source.problem(self._mark(path, at_key=at_key), path, message, fix)

    def line_of(self, path: KeyPath) -> int:
        """The line where that value stands."""
        mark = self._mark(path, at_key=False)
        return mark.line if mark else 0

    def shown(self, path: KeyPath) -> str | None:
        """A scalar as it stands in the file; None for secrets, lists and mappings."""
        text = self.texts.get(path)
        if text is None and path not in self.values:
            text = self.texts.get(path[:-1])  # a short form, such as an endpoint's URL alone
        if text is None or hides(path, text, self.known):
            return None
        return mask_url(text)

    def _mark(self, path: KeyPath, *, at_key: bool) -> Mark | None:
        places = (self.keys, self.values) if at_key else (self.values, self.keys)
        for known in (path[:length] for length in range(len(path), 0, -1)):
            for marks in places:
                if known in marks:
                    return marks[known]
            places = (self.keys, self.values)  # further up, the key is what a reader looks for
        return None


def parse(raw: bytes, file: str, environ: Mapping[str, str], known: frozenset[str]) -> Document:
    """Reads one file's bytes.

    ``known`` are all keys that there are: what stands under others is not shown. ``document.problems`` holds what was
    found while there is still data to look at.

    Raises:
        ConfigErrors: when there is nothing to look at: not text, not YAML, empty, not a mapping.
    """
    source = decode(raw, file)
    root = compose(source)
    source.secrets = list(_secrets(root, (), known, set()))
    document = Document(source, known)
    data = _Builder(document, environ).build(root, ())
    if not isinstance(data, dict):
        message = "the file must be a mapping of settings, such as `models:` and `probe:`"
        raise ConfigErrors([source.problem(Mark.of(root.start_mark), (), message, "begin with `models:`")])
    document.data = cast("dict[str, object]", data)
    return document


def _secrets(node: Node, path: KeyPath, known: frozenset[str], seen: set[int]) -> Iterator[Span]:
    """The spans of all scalars that are, or may have been meant to be, secrets."""
    if isinstance(node, ScalarNode):
        if hides(path, node.value, known):
            yield _span(node)
        return
    if id(node) in seen or len(path) > MAX_DEPTH:
        return
    seen.add(id(node))
    items = cast("list[Node | tuple[Node, Node]]", node.value)
    if is_secret(path) and _has_properties(node, items):
        yield Span(Mark.of(node.start_mark), Mark(node.start_mark.line + 1, _BEYOND))
    for index, item in enumerate(items):
        if isinstance(item, tuple):
            key, value = item
            name = cast("str", key.value) if isinstance(key, ScalarNode) else ""
            if not _names_a_header(path, name, value) if is_secret(path) else show_key(name) != name:
                yield _span(key)
            if not isinstance(key, ScalarNode):
                yield from _secrets(key, path, known, seen)
            yield from _secrets(value, (*path, name), known, seen)
        else:
            yield from _secrets(item, (*path, index), known, seen)


def _has_properties(node: Node, items: list[Node | tuple[Node, Node]]) -> bool:
    """Whether a tag or an anchor may stand before its items: ``!sk-...`` and ``&sk-...`` were meant to be values."""
    first = items[0] if items else node
    begins = first[0].start_mark if isinstance(first, tuple) else first.start_mark
    return node.tag not in _COLLECTIONS or node.start_mark.line < begins.line


def _names_a_header(path: KeyPath, name: str, value: Node) -> bool:
    """Whether a key among secrets is a header's name, and not a value that lost its colon."""
    return path[-1] == "headers" and re.fullmatch(r"[\w-]+", name) is not None and value.value != ""


def _span(node: Node) -> Span:
    return Span(Mark.of(node.start_mark), Mark.of(node.end_mark))


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
            fix = "look for aliases (`*name`) of aliases"
            raise ConfigErrors([self._document.source.problem(None, (), message, fix)])
        self._document.values[path] = Mark.of(node.start_mark)
        if isinstance(node, ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            return self._refuse(node, path, "contains itself", "remove the alias")
        if node.tag not in _COLLECTIONS:
            return self._refuse_tag(node, path)
        if len(path) > MAX_DEPTH:
            return self._refuse(node, path, "is nested too deeply", "check the braces and brackets")
        self._open.add(id(node))
        built = self._collection(node, path)
        self._open.discard(id(node))
        return built

    def _collection(self, node: Node, path: KeyPath) -> object:
        if isinstance(node, SequenceNode):
            return [self.build(item, (*path, index)) for index, item in enumerate(cast("list[Node]", node.value))]
        built: dict[str, object] = {}
        for key, value in self._pairs(cast("MappingNode", node), path):
            self._document.keys[*path, key.value] = Mark.of(key.start_mark)
            built[key.value] = self.build(value, (*path, key.value))
        return built

    def _pairs(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[ScalarNode, Node]]:
        """The mapping's own keys after those that it merges in with ``<<``, each name once."""
        merged: dict[str, tuple[ScalarNode, Node]] = {}
        own: dict[str, tuple[ScalarNode, Node]] = {}
        for key, value in cast("list[tuple[Node, Node]]", node.value):
            if key.tag == f"{TAG}merge":
                merged = dict(self._merged(value, path)) | merged
            elif not isinstance(key, ScalarNode) or key.tag == f"{TAG}null":
                self._refuse(key, path, "a key must be a word", "quote it, or check the braces")
            elif key.value in own:
                first = own[key.value][0].start_mark.line + 1
                self._refuse(key, (*path, key.value), f"is set twice, first on line {first}", "keep one of them")
            else:
                own[key.value] = (key, value)
        yield from (merged | own).values()

    def _merged(self, value: Node, path: KeyPath) -> Iterator[tuple[str, tuple[ScalarNode, Node]]]:
        sources = cast("list[Node]", value.value) if isinstance(value, SequenceNode) else [value]
        for source in reversed(sources):  # the first one named wins
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
        if node.tag == f"{TAG}str":
            return self._expand(node, path, text)
        if node.tag == f"{TAG}null":
            return self._refuse(node, path, "has no value", "give it one, or remove it")
        convert = _SCALARS.get(node.tag)
        if convert is None:
            return self._refuse_tag(node, path)
        try:
            return convert(text)
        except ValueError:
            return self._refuse(node, path, f"is not what its tag {node.tag} says", "remove the tag")

    def _expand(self, node: ScalarNode, path: KeyPath, text: str) -> object:
        try:
            return expand(text, self._environ)
        except MissingVariablesError as exc:
            for name in exc.names:
                fix = f"export {name}, or write ${{{name}:-default}}"
                self._refuse(node, path, f"the environment variable {name} is not set", fix)
        except BrokenReferenceError as exc:
            shown = "`${`" if hides(path, text, self._document.known) else f"`{exc.reference}`"
            fix = "write ${NAME} or ${NAME:-default}; $${ stands for ${ itself"
            self._refuse(node, path, f"{shown} is not a reference to the environment", fix)
        return text

    def _refuse_tag(self, node: Node, path: KeyPath) -> None:
        shown = "a tag" if is_secret(path) else f"the tag {node.tag}"
        self._refuse(node, path, f"carries {shown}", "remove it, or quote text that begins with !")

    def _refuse(self, node: Node, path: KeyPath, message: str, fix: str) -> None:
        self._document.broken.add(path)
        self._document.problems.append(self._document.source.problem(Mark.of(node.start_mark), path, message, fix))


_BEYOND = 1_000_000  # a column behind every line's end
_COLLECTIONS = (f"{TAG}map", f"{TAG}seq")
_SCALARS: Mapping[str, Callable[[str], object]] = {
    f"{TAG}bool": lambda text: text.lower() == "true",
    f"{TAG}int": int,
    f"{TAG}float": float,
}
