"""What may be written into an HTTP/1.1 head, and the writing of it (RFC 9110 section 5, RFC 9112 section 3)."""

import re
from collections.abc import Iterable

from pulsegate.engines.exchange import Request

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PATH = re.compile(r"[\x21\x22\x24-\x7e]*")  # printable ASCII without space and '#'


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
    lines: list[str] = []
    for name, value in fields:
        if not is_field_name(name):
            raise ValueError("a header of the request has an invalid name")
        if not is_field_value(value):
            raise ValueError(f"the value of header {name} cannot be written")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


def render_request(request: Request, *, base_path: str, common: str, common_names: frozenset[str]) -> bytes:
    """The bytes of a request.

    ``common`` are the header lines that every request to this target carries; ``common_names`` are their names in
    lower case, which the request does not repeat.

    Raises:
        ValueError: the method, the path or a header cannot be written.
    """
    if not is_field_name(request.method) or not request.path.startswith("/") or not is_path(request.path):
        raise ValueError("the method or the path of the request cannot be written")
    own = render_fields(pair for pair in request.headers if pair[0].lower() not in common_names)
    length = f"Content-Length: {len(request.body)}\r\n" if request.body or request.method == "POST" else ""
    head = f"{request.method} {base_path}{request.path} HTTP/1.1\r\n{common}{own}{length}\r\n"
    return head.encode("latin-1") + request.body
