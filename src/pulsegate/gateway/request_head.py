"""A client's request head: validated by llhttp in its strict mode, then read into what the gateway needs of it.

llhttp refuses what could be read in two ways (RFC 9112, section 11.2): both Content-Length and Transfer-Encoding, two
Content-Lengths, folded headers, space before a colon, bare CR or LF, NUL. What it lets through and we do not: other
versions than 1.0 and 1.1, no or two Hosts, transfer codings other than chunked, two Authorizations.

Reading lines that were validated is faster than being called back for each header.
"""

from collections.abc import Iterable
from typing import Final

import httptools

from pulsegate.core.routing import Lane
from pulsegate.gateway.heads import NOT_FROM_CLIENTS, OUR_PREFIX, connection_named
from pulsegate.gateway.identity import presentable

CRLF: Final = b"\r\n"
HEAD_END: Final = b"\r\n\r\n"

_READ: Final = 1
_FORWARD: Final = 2
_NAMES_READ: Final = frozenset(
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


class HeadRules:
    """What becomes of each header, by its name in lower case; headers without a rule go on.

    ``operators`` are the names that the operator sets for some endpoint: the client's do not go on. ``affinity_header``
    names sessions, None if nothing does.
    """

    __slots__ = ("affinity_header", "handling")

    def __init__(self, operators: Iterable[bytes] = (), affinity_header: bytes | None = None) -> None:
        self.affinity_header = affinity_header
        dropped = NOT_FROM_CLIENTS | set(operators)
        read = _NAMES_READ if affinity_header is None else _NAMES_READ | {affinity_header}
        self.handling = {
            name: (_READ if name in read else 0) | (0 if name in dropped else _FORWARD) for name in dropped | read
        }


def read_head(raw: bytes, rules: HeadRules) -> RequestHead:
    """Read a whole head, its closing blank line included; ``raw`` is exactly that, without blank lines before it."""
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
    line = raw[: raw.index(CRLF)]
    head.target = line.split(b" ", 1)[1].rpartition(b" ")[0].strip(b" ")
    if not head.target.startswith(b"/"):
        head.target = _origin_form(head.target)
    head.path = head.target.partition(b"?")[0]
    _read_fields(head, raw, rules)
    return head


def _read_fields(head: RequestHead, raw: bytes, rules: HeadRules) -> None:
    seen: dict[bytes, bytes] = {}
    twice: set[bytes] = set()
    forward: list[bytes] = []
    ours = OUR_PREFIX in raw.lower()
    handling = rules.handling
    for line in raw.split(CRLF)[1:-2]:
        name, _, value = line.partition(b":")
        key = name.lower()
        how = handling.get(key)
        if how is None:
            if not (ours and key.startswith(OUR_PREFIX)):
                forward.append(line)
            continue
        if how & _FORWARD:
            forward.append(line)
        if how & _READ:
            if key in seen:
                twice.add(key)
                value = seen[key] + b"," + value
            seen[key] = value.strip(b" \t")
    connection = seen.get(b"connection")
    if connection is not None and (named := connection_named(connection)):
        if b"close" in named:  # llhttp forgets it as soon as a request without a body is read
            head.keep_alive = False
        forward = [line for line in forward if line.partition(b":")[0].lower() not in named]
    forward.append(b"")
    head.forward = CRLF.join(forward)
    head.flaw = _flaw(head, seen, twice)
    if head.flaw is None:
        _take(head, seen, twice)
        if rules.affinity_header is not None:
            head.affinity = seen.get(rules.affinity_header)


def _flaw(head: RequestHead, seen: dict[bytes, bytes], twice: set[bytes]) -> str | None:
    if b"host" in twice or (b"host" not in seen and not head.http10):
        return "a request needs exactly one Host header"
    coding = seen.get(b"transfer-encoding")
    if coding is not None and (head.http10 or coding.lower() != b"chunked"):
        return "the only transfer coding understood is chunked"
    if b"authorization" in twice:
        return "there are two Authorization headers"
    return None


def _take(head: RequestHead, seen: dict[bytes, bytes], twice: set[bytes]) -> None:
    head.chunked = b"transfer-encoding" in seen
    head.content_type_given = b"content-type" in seen
    head.authorization = seen.get(b"authorization")
    head.if_none_match = seen.get(b"if-none-match")
    if (length := seen.get(b"content-length")) is not None:
        head.content_length = int(length)
    if (given := seen.get(b"x-request-id")) is not None and b"x-request-id" not in twice and presentable(given):
        head.given_id = given
    if (lane := seen.get(b"x-request-priority")) is not None:
        head.lane = _LANES.get(lane.lower())
    if (expects := seen.get(b"expect")) is not None:
        head.expects_continue = expects.lower() == b"100-continue" and not head.http10


def _origin_form(target: bytes) -> bytes:
    """The path of an absolute-form target (RFC 9112, section 3.2.2); anything else stays and will not be found."""
    scheme, colon, rest = target.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https"):
        return target
    _, slash, path = rest.partition(b"/")
    return b"/" + path if slash else b"/"


_LANES: Final = {b"normal": Lane.NORMAL, b"low": Lane.LOW}
