"""Every error shape met in the field, and what it amounts to."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.probe import Fault, FaultClass
from pulsegate.core.retry_after import MAX_RETRY_AFTER_S
from pulsegate.engines.error_body import read_error_body
from pulsegate.engines.faults import classify_answer, classify_error, retry_after

CUDA, DEAD, SERVER, FULL = FaultClass.CUDA, FaultClass.ENGINE_DEAD, FaultClass.SERVER, FaultClass.OVERLOAD
STARTING, ASLEEP, AUTH, BILLING = FaultClass.STARTING, FaultClass.SLEEPING, FaultClass.AUTH, FaultClass.BILLING
MISSING, BAD, SHORT = FaultClass.NOT_FOUND, FaultClass.BAD_REQUEST, FaultClass.OUTPUT_LIMIT


def openai(message: str, kind: str = "InternalServerError", code: object = 500, **more: object) -> str:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code, **more}})


def flat(message: str, kind: str = "BadRequestError", code: object = 400) -> str:
    return json.dumps({"object": "error", "message": message, "type": kind, "param": None, "code": code})


def bare(message: str, kind: str | None = None) -> str:
    return json.dumps({"error": message} if kind is None else {"error": message, "error_type": kind})


STUB = "Failed to process the request(s) for model instance 'm_0', message: Stub process is not healthy."
PHRASED_AS_INPUT = "1 validation error: {'loc': 'messages.0', 'input': 'why CUDA error: out of memory?'}"

ANSWERS: list[tuple[str, int, str, FaultClass]] = [
    # vLLM
    ("vllm engine core gone", 500, openai("EngineCore encountered an issue. See stack trace (above)."), DEAD),
    ("vllm shutting down", 500, openai("cannot schedule new futures after shutdown"), DEAD),
    ("vllm V0 loop", 500, openai("Background loop has errored already."), DEAD),
    ("vllm exception name", 500, openai("", "EngineDeadError"), DEAD),
    ("vllm empty 500", 500, "", SERVER),
    ("vllm cuda", 500, openai("CUDA error: an illegal memory access was encountered"), CUDA),
    ("torch out of memory", 500, openai("CUDA out of memory. Tried to allocate 2.00 GiB"), CUDA),
    ("torch newer name", 500, "torch.OutOfMemoryError: HIP out of memory.", CUDA),
    ("ray worker", 500, openai("The actor died unexpectedly before finishing this task."), DEAD),
    ("vllm queue full", 503, openai("The engine is currently busy and cannot accept new requests."), FULL),
    ("vllm asleep", 503, openai("The engine is in sleep mode; call /wake_up first."), ASLEEP),
    ("vllm 404 old", 404, flat("The model `X` does not exist.", "NotFoundError", 404), MISSING),
    ("vllm 404 new", 404, openai("The model `X` does not exist.", "NotFoundError", 404), MISSING),
    ("vllm context", 400, openai("This model's maximum context length is 8 tokens.", "BadRequestError", 400), BAD),
    ("vllm validation", 400, openai("[{'type': 'missing', 'loc': ('body',)}]", "Bad Request", 400), BAD),
    ("vllm not implemented", 501, openai("not supported", "NotImplementedError", 501), BAD),
    ("key refused", 401, bare("Unauthorized"), AUTH),
    # a message may quote what the user wrote
    ("quoted words in a 400", 400, openai(PHRASED_AS_INPUT, "BadRequestError", 400), BAD),
    ("quoted words in a 422", 422, json.dumps({"detail": [{"msg": "NCCL error in prompt", "type": "value"}]}), BAD),
    ("quoted words in a 404", 404, openai("The model `CUDA error` does not exist.", "NotFoundError", 404), MISSING),
    ("but not when it begins so", 400, openai("CUDA error: device-side assert triggered", "x", 400), CUDA),
    ("nor behind an exception's name", 400, bare("RuntimeError: CUDA error: unspecified launch failure"), CUDA),
    # SGLang
    ("sglang full", 503, flat("The request queue is full.", "ServiceUnavailable", 503), FULL),
    ("sglang bad request", 400, flat("input is too long"), BAD),
    ("sglang scheduler", 500, "Scheduler hit an exception: torch.AcceleratorError: CUDA error: unknown", CUDA),
    ("sglang router", 503, openai("No workers", "Service Unavailable", "server_selection_failed"), SERVER),
    # TGI
    ("tgi shard failed", 424, bare("Request failed during generation: Server error: x", "generation"), SERVER),
    ("tgi shard cuda", 424, bare("Request failed during generation: CUDA error: illegal memory access"), CUDA),
    ("tgi shard gone", 424, bare("Request failed during generation: Server error: transport error"), DEAD),
    ("tgi overloaded", 429, bare("Model is overloaded", "overloaded"), FULL),
    ("tgi incomplete", 500, bare("Incomplete generation", "incomplete_generation"), SERVER),
    ("tgi validation", 422, bare("Input validation error: `inputs` must be non-empty", "validation"), BAD),
    ("tgi unhealthy", 503, bare("unhealthy", "healthcheck"), SERVER),
    # Triton blames the caller for its own failures
    ("triton stub", 400, bare(STUB), DEAD),
    (
        "triton cuda",
        400,
        bare("Failed to process the request(s) for model instance 'm_0', message: CUDA error: x"),
        CUDA,
    ),
    ("triton loading", 400, bare("Request for unknown model: 'm' has no available versions"), STARTING),
    ("triton unknown", 404, bare("Request for unknown model: 'm' is not found"), MISSING),
    # TensorRT-LLM
    ("trtllm text body", 503, "LLM is unavailable. Please check the server logs for more details.", DEAD),
    ("trtllm bad request", 400, flat("max_tokens must be positive"), BAD),
    ("trtllm executor", 500, flat("Executor worker died", "InternalServerError", 500), DEAD),
    # llama.cpp
    ("llama loading", 503, openai("Loading model", "unavailable_error", 503), STARTING),
    ("llama key", 401, openai("Invalid API Key", "authentication_error", 401), AUTH),
    ("llama context", 400, openai("request (9 tokens) exceeds the available context size (8 tokens)", "x", 400), BAD),
    ("llama unsupported", 501, openai("This server does not support completions.", "not_supported_error", 501), BAD),
    ("llama compute", 500, openai("Compute error.", "server_error", 500), SERVER),
    ("llama vulkan", 500, openai("vk::Queue::submit: ErrorDeviceLost", "server_error", 500), CUDA),
    # Ollama
    ("ollama not pulled", 404, bare("model 'x' not found"), MISSING),
    ("ollama busy", 503, bare("server busy, please try again.  maximum pending requests exceeded"), FULL),
    (
        "ollama runner",
        500,
        bare("model runner has unexpectedly stopped, this may be due to resource limitations"),
        DEAD,
    ),
    ("ollama runner cuda", 500, bare("llama runner process has terminated: CUDA error: out of memory"), CUDA),
    ("ollama cannot load", 500, bare("error loading model: unable to allocate CUDA0 buffer"), CUDA),
    ("ollama cannot load either", 500, bare("error loading model: no such file"), SERVER),
    # LMDeploy
    (
        "lmdeploy 404",
        404,
        json.dumps({"message": "The model 'X' does not exist.", "code": 404, "object": "error"}),
        MISSING,
    ),
    ("lmdeploy dead", 503, flat("The inference engine is unavailable.", "server_error", 503), DEAD),
    ("lmdeploy cancelled", 499, flat("The request was cancelled.", "cancelled", 499), SERVER),
    ("lmdeploy starting", 503, json.dumps({"status": "initializing", "message": "engine is initializing"}), STARTING),
    ("lmdeploy conflict", 409, flat("session is in use", "conflict", 409), BAD),
    # hosted
    ("zhipu no money", 429, json.dumps({"error": {"code": "1113", "message": "top up"}}), BILLING),
    ("zhipu no money, wrapped", 429, json.dumps({"type": "error", "error": {"type": "1113", "message": "x"}}), BILLING),
    ("zhipu rate", 429, json.dumps({"error": {"code": "1302", "message": "slow down"}}), FULL),
    ("deepseek no money", 402, openai("Insufficient Balance", "unknown_error", "invalid_request_error"), BILLING),
    (
        "openai no money",
        429,
        openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        BILLING,
    ),
    ("dashscope no money", 400, json.dumps({"code": "Arrearage", "message": "Access denied."}), BILLING),
    ("rate limit", 429, openai("Rate limit reached", "requests", "rate_limit_exceeded"), FULL),
    ("429 for one large prompt", 429, openai("Request too large. Limit 12000, Requested 15318", "tokens", "x"), BAD),
    ("anthropic overloaded", 529, json.dumps({"type": "error", "error": {"type": "overloaded_error"}}), FULL),
    ("forbidden", 403, "Forbidden", AUTH),
    ("one token is too few", 400, openai("max_tokens or model output limit was reached", "x", "invalid"), SHORT),
    ("sixteen at least", 400, openai("Expected a value >= 16, but got 1", "x", "integer_below_min_value"), SHORT),
    ("minimum named", 400, openai("max_output_tokens has a minimum of 16", "invalid_request_error", None), SHORT),
    ("model unknown in a 400", 400, openai("no such model", "invalid_request_error", "model_not_found"), MISSING),
    # the body's status counts
    ("502 inside a 200", 200, openai("bad gateway", "x", 502), SERVER),
    ("429 inside a 200", 200, json.dumps({"id": "x", "choices": None, "error": {"code": 429, "message": "m"}}), FULL),
    ("401 inside a 200, as text", 200, openai("no", "x", "401"), AUTH),
    ("403 beside the error", 200, json.dumps({"code": 403, "error": "not yours"}), AUTH),
    # devices of others
    ("xid", 500, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", CUDA),
    ("nccl", 500, openai("NCCL error: unhandled system error"), CUDA),
    ("nccl watchdog", 500, "[Rank 1] Watchdog caught collective operation timeout; ncclRemoteError", CUDA),
    ("cublas", 500, openai("cuBLAS error: CUBLAS_STATUS_EXECUTION_FAILED"), CUDA),
    ("ecc", 500, openai("uncorrectable ECC error encountered"), CUDA),
    ("hip", 500, openai("HIP error: invalid device function"), CUDA),
    ("npu", 500, openai("NPU out of memory. Tried to allocate 20.00 MiB"), CUDA),
    ("acl", 500, openai("call aclnnMatmul failed, detail: EZ9999: Inner Error! aclrtSynchronize error"), CUDA),
    # no JSON at all
    ("proxy page", 502, "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>", SERVER),
    ("cut json", 500, '{"error": {"message": "CUDA error: an illegal memory acc', CUDA),
    ("binary", 500, "\x00\x01\xff", SERVER),
    ("a list", 400, json.dumps([{"error": {"message": "API key not valid", "code": 401}}]), AUTH),
    ("204", 204, "", SERVER),
]


@pytest.mark.parametrize(("status", "body", "kind"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_answer(status: int, body: str, kind: FaultClass):
    assert classify_answer(status, body.encode()).kind is kind


EVENTS: list[tuple[str, object, FaultClass]] = [
    ("vllm", {"error": {"message": "EngineCore encountered an issue.", "code": 500}}, DEAD),
    ("vllm old", {"error": {"object": "error", "message": "Internal server error", "code": 500}}, SERVER),
    ("sglang full", {"error": {"message": "The request queue is full.", "code": 503}}, FULL),
    ("sglang /generate", {"error": {"message": "something"}}, SERVER),
    ("tgi full under 422", {"error": {"message": "Model is overloaded", "http_status_code": 422}}, FULL),
    (
        "tgi failed under 422",
        {"error": {"message": "Request failed during generation: x", "http_status_code": 422}},
        SERVER,
    ),
    (
        "tgi cuda under 422",
        {"error": {"message": "Request failed during generation: CUDA error: x", "http_status_code": 422}},
        CUDA,
    ),
    ("tgi incomplete under 422", {"error": {"message": "Incomplete generation", "http_status_code": 422}}, SERVER),
    ("tgi validation", {"error": {"message": "Input validation error: x", "http_status_code": 422}}, BAD),
    ("tgi native", {"error": "Request failed during generation: x", "error_type": "generation"}, SERVER),
    ("triton", {"error": "Error generating stream: CUDA error: out of memory"}, CUDA),
    ("flat", {"object": "error", "message": "bad", "type": "BadRequestError", "code": 400}, BAD),
    ("text", "out of memory", CUDA),
    ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, FULL),
    ("declared, but in no known shape", {"error": {"x": 1}}, SERVER),
    ("no status, no words", {"error": {"message": "oops"}}, SERVER),
    ("wrapped twice", {"error": {"error": {"message": "no", "code": 401}}}, AUTH),
]


@pytest.mark.parametrize(("event", "kind"), [row[1:] for row in EVENTS], ids=[row[0] for row in EVENTS])
def test_event_inside_a_stream(event: object, kind: FaultClass):
    assert classify_error(event).kind is kind


def test_status_is_the_bodys_if_it_names_one():
    assert classify_answer(200, b'{"error":{"code":"502","message":"x"}}').status == 502
    assert classify_answer(503, b'{"error":{"code":1113}}').status == 503
    assert classify_answer(500, b"").status == 500
    assert classify_error({"error": "x"}) == Fault(kind=SERVER, detail="x", status=None)


def test_detail_names_what_is_there_to_name():
    assert classify_answer(500, b"").detail == "HTTP 500 with an empty body"
    assert classify_answer(500, b'{"error":{"type":"EngineDeadError"}}').detail == "enginedeaderror"
    assert classify_answer(502, b"<html><head><title>502 Bad\n Gateway</title>").detail == "502 Bad Gateway"
    assert classify_answer(400, b'{"detail":[{"msg":"field required"}]}').detail == '[{"msg":"field required"}]'


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: sk-proj-abc123DEF456. You can find yours at ...",
        "got header Authorization: Bearer abc.def-ghi",
        'echo {"api_key": "hunter2hunter2"}',
        "token hf_abcdefghijklmnop is not valid",
        "key 0123456789abcdef0123456789abcdef.AbCdEfGh12345678 has no balance",
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "the operator's own: open-sesame",
    ],
)
def test_detail_holds_no_key(said: str):
    keys = ("abc123", "abc.def", "hunter2", "abcdefghij", "AbCdEfGh", "eyJzdWI", "open-sesame")
    for body in (said, json.dumps({"error": {"message": said}}), json.dumps({"error": said})):
        detail = classify_answer(401, body.encode(), secrets=("open-sesame",)).detail
        assert "***" in detail
        assert not any(key in detail for key in keys)


def test_a_huge_body_is_classified_by_its_beginning():
    body = b'{"error":{"message":"CUDA error: x' + b"y" * 5_000_000
    fault = classify_answer(500, body)
    assert fault.kind is CUDA
    assert len(fault.detail) <= 200


@given(st.binary(max_size=400), st.integers(100, 599))
def test_any_bytes_give_a_fault_fit_for_a_log_line(body: bytes, status: int):
    fault = classify_answer(status, body)
    assert 0 < len(fault.detail) <= 200
    assert fault.detail.isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "detail", "status", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_json_can_be_read(value: object):
    told = read_error_body(json.dumps(value).encode())
    assert isinstance(told.message, str)
    assert told.status is None or 100 <= told.status < 600


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "999999"}, MAX_RETRY_AFTER_S),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 08:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None):
    assert retry_after(headers) == seconds
    assert classify_answer(503, b"", headers).retry_after_s == seconds


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "unit",
    [
        "<title",
        "<title>",
        "<",
        "x",
        "-a",
        '"error" ',
        "model ",
        "model not ",
        "nccl ",
        "the worker ",
        "{",
        "a" * 39 + " ",
    ],
)
def test_no_error_body_takes_long_to_read(unit: str) -> None:
    """One sick server must not hold up the probes of all others: this takes minutes if time grows with the square."""
    for text in (unit * (65536 // len(unit)), unit * (1048576 // len(unit))):
        assert classify_answer(500, text.encode()).kind in FaultClass
        assert classify_answer(500, msgspec.json.encode({"error": {"message": text, "code": text}})).kind in FaultClass
        assert classify_answer(400, text.encode()).kind in FaultClass


def test_a_long_traceback_is_told_by_its_last_line() -> None:
    body = "Traceback\n" + 'File "x.py", line 1\n' * 9000 + "torch.OutOfMemoryError: CUDA out of memory."
    assert classify_answer(500, msgspec.json.encode({"detail": body})).kind is FaultClass.CUDA
