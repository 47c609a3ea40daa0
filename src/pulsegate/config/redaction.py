"""Keeps secrets out of what is shown of a configuration file."""

import re
from collections.abc import Iterator, Sequence

KeyPath = tuple[str | int, ...]
"""Where a value stands in the file, e.g. ``("models", 0, "endpoints", 1, "url")``."""

MASK = "***"

_SECRET_KEY = re.compile(r"key|token|secret|passw|auth|credential|cookie|headers", re.IGNORECASE)
_SECRET_IN_LINE = re.compile(
    rf"(?P<key>[\w-]*(?:{_SECRET_KEY.pattern})[\w-]*[\"']?\s*:\s*)(?P<value>[^\s#].*)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"#.*")
_LONG_WORD = re.compile(r"(?<![^\s,{}\[\]\"'#])(?<!\$\{)[^\s,{}\[\]\"']{11,}")
_HARMLESS_WORD = re.compile(r"https?://|unix:/|[\d.:]+\Z|\w+\*?:\Z")
_USERINFO = re.compile(r"//[^\s\"']*@")  # up to the last @: passwords are seldom escaped as they should be
_URL_WITH_SPACE = re.compile(r"://.*\s.*@", re.DOTALL)
_QUERY = re.compile(r"(://[^\s?#\"']*)\?[^\s\"']*")
_LISTS_OF_TEXT = frozenset({"endpoints", "fallbacks"})
_LONGEST_HARMLESS = 10
_LONGEST_KEY = 24
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ONLY_A_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def is_secret(path: KeyPath) -> bool:
    """Whether what stands there, or might have been meant to stand there, is a secret.

    Names of files are none; misspelt keys (``apikey``) are taken for what they resemble.
    """
    return any(
        isinstance(step, str) and _SECRET_KEY.search(step) and not step.endswith(("_file", "_header", "_headers"))
        for step in path
    )


def hides(path: KeyPath, text: str, known: frozenset[str]) -> bool:
    """Whether the text that stands there must not be shown.

    Under a key that is not ``known``, or in a list of something else, anything may stand: only what is too short for a
    secret is shown there.
    """
    if is_reference(text):
        return False
    if is_secret(path) or _URL_WITH_SPACE.search(text):
        return True
    is_known = all(step in known for step in path if isinstance(step, str))
    if path and isinstance(path[-1], int):
        is_known &= len(path) > 1 and path[-2] in _LISTS_OF_TEXT
    return not is_known and len(text) > _LONGEST_HARMLESS and not text.startswith(("http://", "https://"))


def show_key(name: str) -> str:
    """A key; when its colon is missing, a value has become part of it."""
    word = _WORD.match(name)
    if len(name) <= _LONGEST_HARMLESS or (word and word[0] == name and len(name) <= _LONGEST_KEY):
        return name
    return f"{word[0][:_LONGEST_HARMLESS] if word else ''}{MASK}"


def is_reference(text: str) -> bool:
    """Whether the text is nothing but ``${NAME}``, which may be shown."""
    return _ONLY_A_REFERENCE.fullmatch(text) is not None


def mask_url(text: str) -> str:
    """Masks what can be secret in URLs: ``user:password@`` and the query."""
    return _QUERY.sub(rf"\1?{MASK}", _USERINFO.sub(f"//{MASK}@", text))


def mask_comment(line: str) -> str:
    """Masks secrets that were commented out."""
    found = _COMMENT.search(line)
    return line if found is None else line[: found.start()] + _by_looks(found[0])


def mask_unparsed(lines: Sequence[str], number: int) -> str:
    """A line of a file that could not be parsed, masked by its looks and by those of the lines that it hangs under."""
    line = lines[number]
    if any(_SECRET_IN_LINE.search(f"{parent} x") for parent in _parents(lines, number)):
        return " " * _indent(line) + MASK
    return _by_looks(line)


def _by_looks(text: str) -> str:
    """Masks what follows a key that sounds secret, and words that are long enough for a secret."""
    shown = mask_url(_SECRET_IN_LINE.sub(rf"\g<key>{MASK}", text))
    return _LONG_WORD.sub(lambda word: word[0] if _HARMLESS_WORD.match(word[0]) else MASK, shown)


def _parents(lines: Sequence[str], number: int) -> Iterator[str]:
    """The lines above that are indented less; of a list's item also the key, which may be indented as much."""
    item = lines[number].lstrip().startswith("-")
    least = _indent(lines[number])
    for line in reversed(lines[:number]):
        opens_the_list = item and _indent(line) == least and not line.lstrip().startswith("-")
        if line.strip() and (_indent(line) < least or opens_the_list):
            least, item = _indent(line), False
            yield line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
