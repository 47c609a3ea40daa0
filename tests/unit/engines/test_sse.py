import pytest

from pulsegate.engines.sse import LineSplitter, SseError, SseEvent, SseParser


def events_of(stream: bytes) -> list[SseEvent]:
    parser = SseParser()
    return parser.feed(stream) + parser.finish()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [SseEvent("a")]),
        (b"data:a\n\n", [SseEvent("a")]),
        (b"data:  a \n\n", [SseEvent(" a ")]),  # one space belongs to the format, the others to the data
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [SseEvent("a"), SseEvent("b"), SseEvent("c")]),
        (b"data: a\ndata: b\n\n", [SseEvent("a\nb")]),
        (b"data: a\n\n\n\ndata: b\n\n", [SseEvent("a"), SseEvent("b")]),
        (b"event: error\ndata: {}\n\ndata: x\n\n", [SseEvent("{}", "error"), SseEvent("x")]),
        (b"event: ping\n\ndata: x\n\n", [SseEvent("x")]),  # no data, no event, and its name does not stick
        (b"data\n\n", [SseEvent("")]),
        (b"data:\n\n", [SseEvent("")]),
        (b"data: [DONE]", [SseEvent("[DONE]")]),
        (b"data: [DONE]\n", [SseEvent("[DONE]")]),
        (b"id: 7\nretry: 10\nunknown: x\ndata: a\n\n", [SseEvent("a")]),
        (b"datax: a\n data: b\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [SseEvent("a")]),
        (b"\n\xef\xbb\xbfdata: a\n\n", []),  # a byte order mark counts at the very beginning only
        ("data: é€😀\n\n".encode(), [SseEvent("é€😀")]),
        (b"data: \xff\xfe\n\n", [SseEvent("\ufffd\ufffd")]),
        (b"data: a\x00b\n\n", [SseEvent("a\x00b")]),
        (b"data: a: b\n\n", [SseEvent("a: b")]),
        (b"", []),
        (b"\n\n\r\r\r\n", []),
    ],
)
def test_streams(stream: bytes, expected: list[SseEvent]) -> None:
    assert events_of(stream) == expected


def test_an_event_is_told_with_its_blank_line_and_not_before() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n") == []
    assert parser.feed(b"\r") == [SseEvent("a")]
    assert parser.feed(b"\n") == []
    assert parser.finish() == []


def test_comments_are_counted_and_are_no_events() -> None:
    parser = SseParser()
    assert parser.feed(b": keep-alive\n\n:\n\n: keep-alive\n\n") == []
    assert parser.comments == 3
    assert parser.feed(b": x\ndata: a\n: y\n\n") == [SseEvent("a")]
    assert parser.comments == 5


def test_a_line_over_the_limit_is_not_kept() -> None:
    parser = SseParser(max_line_bytes=100, max_event_bytes=1000)
    parser.feed(b"data: " + b"x" * 94)
    with pytest.raises(SseError, match="a line is longer than 100 bytes"):
        parser.feed(b"x")


def test_a_whole_line_over_the_limit() -> None:
    with pytest.raises(SseError, match="a line is longer"):
        LineSplitter(max_line_bytes=3).feed(b"abc\nabcd\n")


@pytest.mark.parametrize("line", [b"data: xxxxxxxxxx\n", b"data\n"])
def test_an_event_over_the_limit(line: bytes) -> None:
    parser = SseParser(max_line_bytes=100, max_event_bytes=50)
    with pytest.raises(SseError, match="an event is longer than 50 bytes"):
        parser.feed(line * 100)


def test_many_small_events_are_no_big_one() -> None:
    parser = SseParser(max_line_bytes=100, max_event_bytes=50)
    assert sum(len(parser.feed(b"data: xxxxxxxxxx\n\n")) for _ in range(100)) == 100


def test_an_endless_line_of_comments_or_fields_is_a_line_too() -> None:
    for start in (b": ", b"event: ", b"whatever"):
        parser = SseParser(max_line_bytes=100)
        with pytest.raises(SseError):
            parser.feed(start + b"x" * 200)


def test_lines_for_ndjson() -> None:
    lines = LineSplitter()
    assert lines.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert lines.feed(b":2}\r\n\n{}") == [b'{"b":2}', b""]
    assert lines.finish() == b"{}"
    assert lines.finish() == b""
