from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.probe import Fault
from pulsegate.engines.exchange import DEFAULT_LIMITS, Flow, Limits
from pulsegate.engines.http_answer import HttpAnswer

LIMITS = Limits(header_bytes=300, body_bytes=200)
HEADS = st.sampled_from([
    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 503 Busy\r\n", b"HTTP/1.1 204 None\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 101 Switch\r\n", b"HTTP/1.1 302 Found\r\n", b"HTTP/2 200\r\n", b"",
])  # fmt: skip
FIELDS = st.lists(
    st.sampled_from([
        b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n",
        b"Content-Encoding: gzip\r\n", b"Location: http://x/\r\n", b"A: b\r\n", b"bad\r\n", b"Upgrade: x\r\n", b"\r\n",
        b"X: " + b"y" * 200 + b"\r\n",
    ]),
    max_size=5,
).map(b"".join)  # fmt: skip
BODIES = st.lists(
    st.sampled_from([
        b"5\r\nhello\r\n", b"0\r\n\r\n", b"0\r\nT: 1\r\n", b"\r\n", b"hello", b"x" * 90, b"zz", b"\x00",
    ]),
    max_size=6,
).map(b"".join)  # fmt: skip
ANSWERS = st.one_of(st.tuples(HEADS, FIELDS, BODIES).map(b"".join), st.binary(max_size=80))


@dataclass
class Heard:
    """A listener that insists on the order of what it hears."""

    heads: list[tuple[int, Mapping[str, str]]] = field(default_factory=list)
    body: bytes = b""
    ended: bool = False

    def on_head(self, status: int, headers: Mapping[str, str], at_s: float) -> None:
        assert at_s == 0.0
        assert not self.heads
        self.heads.append((status, dict(headers)))

    def on_body(self, data: bytes, at_s: float) -> Flow:
        assert at_s == 0.0
        assert self.heads
        assert data
        assert not self.ended
        self.body += data
        return Flow.CONTINUE

    def on_end(self, at_s: float) -> None:
        assert at_s == 0.0
        assert self.heads
        assert not self.ended
        self.ended = True


def read(pieces: list[bytes], limits: Limits = LIMITS) -> tuple[HttpAnswer, Heard]:
    heard = Heard()
    answer = HttpAnswer(heard, limits)
    for piece in pieces:
        answer.feed(piece, 0.0)
        if answer.over:
            break
    answer.eof(0.0)
    return answer, heard


@given(ANSWERS)
def test_whatever_comes_an_answer_ends_whole_or_with_a_fault(stream: bytes) -> None:
    answer, heard = read([stream])
    assert answer.over
    assert answer.whole == (answer.fault is None)
    assert answer.whole == heard.ended
    assert len(heard.body) <= LIMITS.body_bytes
    if answer.fault is not None:
        assert answer.fault.detail
        assert not answer.keep_alive


def outcome(pieces: list[bytes]) -> tuple[object, ...]:
    answer, heard = read(pieces, DEFAULT_LIMITS)
    fault: Fault | None = answer.fault
    return (
        answer.status,
        answer.whole,
        fault.kind if fault else None,
        heard.heads,
        heard.body if answer.whole else b"",
    )


@given(ANSWERS, st.lists(st.integers(0, 500), max_size=8))
def test_cuts_change_nothing(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges) if end > start]
    assert outcome(pieces) == outcome([stream])
