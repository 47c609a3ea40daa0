"""Bytes of one client in, whole requests out: sans-IO, one request at a time, bounded memory.

What comes behind a request stays here until that request was answered (``proceed``). Deadlines are the connection's
business: ``phase`` tells what is being waited for.
"""

import re
from collections.abc import Callable
from enum import Enum
from typing import Final

import httptools

from pulsegate.gateway.chunked_body import ChunkedBody, ChunkError
from pulsegate.gateway.errors import ApiError, bad_request
from pulsegate.gateway.keys import Key
from pulsegate.gateway.request_head import HEAD_END, HeadRules, RequestHead, Silent, read_head

REMEMBERED_HEAD_BYTES: Final = 4096
_LENGTH_DIGITS: Final = 15
_LENGTH: Final = re.compile(rb"\r\ncontent-length: ?([0-9]{1,15})\r\n", re.IGNORECASE)


class Phase(Enum):
    """What an intake waits for."""

    NOTHING = "nothing"  # no byte of a request has come
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"  # a request was handed out
    SHUT = "shut"  # nothing more is read from this client


class Incoming:
    """A request that is handed out. With ``error`` set it is to be refused.

    ``keep_alive``: whether the connection can go on after the answer. ``request_id`` is set by who takes the request.
    """

    __slots__ = ("body", "error", "head", "keep_alive", "key", "request_id")

    def __init__(self, head: RequestHead, error: ApiError | None, key: Key | None) -> None:
        self.head = head
        self.key = key
        self.body = b""
        self.error = error
        self.request_id = b""
        self.keep_alive = head.keep_alive


Screen = Callable[[RequestHead], tuple[ApiError | None, Key | None]]


class Known:
    """The latest head and what was found out about it: clients send the same one again, but for the length."""

    __slots__ = ("_after", "_before", "error", "head", "key")

    def __init__(self, raw: bytes, head: RequestHead, error: ApiError | None, key: Key | None) -> None:
        self.head = head
        self.error = error
        self.key = key
        found = _LENGTH.search(raw) if head.content_length is not None else None
        self._before, self._after = (raw, b"") if found is None else (raw[: found.start(1)], raw[found.end(1) :])

    def length_if_same(self, raw: bytes) -> int | None:
        """The Content-Length (0 if there is none) if ``raw`` is the same head but for it, else None."""
        before, after = self._before, self._after
        if not raw.startswith(before) or not raw.endswith(after):
            return None
        length = raw[len(before) : len(raw) - len(after)]
        if not after:
            return None if length else self.head.content_length or 0
        return int(length) if length.isdigit() and len(length) <= _LENGTH_DIGITS else None


