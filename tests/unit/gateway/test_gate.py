import json
from typing import Any

import pytest

from pulsegate.core.rescue import FailureKind
from pulsegate.gateway.gate import GATE_BYTES, Broken, Gate, StreamGate, judge_body, judge_event, judge_status
from pulsegate.gateway.usage import Usage


def data(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode()


def choice(**fields: Any) -> bytes:
    return data({"choices": [{"index": 0, **fields}]})


NO_TOKENS = {
    "a comment": b": keep-alive",
    "a ping": b"event: ping\ndata: {}",
    "an id": b"id: 7",
    "no data": b"data:",
    "a role": choice(delta={"role": "assistant", "content": ""}, finish_reason=None),
    "a role with null": choice(delta={"role": "assistant", "content": None}),
    "an empty delta": choice(delta={}),
    "nulls": choice(delta={"content": None, "reasoning_content": None, "tool_calls": None}),
    "an empty list of tools": choice(delta={"tool_calls": []}),
    "no choices": data({"choices": []}),
    "no completion tokens": data({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}),
    "empty text": choice(text="", finish_reason=None),
    "response created": data({"type": "response.created", "response": {"error": None}}),
    "an output item": data({"type": "response.output_item.added", "item": {}}),
    "an empty text delta": data({"type": "response.output_text.delta", "delta": ""}),
    "an error that is null": data({"choices": [], "error": None}),
}
TOKENS = {
    "content": choice(delta={"content": "a"}),
    "a space": choice(delta={"content": " "}),
    "reasoning": choice(delta={"content": None, "reasoning_content": "a"}),
    "reasoning by another name": choice(delta={"reasoning": "a"}),
    "a tool call": choice(delta={"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}),
    "a refusal": choice(delta={"refusal": "no"}),
    "a finish reason with empty text": choice(delta={"content": ""}, finish_reason="length"),
    "text": choice(text="a"),
    "empty text that ends": choice(text="", finish_reason="length"),
    "counted tokens": data({"choices": [], "usage": {"completion_tokens": 1}}),
    "the second of two choices": data({"choices": [{"delta": {}}, {"delta": {"content": "b"}}]}),
    "a text delta": b"event: response.output_text.delta\n" + data({"type": "response.output_text.delta", "delta": "a"}),
    "a reasoning delta": data({"type": "response.reasoning_text.delta", "delta": "a"}),
    "arguments": data({"type": "response.function_call_arguments.delta", "delta": "{"}),
    "completed at once": data({"type": "response.completed", "response": {"status": "completed"}}),
    "without a space": b'data:{"choices":[{"text":"a"}]}',
    "over two lines": b'data: {"choices":\ndata: [{"text":"a"}]}',
    "between comments": b": a\n" + choice(text="a") + b"\n: b",
}
FAILURES = {
    "an error": (data({"error": {"message": "boom", "code": 500}}), FailureKind.SERVER),
    "an error without a code": (data({"error": {"message": "boom", "type": "server_error"}}), FailureKind.SERVER),
    "an error as text": (data({"error": "boom"}), FailureKind.SERVER),
    "an error beside choices": (data({"error": {"message": "boom"}, "choices": []}), FailureKind.SERVER),
    "the old shape": (data({"object": "error", "message": "boom", "code": 500}), FailureKind.SERVER),
    "a named event": (b"event: error\n" + data({"message": "boom"}), FailureKind.SERVER),
    "overload": (data({"error": {"message": "busy", "code": 503}}), FailureKind.OVERLOAD),
    "a rate limit": (data({"error": {"message": "busy", "code": "429"}}), FailureKind.OVERLOAD),
    "a key of ours": (data({"error": {"message": "who?", "code": 401}}), FailureKind.SERVER),
    "a failed response": (data({"type": "response.failed", "response": {}}), FailureKind.SERVER),
    "the end": (b"data: [DONE]", FailureKind.SERVER),
    "no JSON": (b"data: <html>", FailureKind.PROTOCOL),
    "no object": (b"data: 7", FailureKind.PROTOCOL),
    "broken JSON": (b'data: {"choices":', FailureKind.PROTOCOL),
    "bad UTF-8": (b'data: {"a":"\xff"}', FailureKind.PROTOCOL),
}
USERS_OWN = data({"error": {"message": "too long", "code": 400}})


@pytest.mark.parametrize("event", NO_TOKENS.values(), ids=NO_TOKENS.keys())
def test_no_tokens(event: bytes) -> None:
    assert judge_event(event) is Gate.WAIT


@pytest.mark.parametrize("event", TOKENS.values(), ids=TOKENS.keys())
def test_tokens(event: bytes) -> None:
    assert judge_event(event) is Gate.OPEN


@pytest.mark.parametrize(("event", "kind"), FAILURES.values(), ids=FAILURES.keys())
def test_failures(event: bytes, kind: FailureKind) -> None:
    verdict = judge_event(event)
    assert isinstance(verdict, Broken)
    assert verdict.kind is kind


def test_the_users_own_error_may_go_to_the_user() -> None:
    assert judge_event(USERS_OWN) is Gate.OPEN


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_gate_opens_with_the_read_that_completes_the_token(end: bytes, size: int) -> None:
    before = b"".join(event.replace(b"\n", end) + end * 2 for event in (b": ping", NO_TOKENS["a role"]))
    token = TOKENS["content"].replace(b"\n", end) + end * 2
    gate = StreamGate()
    stream = before + token + b"data: more"
    seen = [gate.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    opened = seen.index(Gate.OPEN)
    assert set(seen[:opened]) <= {Gate.WAIT}
    last_needed = len(before + token) - 1
    slack = 1 if end == b"\r" else 0  # a CR may be half of a CRLF: the next byte decides
    assert last_needed // size <= opened <= (last_needed + slack) // size


def test_an_end_without_a_token_is_a_failure() -> None:
    gate = StreamGate()
    assert gate.feed(NO_TOKENS["a role"] + b"\n\n") is Gate.WAIT
    assert isinstance(gate.finish(), Broken)


def test_a_last_event_without_its_blank_line_counts() -> None:
    gate = StreamGate()
    assert gate.feed(TOKENS["content"] + b"\n") is Gate.WAIT
    assert gate.finish() is Gate.OPEN


def test_endless_comments_are_not_held_for_ever() -> None:
    gate = StreamGate()
    verdicts = [gate.feed(b": ping\n\n" * 10_000) for _ in range(GATE_BYTES // 80_000 + 1)]
    assert isinstance(verdicts[-1], Broken)


@pytest.mark.parametrize(
    ("body", "verdict", "usage"),
    [
        (b'{"choices":[{"message":{"content":""}}]}', Gate.OPEN, None),
        (b'{"usage":{"prompt_tokens":3,"completion_tokens":4}}', Gate.OPEN, Usage(3, 4)),
        (b'{"usage":{"input_tokens":3,"output_tokens":4}}', Gate.OPEN, Usage(3, 4)),
        (b'{"usage":{"prompt_tokens":3,"total_tokens":3}}', Gate.OPEN, Usage(3, None)),
        (b'{"usage":null,"error":null}', Gate.OPEN, None),
        (b'{"usage":"odd"}', Gate.OPEN, None),
        (b'{"error":{"message":"too long","code":400}}', Gate.OPEN, None),
    ],
)
def test_whole_answers(body: bytes, verdict: Gate, usage: Usage | None) -> None:
    assert judge_body(body) == (verdict, usage)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error":{"message":"boom","code":500}}', FailureKind.SERVER),
        (b'{"error":"boom"}', FailureKind.SERVER),
        (b'{"object":"error","message":"boom","code":503}', FailureKind.OVERLOAD),
        (b'{"usage":"odd","error":"boom"}', FailureKind.SERVER),
        (b"", FailureKind.PROTOCOL),
        (b"[]", FailureKind.PROTOCOL),
        (b'{"a":', FailureKind.PROTOCOL),
        (b"<html>", FailureKind.PROTOCOL),
        (b'{"a":1} trailing', FailureKind.PROTOCOL),
    ],
)
def test_whole_answers_that_are_failures(body: bytes, kind: FailureKind) -> None:
    verdict, usage = judge_body(body)
    assert isinstance(verdict, Broken)
    assert (verdict.kind, usage) == (kind, None)


def kind_of(status: int, *, users_key: bool = False) -> FailureKind | Gate | None:
    verdict = judge_status(status, users_key=users_key)
    return verdict.kind if isinstance(verdict, Broken) else verdict


def test_statuses() -> None:
    assert kind_of(200) is kind_of(201) is None
    assert {kind_of(status) for status in (400, 404, 409, 413, 422)} == {Gate.OPEN}
    assert {kind_of(status) for status in (401, 402, 403, 407)} == {FailureKind.REJECTED}
    assert {kind_of(status, users_key=True) for status in (401, 402, 403, 407)} == {Gate.OPEN}
    assert {kind_of(status) for status in (429, 503, 529)} == {FailureKind.OVERLOAD}
    assert {kind_of(status) for status in (408, 424, 425, 499, 500, 501, 502, 504)} == {FailureKind.SERVER}
    assert {kind_of(status) for status in (300, 301, 302, 307, 308)} == {FailureKind.PROTOCOL}
