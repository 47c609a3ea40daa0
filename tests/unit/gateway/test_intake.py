import itertools

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.routing import Lane
from pulsegate.gateway.chunked_body import ChunkedBody, ChunkError
from pulsegate.gateway.errors import ApiError
from pulsegate.gateway.intake import Incoming, Intake, Phase
from pulsegate.gateway.keys import Key
from pulsegate.gateway.request_head import HeadRules, RequestHead, read_head

RULES = HeadRules([b"x-team"], b"x-session")


def let_in(head: RequestHead) -> tuple[ApiError | None, Key | None]:
    flaw = head.flaw
    return (None if flaw is None else ApiError(status=400, code="bad_request", message=flaw)), None


def intake(head_limit: int = 1000, body_limit: int = 1000) -> Intake:
    return Intake(let_in, head_limit=head_limit, body_limit=body_limit, rules=RULES)


def post(body: bytes, *lines: bytes) -> bytes:
    head = [b"POST /v1/x HTTP/1.1", b"Host: a", *lines]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", b""]) + body


def chunked(*pieces: bytes) -> bytes:
    head = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


REQUESTS = st.lists(
    st.one_of(
        st.binary(max_size=60).map(post),
        st.lists(st.binary(min_size=1, max_size=20), max_size=4).map(lambda pieces: chunked(*pieces)),
        st.just(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"),
        st.just(b"\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n"),
    ),
    min_size=1,
    max_size=4,
)


class Oracle:
    """llhttp, all of it: what requests it finds in the same bytes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._body = b""

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.bodies.append(self._body)
        self._body = b""


@given(requests=REQUESTS, cuts=st.lists(st.integers(0, 500), max_size=10))
def test_requests_come_out_whole_in_order_and_one_at_a_time(requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    oracle = Oracle()
    httptools.HttpRequestParser(oracle).feed_data(data)
    places = sorted({place % (len(data) + 1) for place in cuts} | {0, len(data)})
    taken = intake()
    bodies: list[bytes] = []
    for begin, end in itertools.pairwise(places):
        incoming = taken.feed(data[begin:end])
        while incoming is not None:
            assert incoming.error is None
            assert taken.phase is Phase.ANSWER
            bodies.append(incoming.body)
            incoming = taken.proceed()
    assert bodies == oracle.bodies
    assert taken.phase is Phase.NOTHING


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes_are_waited_on_refused_or_a_request(data: bytes, cuts: list[int]) -> None:
    taken = intake()
    places = sorted({place % (len(data) + 1) for place in cuts} | {0, len(data)})
    for begin, end in itertools.pairwise(places):
        incoming = taken.feed(data[begin:end])
        if incoming is not None and incoming.error is not None:
            assert incoming.error.status in (400, 431)
            return


def refused(data: bytes, **limits: int) -> Incoming:
    taken = intake(**limits)
    incoming = taken.feed(data)
    assert incoming is not None
    assert incoming.error is not None
    return incoming


def test_limits() -> None:
    long = b"X-A: " + b"a" * 2000
    assert refused(post(b"", long)).error.status == 431  # type: ignore[union-attr]
    assert refused(post(b"", long)[:1500]).error.status == 431  # type: ignore[union-attr]
    assert refused(chunked(b"a" * 11), body_limit=10).error.status == 413  # type: ignore[union-attr]


def test_a_refused_request_whose_body_is_here_keeps_the_connection() -> None:
    def screen(head: RequestHead) -> tuple[ApiError | None, Key | None]:
        return (ApiError(status=401, code="x", message="x") if head.path == b"/v1/x" else None), None

    taken = Intake(screen, head_limit=1000, body_limit=1000, rules=RULES)
    incoming = taken.feed(post(b"abc") + b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
    assert incoming is not None
    assert (incoming.keep_alive, taken.phase) == (True, Phase.ANSWER)
    following = taken.proceed()
    assert following is not None
    assert following.head.path == b"/health"
    late = taken.proceed() or taken.feed(post(b"abc")[:-1])
    assert late is not None
    assert (late.keep_alive, taken.phase) == (False, Phase.SHUT)


@pytest.mark.parametrize("written", [b"Content-Length: %d", b"content-length:%d", b"Content-Length:  %d"])
def test_the_same_head_with_another_length_is_known_again(written: bytes) -> None:
    taken = intake(body_limit=50)
    for body in (b"a", b"bb", b"", b"bb", b"c" * 20):
        raw = b"\r\n".join([b"POST /v1/x HTTP/1.1", b"Host: a", written % len(body), b"X-A: 1", b"", b""])
        incoming = taken.feed(raw + body)
        assert incoming is not None
        assert (incoming.body, incoming.error) == (body, None)
        assert taken.proceed() is None
    raw = b"\r\n".join([b"POST /v1/x HTTP/1.1", b"Host: a", written % 51, b"X-A: 1", b"", b""])
    large = taken.feed(raw)
    assert large is not None
    assert large.error is not None
    assert large.error.status == 413


def test_nothing_is_taken_while_a_request_is_out() -> None:
    taken = intake()
    assert taken.feed(post(b"a")) is not None
    assert taken.feed(post(b"b")) is None
    assert taken.backlog == len(post(b"b"))
    following = taken.proceed()
    assert following is not None
    assert following.body == b"b"


def test_a_client_that_waits_for_100_is_noticed() -> None:
    taken = intake()
    assert taken.feed(post(b"abc", b"Expect: 100-continue")[:-3]) is None
    assert taken.body_wanted
    incoming = taken.feed(b"abc")
    assert incoming is not None
    assert not taken.body_wanted


def head(*lines: bytes, line: bytes = b"POST /v1/x HTTP/1.1") -> RequestHead:
    return read_head(b"\r\n".join([line, *lines, b"", b""]), RULES)


def test_what_a_head_says() -> None:
    got = head(
        b"HOST: a",
        b"Authorization:  Bearer k ",
        b"X-Request-Id: r-1",
        b"x-request-priority: LOW",
        b"X-Session: s",
        b"content-type: application/json",
        b"X-Kept:  as it is  ",
        b"X-Team: forged",
        b"x-pulsegate-a: forged",
        b"X-LLM-Probe: true",
    )
    assert got.flaw is None
    assert (got.authorization, got.given_id, got.lane, got.affinity) == (b"Bearer k", b"r-1", Lane.LOW, b"s")
    assert got.content_type_given
    kept = b"x-request-priority: LOW\r\nX-Session: s\r\ncontent-type: application/json\r\nX-Kept:  as it is  \r\n"
    assert got.forward == kept
    assert head(b"Host: a").forward == b""


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/v1/x?y=z", b"/v1/x"),
        (b"http://a/v1/x", b"/v1/x"),
        (b"https://a:1/v1/x?q", b"/v1/x"),
        (b"http://a", b"/"),
        (b"*", b"*"),
    ],
)
def test_targets(target: bytes, path: bytes) -> None:
    assert head(b"Host: a", line=b"OPTIONS " + target + b" HTTP/1.1").path == path


@pytest.mark.parametrize(
    ("lines", "line", "keep_alive"),
    [
        ([], b"GET / HTTP/1.1", True),
        ([b"Connection: close"], b"GET / HTTP/1.1", False),
        ([b"Connection: x, Close"], b"GET / HTTP/1.1", False),
        ([b"Connection: keep-alive"], b"GET / HTTP/1.1", True),
        ([b"Connection: keep-alive"], b"GET / HTTP/1.0", False),
    ],
)
def test_keeping_alive(lines: list[bytes], line: bytes, keep_alive: bool) -> None:
    assert head(b"Host: a", *lines, line=line).keep_alive is keep_alive


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=5), st.lists(st.integers(0, 300), max_size=8), st.binary())
def test_chunked_bodies_however_cut(pieces: list[bytes], cuts: list[int], behind: bytes) -> None:
    raw = b"".join(b"%X;x=y\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"00\r\nX-T: a\r\n\r\n" + behind
    body, rest = ChunkedBody(), b""
    places = sorted({place % (len(raw) + 1) for place in cuts} | {0, len(raw)})
    for begin, end in itertools.pairwise(places):
        if body.done:
            rest += raw[begin:end]
        else:
            body.feed(raw[begin:end])
            rest = body.rest
    assert body.done
    assert (bytes(body.payload), rest) == (b"".join(pieces), behind)


@given(st.text("0123456789abcdefx;\r\n -+", max_size=30).map(str.encode))
def test_nonsense_in_chunks_is_an_error_or_waited_on(data: bytes) -> None:
    body = ChunkedBody()
    try:
        body.feed(data)
    except ChunkError:
        return
    if body.done:
        end = len(data) - len(body.rest)
        oracle = Oracle()
        start = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        httptools.HttpRequestParser(oracle).feed_data(start + data[:end])
        assert oracle.bodies == [bytes(body.payload)]
