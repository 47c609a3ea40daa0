"""What may be written into an HTTP/1.1 head, and the writing of it (RFC 9110 section 5, RFC 9112 section 3)."""

import re
from collections.abc import Iterable

from pulsegate.engines.exchange import Request

_NAME_CHARS = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_VALUE_CHARS = r"[\t\x20-\x7e\x80-\xff]*"
_PATH_CHARS = r"[\x21\x22\x24-\x7e]*"  # printable ASCII without space and '#'

_NAME = re.compile(_NAME_CHARS)
_VALUE = re.compile(_VALUE_CHARS)
_PATH = re.compile(_PATH_CHARS)
_LINE = re.compile(rf"{_NAME_CHARS}: {_VALUE_CHARS}\r\n")
_LINES = re.compile(rf"(?:{_NAME_CHARS}: {_VALUE_CHARS}\r\n)*")
_START = re.compile(rf"[A-Z]+ /{_PATH_CHARS} HTTP/1\.1\r\n")


def is_field_name(name: str) -> bool:
    """Whether it can name a header."""
    return _NAME.fullmatch(name) is not None


def is_field_value(value: str) -> bool:
    """Whether a header can carry it; line breaks, other control characters and non-Latin-1 cannot."""
    return _VALUE.fullmatch(value) is not None


def is_path(path: str) -> bool:
    """Whether it can stand in a request line, a query included."""
    return _PATH.fullmatch(path) is not None


def render_fields(fields: Iterable[tuple[str, str]]) -> str:
    """Header lines, each with its line end.

    Raises:
        ValueError: a name or a value cannot be written. Names the header, never its value.
    """
    lines = [f"{name}: {value}\r\n" for name, value in fields]
    text = "".join(lines)
    # one match for all, because every probe comes by here; a line break in a value shows in the count
    if _LINES.fullmatch(text) is None or text.count("\n") != len(lines):
        bad = next((line.partition(":")[0] for line in lines if _LINE.fullmatch(line) is None), "")
        raise ValueError(f"the header {bad!r} of the request cannot be written")
    return text


def render_head(request: Request, *, base_path: str, common: str, common_names: frozenset[str]) -> str:
    """The head of a request up to its ``Content-Length``: the same for every probe, so it is worth keeping.

    ``common`` are the header lines that every request to this target carries; ``common_names`` are their names in
    lower case, which the request does not repeat.

    Raises:
        ValueError: the method, the path or a header cannot be written.
    """
    start = f"{request.method} {base_path}{request.path} HTTP/1.1\r\n"
    if _START.fullmatch(start) is None:
        raise ValueError("the method or the path of the request cannot be written")
    own = render_fields([pair for pair in request.headers if pair[0].lower() not in common_names])
    return f"{start}{common}{own}"


def render_request(head: str, request: Request) -> bytes:
    """The bytes of a request whose head is ``head``."""
    body = request.body
    length = f"Content-Length: {len(body)}\r\n" if body or request.method == "POST" else ""
    return f"{head}{length}\r\n".encode("latin-1") + body
