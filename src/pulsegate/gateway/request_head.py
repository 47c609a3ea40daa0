"""A client's request head: validated by llhttp in its strict mode, then read into what the gateway needs of it.

llhttp refuses what could be read in two ways (RFC 9112, section 11.2): both Content-Length and Transfer-Encoding, two
Content-Lengths, folded headers, space before a colon, bare CR or LF, NUL. What it lets through and we do not: other
versions than 1.0 and 1.1, no or two Hosts, transfer codings other than chunked, two Authorizations.

Reading lines that were validated is twice as fast as being called back for each header.
"""

from typing import Final

import httptools

from pulsegate.core.routing import Lane
from pulsegate.gateway.heads import OUR_PREFIX, connection_named
from pulsegate.gateway.identity import presentable

CRLF: Final = b"\r\n"
HEAD_END: Final = b"\r\n\r\n"


class RequestHead:
    """What one head says. Not changed after it was read: requests with the same head share it.

    Attributes:
        method: in upper case. ``target`` is the path with its query, ``path`` without.
        forward: the header lines that go on, as the client spelt them.
        given_id: the client's request id if it is presentable, else None.
        content_length: None when there is none; the body is empty then unless ``chunked``.
        http10: an HTTP/1.0 client, which knows no chunks and no 100.
        lane: what the client asks for, None if it does not say.
        flaw: why the head is refused, None if it is not.
    """

    __slots__ = (
        "affinity",
        "authorization",
        "chunked",
        "content_length",
        "content_type_given",
        "expects_continue",
        "flaw",
        "forward",
        "given_id",
        "http10",
        "if_none_match",
        "keep_alive",
        "lane",
        "method",
        "path",
        "target",
    )

    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.path = b""
        self.forward = b""
        self.given_id: bytes | None = None
        self.authorization: bytes | None = None
        self.affinity: bytes | None = None
        self.lane: Lane | None = None
        self.if_none_match: bytes | None = None
        self.content_length: int | None = None
        self.chunked = False
        self.content_type_given = False
        self.expects_continue = False
        self.http10 = False
        self.keep_alive = False
        self.flaw: str | None = None


class Silent:
    """A receiver of llhttp's callbacks that wants none: only its verdict counts."""

    __slots__ = ()


def read_head(raw: bytes, dropped: frozenset[bytes], affinity_header: bytes | None) -> RequestHead:
    """Read a whole head, its closing blank line included.

    Args:
        raw: exactly one head.
        dropped: names of headers (lower case) that do not go on.
        affinity_header: name (lower case) of the header that names a session, None if there is none.
    """
    head = RequestHead()
    parser = httptools.HttpRequestParser(Silent())
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # an offer that a server may ignore (RFC 9110, section 7.8)
    except httptools.HttpParserError as exc:
        head.flaw = str(exc)[:200]
        return head
    version = parser.get_http_version()
    if version not in ("1.1", "1.0"):
        head.flaw = "only HTTP/1.1 and HTTP/1.0 are spoken here"
        return head
    head.method = parser.get_method()
    head.http10 = version == "1.0"
    head.keep_alive = not head.http10
    lines = raw[:-4].split(CRLF)
    head.target = lines[0].split(b" ", 1)[1].rpartition(b" ")[0].strip(b" ")
    if not head.target.startswith(b"/"):
        head.target = _origin_form(head.target)
    head.path = head.target.partition(b"?")[0]
    _read_fields(head, lines, dropped, affinity_header)
    return head


def _read_fields(
    head: RequestHead, lines: list[bytes], dropped: frozenset[bytes], affinity_header: bytes | None
) -> None:
    seen: dict[bytes, list[bytes]] = {}
    forward: list[bytes] = []
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        key = name.lower()
        if key in _READ or key == affinity_header:
            seen.setdefault(key, []).append(value.strip(b" \t"))
        if key not in dropped and not key.startswith(OUR_PREFIX):
            forward.append(line)
    if connection := seen.get(b"connection"):
        named = connection_named(b",".join(connection))
        if b"close" in named:  # llhttp forgets it as soon as a request without a body is read
            head.keep_alive = False
        if named:
            forward = [line for line in forward if line.partition(b":")[0].lower() not in named]
    head.forward = CRLF.join([*forward, b""])
    head.flaw = _flaw(head, seen)
    if head.flaw is None:
        _take(head, seen, affinity_header)


def _flaw(head: RequestHead, seen: dict[bytes, list[bytes]]) -> str | None:
    hosts = len(seen.get(b"host", ()))
    if hosts > 1 or (hosts == 0 and not head.http10):
        return "a request needs exactly one Host header"
    codings = seen.get(b"transfer-encoding")
    if codings is not None and (head.http10 or [coding.lower() for coding in codings] != [b"chunked"]):
        return "the only transfer coding understood is chunked"
    if len(seen.get(b"authorization", ())) > 1:
        return "there are two Authorization headers"
    return None


def _take(head: RequestHead, seen: dict[bytes, list[bytes]], affinity_header: bytes | None) -> None:
    for key, values in seen.items():
        value = values[0]
        match key:
            case b"content-length":
                head.content_length = int(value)
            case b"transfer-encoding":
                head.chunked = True
            case b"content-type":
                head.content_type_given = True
            case b"authorization":
                head.authorization = value
            case b"x-request-id":
                head.given_id = value if len(values) == 1 and presentable(value) else None
            case b"x-request-priority":
                head.lane = _LANES.get(value.lower())
            case b"if-none-match":
                head.if_none_match = value
            case b"expect":
                head.expects_continue = value.lower() == b"100-continue" and not head.http10
            case _:
                pass
    if affinity_header is not None and affinity_header in seen:
        head.affinity = seen[affinity_header][0]


def _origin_form(target: bytes) -> bytes:
    """The path of an absolute-form target (RFC 9112, section 3.2.2); anything else stays and will not be found."""
    scheme, colon, rest = target.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https"):
        return target
    _, slash, path = rest.partition(b"/")
    return b"/" + path if slash else b"/"


_LANES: Final = {b"normal": Lane.NORMAL, b"low": Lane.LOW}
_READ: Final = frozenset(
    {
        b"host",
        b"content-length",
        b"content-type",
        b"authorization",
        b"x-request-id",
        b"x-request-priority",
        b"expect",
        b"if-none-match",
        b"connection",
        b"transfer-encoding",
    }
)
