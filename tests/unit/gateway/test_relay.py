import itertools

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.routing import Seat
from pulsegate.gateway.answer_head import AnswerHead
from pulsegate.gateway.counters import EndpointCounters
from pulsegate.gateway.framing import MAX_EVENT_BYTES, SizeLines, events_of, whole_chunks, whole_events
from pulsegate.gateway.relay import Relay
from pulsegate.gateway.upstream import UpstreamConnection
from pulsegate.gateway.usage import Usage
from support.gateways import DONE, END, ROLE, STREAM_HEAD, USAGE, chunk, delta

STREAM = [ROLE, delta(content="a"), b": ping\n\n", delta(content="b"), delta("stop"), USAGE, DONE]


class Home:
    """Keeps nothing."""

    def opened(self, conn: UpstreamConnection) -> None: ...
    def keep(self, conn: UpstreamConnection) -> None: ...

    def read_head(self, status: int, raw: bytes) -> AnswerHead:
        return AnswerHead(status, raw)

    def lost(self, conn: UpstreamConnection) -> None: ...


class Out:
    """A client that reads strictly."""

    def __init__(self, *, chunked: bool = True) -> None:
        self.writes: list[bytes] = []
        self.written_at_closing: list[int] = []
        self.chunked = chunked

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def read(self) -> tuple[bytes, bool]:
        """The payload so far and whether it ended properly; fails on bad framing."""
        raw = b"".join(self.writes)
        if not self.chunked:
            return raw, False
        http = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
        http.send(h11.EndOfMessage())
        http.receive_data(STREAM_HEAD + raw)
        payload = b""
        while True:
            event = http.next_event()
            if isinstance(event, h11.Data):
                payload += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return payload, True
            elif event is h11.NEED_DATA:
                return payload, False


