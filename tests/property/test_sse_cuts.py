import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pulsegate.engines.sse import SseError, SseEvent, SseParser

STREAMS = st.lists(
    st.sampled_from(
        [b"data: a", b"data:", b"data", b": ka", b"event: e", b"\n", b"\r", b"\r\n", b" ", b":", b"\xef\xbb\xbf", b"x",
         "data: é😀".encode(), b"\xff", b"\n\n", b"data: [DONE]\n\n"]
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


def read(pieces: list[bytes], limit: int = 1000) -> tuple[list[SseEvent], int] | str:
    parser = SseParser(max_line_bytes=limit, max_event_bytes=limit)
    events: list[SseEvent] = []
    try:
        for piece in pieces:
            events += parser.feed(piece)
        events += parser.finish()
    except SseError as exc:
        return exc.limit
    return events, parser.comments


def by_the_standard(stream: bytes) -> list[SseEvent]:
    """The standard's algorithm, word for word, on the whole stream (and the last event even without a blank line)."""
    events: list[SseEvent] = []
    data, name = "", ""
    text = stream.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    for line in [*re.split(r"\r\n|\n|\r", text), ""]:
        if line == "":
            if data:
                events.append(SseEvent(data.removesuffix("\n"), name))
            data, name = "", ""
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data += value + "\n"
        elif field == "event":
            name = value
    return events


@given(STREAMS)
def test_a_stream_means_what_the_standard_says(stream: bytes) -> None:
    result = read([stream])
    assert not isinstance(result, str)
    assert result[0] == by_the_standard(stream)


@given(STREAMS, st.lists(st.integers(0, 200), max_size=8))
def test_cuts_change_nothing(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(edges)]
    assert read(pieces) == read([stream])


@given(STREAMS)
def test_byte_by_byte_is_the_same(stream: bytes) -> None:
    assert read([stream[at : at + 1] for at in range(len(stream))]) == read([stream])


@given(STREAMS, st.integers(1, 40))
def test_limits_hold_at_every_cut(stream: bytes, limit: int) -> None:
    whole = read([stream], limit)
    in_bytes = read([stream[at : at + 1] for at in range(len(stream))], limit)
    assert isinstance(whole, str) == isinstance(in_bytes, str)
