"""What a client's request head says, collected while it is parsed."""

from typing import Final

from pulsegate.gateway.heads import NOT_FROM_CLIENTS, OUR_PREFIX, connection_named


class RequestHead:
    """One request's head.

    Attributes:
        method: in upper case, ``target`` the path with its query, ``path`` without.
        pairs: the headers that go on, as the client spelt them.
        request_id: what the client gave or, after ``identify``, what counts.
        http10: an HTTP/1.0 client, which knows no chunks.
        flaw: why the head is refused, None if it is not.
    """

    __slots__ = (
        "_connection",
        "_encodings",
        "_hosts",
        "affinity",
        "authorization",
        "content_length",
        "content_type_given",
        "expects_continue",
        "flaw",
        "http10",
        "if_none_match",
        "keep_alive",
        "method",
        "pairs",
        "path",
        "priority",
        "request_id",
        "size",
        "target",
        "upgrades",
    )

    def __init__(self) -> None:
        self.method = b""
        self.target = b""
        self.path = b""
        self.pairs: list[bytes] = []
        self.request_id: bytes | None = None
        self.authorization: bytes | None = None
        self.affinity: bytes | None = None
        self.priority: bytes | None = None
        self.if_none_match: bytes | None = None
        self.content_length: int | None = None
        self.content_type_given = False
        self.expects_continue = False
        self.http10 = False
        self.keep_alive = True
        self.upgrades = False
        self.flaw: str | None = None
        self.size = 0
        self._hosts = 0
        self._encodings: list[bytes] = []
        self._connection = b""

    def add(self, name: bytes, value: bytes, dropped: frozenset[bytes], affinity_header: bytes | None) -> None:
        """Take a header. ``dropped`` are the names (lower case) that do not go on."""
        self.size += len(name) + len(value) + 4
        key = name.lower()
        if key in _READ:
            self._read(key, value)
        if key == affinity_header:
            self.affinity = value
        if key not in dropped and not key.startswith(OUR_PREFIX):
            self.pairs += (name, b": ", value, b"\r\n")

    def _read(self, key: bytes, value: bytes) -> None:
        match key:
            case b"host":
                self._hosts += 1
            case b"content-length":
                self.content_length = int(value)
            case b"content-type":
                self.content_type_given = True
            case b"authorization":
                if self.authorization is not None:
                    self.flaw = "two Authorization headers"
                self.authorization = value
            case b"x-request-id":
                self.request_id = b"" if self.request_id is not None else value  # two are none
            case b"x-request-priority":
                self.priority = value
            case b"if-none-match":
                self.if_none_match = value
            case b"expect":
                self.expects_continue = value.strip().lower() == b"100-continue"
            case b"connection":
                self._connection += b"," + value
            case _:
                self._encodings.append(value.strip().lower())

    def finish(self, method: bytes, version: str) -> None:
        """All headers are there, and ``target``."""
        self.method = method
        self.http10 = version == "1.0"
        if not self.target.startswith(b"/"):
            self.target = _origin_form(self.target)
        self.path = self.target.partition(b"?")[0]
        if self._hosts != 1 and not (self.http10 and self._hosts == 0):
            self.flaw = "a request needs exactly one Host header"
        if self._encodings and (self._encodings != [b"chunked"] or self.http10):
            self.flaw = "the only transfer coding understood is chunked"
        if self._connection and (named := connection_named(self._connection)):
            self._drop(named)

    def _drop(self, names: frozenset[bytes]) -> None:
        pairs = self.pairs
        kept = [pairs[i : i + 4] for i in range(0, len(pairs), 4) if pairs[i].lower() not in names]
        self.pairs = [part for four in kept for part in four]


def _origin_form(target: bytes) -> bytes:
    """The path of an absolute-form target (RFC 9112, section 3.2.2); anything else stays and will not be found."""
    scheme, colon, rest = target.partition(b"://")
    if not colon or scheme.lower() not in (b"http", b"https"):
        return target
    _, slash, path = rest.partition(b"/")
    return b"/" + path if slash else b"/"


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


def dropped_names(endpoint_headers: set[bytes]) -> frozenset[bytes]:
    """What never goes on from a client: hop-by-hop headers, ours, and what the operator sets for some endpoint."""
    return frozenset(NOT_FROM_CLIENTS | endpoint_headers)
