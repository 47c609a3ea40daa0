"""What the dialects make of recorded and made-up answers, however they are cut."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import FaultClass
from pulsegate.engines.dialects.registry import DIALECTS
from support.answers import Heard, events, hear, recorded, respond

VLLM, LLAMA, OPENAI, TGI = EngineName.VLLM, EngineName.LLAMACPP, EngineName.OPENAI, EngineName.TGI
TRITON, OLLAMA, SGLANG = EngineName.TRITON, EngineName.OLLAMA, EngineName.SGLANG

TOKENS: list[tuple[str, EngineName, Heard]] = [
    ("vllm-completion", VLLM, Heard(text="--", chunks=1, finish="length", first_at=0)),
    ("vllm-completion-usage", VLLM, Heard(text="--", chunks=1, tokens=1, finish="length", first_at=0)),
    ("vllm-chat-empty-text", VLLM, Heard(finish="length", first_at=0)),
    ("vllm-chat-usage-along", VLLM, Heard(tokens=1, finish="length", first_at=0)),
    ("vllm-unstreamed", VLLM, Heard(text="--", chunks=1, tokens=1, finish="length", first_at=0)),
    ("llamacpp-completion", LLAMA, Heard(text="-", chunks=1, tokens=1, finish="length", first_at=0)),
    ("llamacpp-chat", LLAMA, Heard(text="I", chunks=1, finish="length", first_at=0)),
    ("llamacpp-unstreamed", LLAMA, Heard(text="-", chunks=1, tokens=1, finish="length", first_at=0)),
    ("transformers-completion", OPENAI, Heard(text="--", chunks=1, tokens=1, finish="length", first_at=0)),
    ("transformers-chat", OPENAI, Heard(tokens=1, finish="length", first_at=0)),
]
FAULTS: list[tuple[str, EngineName, FaultClass]] = [
    ("vllm-unknown-model", VLLM, FaultClass.NOT_FOUND),
    ("vllm-too-long", VLLM, FaultClass.BAD_REQUEST),
    ("vllm-no-tokens", VLLM, FaultClass.BAD_REQUEST),
    ("vllm-queue-full", VLLM, FaultClass.OVERLOAD),
    ("vllm-dead", VLLM, FaultClass.ENGINE_DEAD),
    ("vllm-dead-in-stream", VLLM, FaultClass.ENGINE_DEAD),
    ("vllm-shutting-down", VLLM, FaultClass.ENGINE_DEAD),
    ("llamacpp-too-long", LLAMA, FaultClass.BAD_REQUEST),
]


@pytest.mark.parametrize(("name", "engine", "expected"), TOKENS, ids=[row[0] for row in TOKENS])
def test_recorded_token(name: str, engine: EngineName, expected: Heard):
    assert hear(engine, [recorded(name)]) == expected


@pytest.mark.parametrize(("name", "engine", "kind"), FAULTS, ids=[row[0] for row in FAULTS])
def test_recorded_fault(name: str, engine: EngineName, kind: FaultClass):
    heard = hear(engine, [recorded(name)])
    assert heard.fault is not None
    assert heard.fault.kind is kind
    assert not heard.token_seen


@pytest.mark.parametrize("name", [row[0] for row in (*TOKENS, *FAULTS)])
def test_cut_in_two_at_every_byte(name: str):
    """The facts are the same, and the token is stamped by the read that completed its event."""
    raw = recorded(name)
    engine = LLAMA if name.startswith("llama") else VLLM
    whole = hear(engine, [raw])
    for at in range(1, len(raw)):
        cut = hear(engine, [raw[:at], raw[at:]])
        assert replace(cut, first_at=None, whole=True) == replace(whole, first_at=None, whole=True), at


@pytest.mark.parametrize("name", [row[0] for row in (*TOKENS, *FAULTS)])
def test_byte_by_byte(name: str):
    raw = recorded(name)
    engine = LLAMA if name.startswith("llama") else VLLM
    one = hear(engine, [bytes((byte,)) for byte in raw])
    assert replace(one, first_at=None, whole=True) == replace(hear(engine, [raw]), first_at=None, whole=True)


def test_the_stamp_is_that_of_the_read_with_the_token():
    raw = recorded("vllm-completion")
    end_of_event = raw.index(b"\n\n", raw.index(b"data:")) + 2
    assert hear(VLLM, [raw[:100], raw[100:end_of_event], raw[end_of_event:]]).first_at == 1.0
    assert hear(VLLM, [raw[:100], raw[100 : end_of_event - 1], raw[end_of_event - 1 :]]).first_at == 2.0


def test_keep_alive_comments_are_no_life():
    assert hear(VLLM, [recorded("vllm-frozen-keepalive")]) == Heard(token_seen=False, finished=False, whole=False)


ROLE = '{"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
HI = '{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}'
NOISE = [
    ROLE,
    '{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}',
    '{"choices":[{"index":0,"delta":{}}]}',
    '{"choices":[{"index":0,"delta":{"content":"","tool_calls":[]},"finish_reason":""}]}',
    '{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}',
    '{"choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{},"content_filter_results":{}}]}',
    '{"choices":[],"usage":null}',
    '{"choices":null}',
    '{"choices":[{"text":"","index":0,"finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0}}',
    '{"type":"ping"}',
    ": OPENROUTER PROCESSING",
    '{"choices":[{"index":0,"delta":null,"finish_reason":null}],"error":null}',
    '{"choices":{}}',
    "[]",
    "null",
    "1",
]


@pytest.mark.parametrize("noise", NOISE)
def test_no_token(noise: str):
    heard = hear(OPENAI, [events(noise, "[DONE]")])
    assert not heard.token_seen
    assert heard.fault is None
    assert hear(OPENAI, [events(noise, noise, HI, noise, "[DONE]")]).text == "Hi"


@pytest.mark.parametrize(
    ("token", "text"),
    [
        (HI, "Hi"),
        ('{"choices":[{"delta":{"reasoning_content":"Hm"}}]}', "Hm"),
        ('{"choices":[{"delta":{"reasoning":"Hm","content":""}}]}', "Hm"),
        ('{"choices":[{"delta":{"reasoning":"Hm","reasoning_content":"Hm"}}]}', "Hm"),
        ('{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}', ""),
        ('{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]}]}}]}', "Hm"),
        ('{"choices":[{"text":" x","finish_reason":null}]}', " x"),
        ('{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":null}]}', "Hi"),
    ],
)
def test_token(token: str, text: str):
    heard = hear(OPENAI, [events(ROLE, token)])
    assert (heard.text, heard.chunks, heard.token_seen, heard.finished) == (text, 1, True, False)


@pytest.mark.parametrize(
    "proof",
    [
        '{"choices":[{"delta":{},"finish_reason":"length"}]}',
        '{"choices":[{"delta":{"content":null},"finish_reason":"stop"}]}',
        '{"choices":[],"usage":{"completion_tokens":1}}',
        '{"usage":{"completion_tokens":3,"prompt_tokens":2}}',
    ],
)
def test_a_token_without_text(proof: str):
    heard = hear(OPENAI, [events(ROLE, proof, "[DONE]")])
    assert (heard.text, heard.chunks, heard.token_seen, heard.finished) == ("", 0, True, True)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("insufficient_system_resource", FaultClass.OVERLOAD),
        ("network_error", FaultClass.SERVER),
        ("abort", FaultClass.SERVER),
        ("error", FaultClass.SERVER),
    ],
)
def test_a_finish_reason_that_is_a_fault(reason: str, kind: FaultClass):
    heard = hear(OPENAI, [events(HI, f'{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}', "[DONE]")])
    assert heard.fault is not None
    assert heard.fault.kind is kind


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [
        (['data: {"error":{"message":"Model is overloaded","http_status_code":422}}\n\n'], FaultClass.OVERLOAD),
        (['data:{"error":{"message":"Model is overloaded","http_status_code":422}}\n\n'], FaultClass.OVERLOAD),
        ([f"data: {ROLE}\n\n", 'data: {"error":{"message":"CUDA error: x"}}\n\n', "data: [DONE]\n\n"], FaultClass.CUDA),
        (['data: {"object":"error","message":"no","code":500}\n\n'], FaultClass.SERVER),
        (['event: error\ndata: {"message":"slow down","code":429}\n\n'], FaultClass.OVERLOAD),
        (["event: error\ndata: out of memory\n\n"], FaultClass.CUDA),
        (['data: {"choices":[],"error":{"code":503,"message":"The request queue is full."}}\n\n'], FaultClass.OVERLOAD),
        (['data: {"id":"x","choices":null,"error":{"code":"429","message":"x"}}\n\n'], FaultClass.OVERLOAD),
    ],
)
def test_an_error_event_is_a_fault_whatever_follows(pieces: list[str], kind: FaultClass):
    heard = hear(OPENAI, [respond(*pieces, "data: [DONE]\n\n")])
    assert heard.fault is not None
    assert heard.fault.kind is kind


def test_an_error_after_the_token_is_a_fault_too():
    heard = hear(OPENAI, [events(HI, '{"error":{"message":"EngineCore encountered an issue."}}', "[DONE]")])
    assert heard.token_seen
    assert heard.fault is not None
    assert heard.fault.kind is FaultClass.ENGINE_DEAD


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("prefix", ["data: ", "data:"])
@pytest.mark.parametrize("start", ["", "\ufeff", ": ping\n\n", "\n\n\n"])
def test_framing(newline: str, prefix: str, start: str):
    stream = start + "".join(f"{prefix}{data}\n\n" for data in (ROLE, HI, "[DONE]"))
    heard = hear(OPENAI, [respond(stream.replace("\n", newline))])
    assert (heard.text, heard.finished, heard.fault) == ("Hi", True, None)


def test_several_events_in_one_chunk_and_no_closing_blank_line():
    heard = hear(OPENAI, [respond(f"data: {ROLE}\n\ndata: {HI}\n\ndata: [DONE]")])
    assert (heard.text, heard.finished) == ("Hi", True)


@pytest.mark.parametrize("kind", ["text/plain", "", "application/octet-stream", "TEXT/EVENT-STREAM"])
def test_a_stream_under_another_name(kind: str):
    assert hear(OPENAI, [respond("\n", f"data: {HI}\n\n", kind=kind)]).text == "Hi"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/problem+json"])
def test_json_instead_of_a_stream(kind: str):
    whole = '\n\n\n{"choices":[{"message":{"content":"Hi"},"finish_reason":"length"}],"usage":{"completion_tokens":1}}'
    heard = hear(OPENAI, [respond(whole, kind=kind)])
    assert (heard.text, heard.tokens, heard.finished) == ("Hi", 1, True)
    heard = hear(OPENAI, [respond('{"error":{"code":502,"message":"bad gateway"}}', kind=kind)])
    assert heard.fault is not None
    assert heard.fault.kind is FaultClass.SERVER


@pytest.mark.parametrize(
    "answer",
    [
        respond("<html><title>Welcome to nginx</title></html>", kind="text/html"),
        respond("{oops", kind="application/json"),
        respond(kind="application/json"),
        respond(),
        respond("data: oops\n\n", "data: {\n\n"),
        respond(": only\n\n: comments\n\n"),
        respond(b"\x00\xff\x13", kind="text/plain"),
        respond("data: " + "x" * 1_200_000),
        respond("x" * 300_000, kind="application/json"),
    ],
)
@pytest.mark.parametrize("engine", list(DIALECTS))
def test_not_a_stream_at_all(engine: EngineName, answer: bytes):
    heard = hear(engine, [answer])
    assert not heard.token_seen
    assert heard.fault is not None
    assert heard.fault.kind is FaultClass.PROTOCOL
    assert heard.fault.detail.isprintable()


TGI_NATIVE = [
    '{"index":1,"token":{"id":5,"text":" a","logprob":-0.1,"special":false},"generated_text":null,"details":null}',
    '{"index":2,"token":{"id":6,"text":" b","logprob":-0.1,"special":false},"generated_text":" a b","details":null}',
]


def test_tgi_native():
    heard = hear(TGI, [respond(*(f"data:{event}\n\n" for event in TGI_NATIVE))])
    assert (heard.text, heard.chunks, heard.finish) == (" a b", 2, "length")
    heard = hear(TGI, [respond(f"data:{TGI_NATIVE[0]}\n\n")])
    assert (heard.token_seen, heard.finished) == (True, False)
    failed = 'data:{"error":"Request failed during generation: CUDA error: x","error_type":"generation"}\n\n'
    fault = hear(TGI, [respond(failed)]).fault
    assert fault is not None
    assert fault.kind is FaultClass.CUDA


def test_tgi_through_v1():
    assert hear(TGI, [events(ROLE, HI, "[DONE]")]).text == "Hi"


def test_triton():
    said = '{"model_name":"ensemble","model_version":"1","sequence_end":false,"text_output":"%s"}'
    heard = hear(TRITON, [events(said % "Hi", said % "")])
    assert (heard.text, heard.chunks, heard.whole, heard.fault) == ("Hi", 2, True, None)
    fault = hear(TRITON, [events('{"error":"Error generating stream: CUDA error: x"}')]).fault
    assert fault is not None
    assert fault.kind is FaultClass.CUDA


OLLAMA_LINES = (
    '{"model":"m","created_at":"t","response":"Hi","done":false}\n'
    '{"model":"m","created_at":"t","response":"","done":true,"done_reason":"length","eval_count":1}\n'
)


@pytest.mark.parametrize("kind", ["application/x-ndjson", "text/plain"])
def test_ollama(kind: str):
    raw = respond(OLLAMA_LINES, kind=kind)
    for at in range(1, len(raw)):
        heard = hear(OLLAMA, [raw[:at], raw[at:]])
        assert (heard.text, heard.tokens, heard.finish, heard.finished) == ("Hi", 1, "length", True)


def test_ollama_cut_loaded_or_failing():
    first = OLLAMA_LINES.splitlines(keepends=True)[0]
    heard = hear(OLLAMA, [respond(first * 31, kind="application/x-ndjson")])
    assert (heard.chunks, heard.finished, heard.whole) == (31, False, True)
    loaded = '{"model":"m","response":"","done":true,"done_reason":"load"}\n'
    assert not hear(OLLAMA, [respond(loaded, kind="application/json")]).token_seen
    thought = '{"response":"","thinking":"Hm","done":false}\n'
    assert hear(OLLAMA, [respond(thought, kind="application/x-ndjson")]).text == "Hm"
    fault = hear(OLLAMA, [respond(first, '{"error":"an error was encountered: CUDA error"}', kind="x-ndjson")]).fault
    assert fault is not None
    assert fault.kind is FaultClass.CUDA


def test_sglang_finish_reason_of_no_letters_is_none():
    empty = '{"choices":[{"text":"","index":0,"finish_reason":""}]}'
    assert not hear(SGLANG, [events(empty, empty)]).token_seen


def test_text_is_kept_to_200_characters():
    heard = hear(OPENAI, [events(*[HI.replace("Hi", "x" * 90)] * 5)])
    assert (len(heard.text), heard.chunks) == (200, 5)


def test_an_error_body_without_end_is_left_at_64_kib():
    head = b"HTTP/1.1 500 X\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"4000\r\n" + b"CUDA error: x   " * 1024 + b"\r\n"
    heard = hear(OPENAI, [head, *[chunk] * 64])
    assert heard.fault is not None
    assert heard.fault.kind is FaultClass.CUDA
    assert not heard.whole


@given(st.lists(st.binary(min_size=1, max_size=120), max_size=6), st.sampled_from(sorted(DIALECTS)))
def test_any_bytes_after_a_head_are_survived(reads: list[bytes], engine: EngineName):
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    heard = hear(engine, [head, *reads])
    assert heard.chunks == 0 or heard.first_at is not None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "error", "length", "[DONE]"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["choices", "delta", "text", "content", "usage", "completion_tokens", "error", "finish_reason", "token",
             "text_output", "response", "done", "message", "code", "generated_text"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=14,
)  # fmt: skip


@given(json_values, st.sampled_from(sorted(DIALECTS)))
def test_any_json_event_is_survived(value: object, engine: EngineName):
    heard = hear(engine, [events(msgspec.json.encode(value).decode(), "[DONE]")])
    assert heard.fault is None or heard.fault.detail.isprintable()