class Intake:
    """One client's requests.

    Attributes:
        phase: what is being waited for.
        body_wanted: the client holds its body back (``Expect: 100-continue``) until it is told to go on.
        backlog: bytes that wait here for their turn.
    """

    __slots__ = (
        "_body",
        "_body_limit",
        "_buffer",
        "_checker",
        "_chunks",
        "_head_limit",
        "_incoming",
        "_known",
        "_left",
        "_rules",
        "_screen",
        "body_wanted",
        "phase",
    )

    def __init__(
        self,
        screen: Screen,
        *,
        head_limit: int,
        body_limit: int,
        rules: HeadRules,
    ) -> None:
        """``screen`` says of a head whether the request is refused already, and whose key it carries."""
        self._screen = screen
        self._rules = rules
        self._buffer = b""
        self._checker: httptools.HttpRequestParser | None = None
        self._known: Known | None = None
        self._incoming: Incoming | None = None
        self._body = bytearray()
        self._left = 0
        self._chunks: ChunkedBody | None = None
        self._head_limit = head_limit
        self._body_limit = body_limit
        self.body_wanted = False
        self.phase = Phase.NOTHING

    @property
    def backlog(self) -> int:
        """Bytes that wait for their turn."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Incoming | None:
        """Take bytes; a request if these complete one and none is out."""
        match self.phase:
            case Phase.NOTHING:
                return self._begin(data)
            case Phase.HEAD:
                return self._more_head(data)
            case Phase.BODY:
                return self._more_body(data)
            case Phase.ANSWER:
                self._buffer += data
                return None
            case Phase.SHUT:
                return None

    def proceed(self) -> Incoming | None:
        """The request that was out is answered: the next one, if it is here already."""
        self.phase = Phase.NOTHING
        data, self._buffer = self._buffer, b""
        return self._begin(data) if data else None

    def reconfigure(self, rules: HeadRules, body_limit: int) -> None:
        """Take over new settings; what was found out about the latest head is looked at again when it comes again."""
        self._known = None
        self._rules = rules
        self._body_limit = body_limit

    def shut(self) -> None:
        """Read nothing more."""
        self.phase = Phase.SHUT
        self._buffer = b""
        self._body = bytearray()
        self._incoming = self._chunks = self._checker = None
        self.body_wanted = False

    # heads

    def _begin(self, data: bytes) -> Incoming | None:
        if data.startswith(b"\r\n"):
            data = data.lstrip(b"\r\n")  # blank lines between requests are allowed (RFC 9112, section 2.2)
            if not data:
                return None
        end = data.find(HEAD_END)
        if 0 <= end <= self._head_limit:
            return self._head(data[: end + 4], data[end + 4 :])
        self.phase = Phase.HEAD
        self._checker = httptools.HttpRequestParser(Silent())
        return self._more_head(data)

    def _more_head(self, data: bytes) -> Incoming | None:
        """A head in parts: checked as it comes, so that nonsense does not have to be waited out."""
        held, looked_at = self._buffer + data, max(0, len(self._buffer) - 3)
        if held.startswith(b"\r\n"):
            held, looked_at = held.lstrip(b"\r\n"), 0
        end = held.find(HEAD_END, looked_at)
        if (end if end >= 0 else len(held)) > self._head_limit:
            message = f"The request's headers exceed {self._head_limit} bytes."
            return self._refuse(RequestHead(), ApiError(status=431, code="headers_too_large", message=message))
        if end >= 0:
            self._buffer = b""
            self._checker = None
            return self._head(held[: end + 4], held[end + 4 :])
        self._buffer = held
        if self._checker is not None:
            try:
                self._checker.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
                return self._refuse(RequestHead(), bad_request("bad_request", f"Malformed request: {exc}."))
        return None

    def _head(self, raw: bytes, rest: bytes) -> Incoming | None:
        known = self._known
        length = None if known is None else known.length_if_same(raw)
        if known is None or length is None:
            head = read_head(raw, self._rules)
            known = Known(raw, head, *self._screen(head))
            self._known = known if len(raw) <= REMEMBERED_HEAD_BYTES else None
            length = head.content_length or 0
        head, error = known.head, known.error
        if error is None and length > self._body_limit:
            error = too_large(self._body_limit)
        self._incoming = incoming = Incoming(head, error, known.key)
        if error is not None and (head.flaw is not None or head.chunked or len(rest) < length):
            return self._refuse(head, error)  # its body is not here already, so that it could be read over
        self.phase = Phase.BODY
        if head.chunked:
            self._chunks = ChunkedBody()
            self.body_wanted = head.expects_continue and not rest
            return self._chunk(rest) if rest else None
        if len(rest) >= length:
            incoming.body = rest if len(rest) == length else rest[:length]
            self._buffer = rest[length:]
            return self._out(incoming)
        self._left = length - len(rest)
        self._body = bytearray(rest)
        self.body_wanted = head.expects_continue and not rest
        return None

    # bodies

    def _more_body(self, data: bytes) -> Incoming | None:
        self.body_wanted = False
        incoming = self._incoming
        if self._chunks is not None:
            return self._chunk(data)
        if incoming is None:
            return None
        if len(data) < self._left:
            self._left -= len(data)
            self._body += data
            return None
        self._body += data[: self._left]
        self._buffer = data[self._left :]
        incoming.body = bytes(self._body)
        self._body = bytearray()
        return self._out(incoming)

    def _chunk(self, data: bytes) -> Incoming | None:
        chunks, incoming = self._chunks, self._incoming
        if chunks is None or incoming is None:
            return None
        try:
            chunks.feed(data)
        except ChunkError as exc:
            return self._refuse(incoming.head, bad_request("bad_request", f"Malformed request: {exc}."))
        if len(chunks.payload) > self._body_limit:
            return self._refuse(incoming.head, too_large(self._body_limit))
        if not chunks.done:
            return None
        incoming.body = bytes(chunks.payload)
        self._buffer = chunks.rest
        self._chunks = None
        return self._out(incoming)

    def _out(self, incoming: Incoming) -> Incoming:
        self._incoming = None
        self.phase = Phase.ANSWER
        return incoming

    def _refuse(self, head: RequestHead, error: ApiError) -> Incoming:
        """Nothing more of this client is wanted: where its next request begins is unknown or far away."""
        self.shut()
        incoming = Incoming(head, error, None)
        incoming.keep_alive = False
        return incoming


def too_large(limit: int) -> ApiError:
    """413."""
    return ApiError(status=413, code="body_too_large", message=f"The request's body is larger than {limit} bytes.")