class Played:
    """Feeds an endpoint's bytes, as they were cut, through a connection and a relay."""

    def __init__(self, out: Out, *, hide: bool = False, stream: bool = True) -> None:
        self.out = out
        counters = EndpointCounters(Seat(id=EndpointId("e"), pool=PoolName("p")))
        self.now = 0.0
        self.ended = False
        self.relay = Relay(
            out.write,
            self,
            counters,
            chunked_in=True,
            chunked_out=out.chunked,
            stream=stream,
            hide_usage=hide,
            size_lines=SizeLines(),
            now=lambda: self.now,
        )
        self.counters = counters
        self.conn = UpstreamConnection(Home())
        self.conn.owner = self

    def fed(self, conn: UpstreamConnection, data: bytes) -> None:
        self.relay.begin(conn, conn.pieces, data, self.now)

    def closing(self) -> None:
        assert not self.ended
        self.out.written_at_closing.append(len(self.out.writes))

    def relayed(self) -> None:
        self.ended = True
        (written,) = self.out.written_at_closing  # once, and before the client can know that it has everything
        assert written < len(self.out.writes) or not self.out.chunked  # else its end is the connection's

    def broke(self, *_: object) -> None: ...

    def play(self, reads: list[bytes]) -> None:
        for read in [STREAM_HEAD, *reads]:
            self.now += 1.0
            self.conn.data_received(read)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = sorted({place % (len(data) + 1) for place in at} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


CUTS = st.lists(st.integers(0, 2000), max_size=12)


@given(cuts=CUTS, chunks=CUTS, hide=st.booleans(), crlf=st.booleans(), chunked=st.booleans())
def test_whatever_the_cuts_the_payload_arrives_in_whole_events(
    *, cuts: list[int], chunks: list[int], hide: bool, crlf: bool, chunked: bool
) -> None:
    ends = b"\r\n" if crlf else b"\n"
    events = [event.replace(b"\n", ends) for event in STREAM]
    payload = b"".join(events)
    raw = b"".join(chunk(piece) for piece in cut(payload, chunks)) + END
    played = Played(Out(chunked=chunked), hide=hide)
    reads = cut(raw, cuts)
    played.play([])
    for read in reads[:-1]:
        played.conn.data_received(read)
        sent, ended = played.out.read()
        assert not ended
        assert whole_events(sent) == len(sent)
        assert payload.startswith(sent) or hide
    played.conn.data_received(reads[-1])
    sent, ended = played.out.read()
    assert ended is chunked
    assert sent == (payload.replace(events[5], b"") if hide else payload)
    assert played.relay.usage() == Usage(3, 2)


def test_aligned_reads_go_on_as_they_are() -> None:
    reads = [chunk(event) for event in STREAM[:4]] + [chunk(STREAM[4]) + chunk(DONE) + END]
    played = Played(Out())
    played.play(reads)
    assert played.out.writes[0] == reads[0]
    assert all(a is b for a, b in zip(played.out.writes[1:], reads[1:], strict=True))


@given(cuts=CUTS, keep=st.integers(0, 2000))
def test_a_cut_anywhere_ends_with_the_error_event_after_whole_events(cuts: list[int], keep: int) -> None:
    raw = b"".join(chunk(event) for event in STREAM)
    raw = raw[: keep % len(raw)]
    played = Played(Out())
    played.play([read for read in cut(raw, cuts) if read])
    played.relay.end_with(b'data: {"error":1}\n\n')
    sent, ended = played.out.read()
    assert ended
    assert sent.endswith(b'data: {"error":1}\n\n')
    before = sent.removesuffix(b'data: {"error":1}\n\n')
    assert b"".join(STREAM).startswith(before)
    assert whole_events(before) == len(before)


def test_comments_are_no_tokens() -> None:
    played = Played(Out())
    played.play([chunk(ROLE), chunk(b": ping\n\n"), chunk(b": ping\n\n")])
    assert (played.relay.token_at, played.counters.tokens, played.counters.sign_at) == (2.0, 1, 2.0)


def test_a_huge_event_is_not_held_for_ever_and_can_still_be_ended() -> None:
    played = Played(Out())
    played.play([chunk(b"data: " + b"x" * (MAX_EVENT_BYTES + 1))])
    played.relay.end_with(b"data: error\n\n")
    sent, ended = played.out.read()
    assert ended
    assert sent.endswith(b"xx\n\ndata: error\n\n")


def test_other_bodies_are_passed_on_wherever_they_are_cut() -> None:
    played = Played(Out(), stream=False)
    played.play([chunk(b'{"a":')[:4], chunk(b'{"a":')[4:], chunk(b"1}")])
    assert played.out.read() == (b'{"a":1}', False)


@given(st.binary(min_size=1, max_size=5000))
def test_the_size_line_follows_from_the_length(payload: bytes) -> None:
    whole = chunk(payload)
    lower, upper = SizeLines()[len(whole)]
    assert whole.startswith(lower)
    assert upper == lower.upper()
    assert not SizeLines()[5]
    assert not b"anything".startswith(SizeLines()[5])


@given(st.lists(st.integers(1, 600), min_size=1, max_size=6), st.booleans())
def test_whatever_the_sizes_of_chunks_all_is_relayed(sizes: list[int], together: bool) -> None:
    events = [b"data: " + b"x" * size + b"\n\n" for size in sizes]
    raw = [chunk(event) for event in events]
    played = Played(Out())
    played.play([chunk(ROLE), b"".join(raw)] if together else [chunk(ROLE), *raw])
    assert played.out.read() == (ROLE + b"".join(events), False)
    assert played.counters.tokens == len(sizes) + 1


def test_several_chunks_in_a_read_go_on_without_being_parsed() -> None:
    several = chunk(delta(content="a")) + chunk(b": ping\n\n") + chunk(delta(content="b") + delta(content="c"))
    played = Played(Out())
    played.play([chunk(ROLE), several])
    assert played.out.writes[-1] is several
    assert played.conn.pieces == [ROLE]  # of the read before: llhttp has not heard of this one
    assert played.counters.tokens == 4
    assert sum(played.counters.gaps.counts) == 2  # one a read


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.integers(0, 300))
def test_only_whole_chunks_pass_for_whole_chunks(payloads: list[bytes], keep: int) -> None:
    raw = b"".join(chunk(payload + b"\n\n") for payload in payloads)
    lines = SizeLines()
    assert whole_chunks(raw, lines) or any(b"\n\n\r\n" in payload for payload in payloads)
    ends = set(itertools.accumulate(len(chunk(payload + b"\n\n")) for payload in payloads))
    part = raw[: keep % len(raw)]
    assert not part or len(part) in ends or not whole_chunks(part, lines)


@pytest.mark.parametrize("bad", [END, b"5;a\r\nabc\n\n\r\n", b"0x5\r\nabc\n\n\r\n", b"6\r\nabc\n\n\r\n", b"\n\n\r\n"])
def test_odd_framing_never_passes_for_whole_chunks(bad: bytes) -> None:
    good = chunk(b"data: a\n\n")
    assert whole_chunks(good, SizeLines())
    assert not whole_chunks(good + bad, SizeLines())


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_events_keep_their_blank_lines(end: bytes) -> None:
    payload = b"data: a" + end + b": b" + end
    assert events_of(payload) == [b"data: a" + end, b": b" + end]
    assert whole_events(payload + b"data: c") == len(payload)
