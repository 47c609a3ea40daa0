"""Every dialect of the simulator over real sockets."""

import json

import pytest

from pulsegate.sim import EngineConfig, Load, SimServer, Spread
from pulsegate.sim.dialects import ENGINE_NAMES, PROVIDER_NAMES
from support.sim_client import PROMPT, ask, asking

FAST = Load(ttft=Spread(median_s=0.001), itl_s=0)
MESSAGES = [{"role": "user", "content": PROMPT}]
NATIVE = {
    ("sglang", "/generate"): {"text": PROMPT, "sampling_params": {"max_new_tokens": 2}},
    ("tgi", "/generate_stream"): {"inputs": PROMPT, "parameters": {"max_new_tokens": 2}},
    ("triton", "/v2/models/m/generate_stream"): {"text_input": PROMPT, "parameters": {"max_tokens": 2}},
    ("llamacpp", "/completion"): {"prompt": PROMPT, "n_predict": 2},
    ("ollama", "/api/generate"): {"prompt": PROMPT, "options": {"num_predict": 2}},
    ("ollama", "/api/chat"): {"messages": MESSAGES, "options": {"num_predict": 2}},
}
OPENAI = [name for name in ENGINE_NAMES if name != "triton"]


def fleet(*names: str, **options) -> SimServer:
    return SimServer([EngineConfig(engine=name, model="m", load=FAST, **options) for name in names])


def text_of(record: dict) -> str:
    """The new text in one record of a native stream."""
    if "token" in record:
        return record["token"]["text"]
    if "message" in record:
        return record["message"]["content"]
    return next(record[name] for name in ("content", "response", "text_output", "text") if name in record)


@pytest.mark.parametrize("name", OPENAI)
async def test_completions_stream_continues_the_count(name):
    async with fleet(name) as sim:
        seen = await ask(sim.url(), body=asking(2))
    assert seen.status == 200
    assert b"text/event-stream" in seen.head
    assert seen.events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in seen.events[:-1]]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"]) == " 4,"
    assert [c["choices"][0]["finish_reason"] for c in chunks if c["choices"]][-1] == "length"


@pytest.mark.parametrize("name", OPENAI)
async def test_chat_stream_begins_with_the_role_and_counts_tokens_when_asked(name):
    body = {"messages": MESSAGES, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
    async with fleet(name) as sim:
        seen = await ask(sim.url(), "/v1/chat/completions", body)
    chunks = [json.loads(event) for event in seen.events[:-1]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    assert text == " 4,"
    assert chunks[-1]["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("name", OPENAI)
async def test_unary_answers_count_tokens(name):
    async with fleet(name) as sim:
        completion = (await ask(sim.url(), body=asking(2, stream=False))).json
        chat = (await ask(sim.url(), "/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 2})).json
    assert completion["choices"][0]["text"] == " 4,"
    assert chat["choices"][0]["message"]["content"] == " 4,"
    assert completion["usage"]["completion_tokens"] == chat["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(("name", "path"), NATIVE)
async def test_native_routes_stream(name, path):
    async with fleet(name) as sim:
        seen = await ask(sim.url(), path, NATIVE[name, path] | {"stream": True})
    lines = seen.body.decode().splitlines() if name == "ollama" else seen.events
    records = [json.loads(line) for line in lines if line != "[DONE]"]
    texts = [text_of(record) for record in records]
    assert (texts[-1] if name == "sglang" else "".join(texts)) == " 4,"


async def test_two_engines_with_the_same_model_agree_and_another_model_does_not():
    configs = [EngineConfig(model=model, load=FAST) for model in ("a", "a", "b")]
    async with SimServer(configs) as sim:
        words = [(await ask(sim.url(n), body=asking(6, prompt="Tell me", stream=False))).json for n in range(3)]
    texts = [word["choices"][0]["text"] for word in words]
    assert texts[0] == texts[1] != texts[2]


async def test_responses_route_names_its_events():
    async with fleet("vllm") as sim:
        seen = await ask(sim.url(), "/v1/responses", {"input": PROMPT, "max_output_tokens": 2, "stream": True})
    types = [json.loads(event)["type"] for event in seen.events]
    delta = "response.output_text.delta"
    assert types == ["response.created", delta, delta, "response.incomplete"]
    assert b"event: response.output_text.delta\n" in seen.body


async def test_embeddings_answer_a_vector():
    async with fleet("openai") as sim:
        seen = await ask(sim.url(), "/v1/embeddings", {"input": "hello", "model": "m"})
    assert len(seen.json["data"][0]["embedding"]) == 8


@pytest.mark.parametrize(
    ("name", "path", "status", "part"),
    [
        ("vllm", "/v1/completions", 404, {"error": {"type": "NotFoundError", "code": 404}}),
        ("lmdeploy", "/v1/completions", 404, {"object": "error", "type": "not_found_error"}),
        ("ollama", "/v1/completions", 404, {"error": {"message": "model 'nope' not found"}}),
        ("ollama", "/api/generate", 404, {"error": "model 'nope' not found"}),
    ],
)
async def test_an_unknown_model_is_refused_in_the_engines_words(name, path, status, part):
    async with fleet(name) as sim:
        seen = await ask(sim.url(), path, asking(model="nope"))
    assert seen.status == status
    for key, value in part.items():
        found = seen.json[key]
        assert found == value or (isinstance(value, dict) and value.items() <= found.items())


async def test_llamacpp_answers_whatever_model_is_asked_for():
    async with fleet("llamacpp") as sim:
        assert (await ask(sim.url(), body=asking(model="nope"))).status == 200


@pytest.mark.parametrize("name", OPENAI)
async def test_a_bad_request_is_the_callers_fault(name):
    async with fleet(name) as sim:
        broken = await ask(sim.url(), body=b'{"prompt": ')
        none = await ask(sim.url(), body=asking(0))
    assert broken.status == none.status == (422 if name == "tgi" else 400)


async def test_a_key_is_demanded():
    async with fleet("vllm", api_key="k") as sim:
        without = await ask(sim.url(), body=asking())
        given = await ask(sim.url(), body=asking(), headers={"authorization": "Bearer k"})
    assert (without.status, without.json) == (401, {"error": "Unauthorized"})
    assert given.status == 200


PAGES = {
    "vllm": ["/health", "/ping", "/version", "/v1/models", "/metrics", "/load", "/is_sleeping"],
    "sglang": ["/health", "/health_generate", "/get_model_info", "/server_info", "/v1/models", "/metrics"],
    "tgi": ["/health", "/info", "/v1/models", "/metrics"],
    "trtllm": ["/health", "/version", "/v1/models", "/prometheus/metrics"],
    "triton": ["/v2/health/live", "/v2/health/ready", "/v2/models/m/ready", "/v2/models/m", "/v2", "/metrics"],
    "llamacpp": ["/health", "/props", "/slots", "/v1/models", "/metrics"],
    "ollama": ["/", "/api/tags", "/api/ps", "/api/version", "/v1/models"],
    "lmdeploy": ["/health", "/v1/models", "/metrics"],
    "openai": ["/health", "/v1/models"],
}


@pytest.mark.parametrize("name", ENGINE_NAMES)
async def test_pages_answer_and_others_do_not(name):
    async with fleet(name) as sim:
        for path in PAGES[name]:
            assert (path, (await ask(sim.url(), path)).status) == (path, 200)
        assert (await ask(sim.url(), "/nowhere")).status == 404


COUNTERS = {
    "vllm": ("/metrics", 'vllm:generation_tokens_total{engine="0",model_name="m"}'),
    "sglang": ("/metrics", "sglang:generation_tokens_total"),
    "tgi": ("/metrics", "tgi_request_generated_tokens_sum"),
    "trtllm": ("/prometheus/metrics", "trtllm_generation_tokens_total"),
    "triton": ("/metrics", "nv_inference_exec_count"),
    "llamacpp": ("/metrics", "llamacpp:tokens_predicted_total"),
    "lmdeploy": ("/metrics", "lmdeploy:generation_tokens_total"),
}


def value_of(page: bytes, name: str) -> float:
    line = next(line for line in page.decode().splitlines() if line.startswith(name))
    return float(line.rsplit(" ", 1)[1])


@pytest.mark.parametrize("name", COUNTERS)
async def test_counters_move_with_tokens(name):
    path, counter = COUNTERS[name]
    native = "/v2/models/m/generate_stream"
    async with fleet(name) as sim:
        before = value_of((await ask(sim.url(), path)).body, counter)
        if name == "triton":
            await ask(sim.url(), native, NATIVE[name, native])
        else:
            await ask(sim.url(), body=asking(2))
        assert value_of((await ask(sim.url(), path)).body, counter) == before + 2


async def test_trtllm_tells_of_iterations_once_and_keeps_who_asks_again_waiting():
    async with fleet("trtllm") as sim:
        await ask(sim.url(), body=asking(3))
        assert (await ask(sim.url(), "/metrics")).json[0]["iter"] == 3
        assert (await ask(sim.url(), "/metrics", patience_s=0.1)).end == "silent"


async def test_triton_counts_responses_per_model():
    path = "/v2/models/m/generate_stream"
    async with fleet("triton") as sim:
        await ask(sim.url(), path, NATIVE["triton", path])
        stats = (await ask(sim.url(), "/v2/models/m/stats")).json["model_stats"][0]
    assert stats["response_stats"]["0"]["success"]["count"] == 2


BASES = {"deepseek": "/v1", "zhipu": "/api/paas/v4", "dashscope": "/compatible-mode/v1"}


@pytest.mark.parametrize("name", PROVIDER_NAMES)
async def test_providers_chat_below_their_base_and_list_models_for_who_has_a_key(name):
    body = {"messages": MESSAGES, "max_tokens": 2}
    async with fleet(name, api_key="k") as sim:
        chat = await ask(sim.url(), f"{BASES[name]}/chat/completions", body, headers={"Authorization": "Bearer k"})
        listed = await ask(sim.url(), f"{BASES[name]}/models", headers={"Authorization": "Bearer k"})
        stranger = await ask(sim.url(), f"{BASES[name]}/models")
        health = await ask(sim.url(), "/health")
    assert chat.json["choices"][0]["message"]["content"] == " 4,"
    assert [model["id"] for model in listed.json["data"]] == ["m"]
    assert (stranger.status, health.status) == (401, 404)


# As the providers' documentation and the reports of their users have it: status, and the code in the body.
REFUSED = {
    ("deepseek", "no_money"): (402, "invalid_request_error"),
    ("deepseek", "unauthorized"): (401, "invalid_request_error"),
    ("deepseek", "rate_limit"): (429, "rate_limit_error"),
    ("zhipu", "no_money"): (429, "1113"),
    ("zhipu", "rate_limit"): (429, "1302"),
    ("zhipu", "busy"): (429, "1305"),
    ("dashscope", "no_money"): (400, "Arrearage"),
    ("dashscope", "unauthorized"): (401, "invalid_api_key"),
    ("dashscope", "no_model"): (404, "model_not_found"),
}


@pytest.mark.parametrize(("name", "why"), REFUSED)
async def test_providers_refuse_in_words_of_their_own(name, why):
    async with fleet(name) as sim:
        sim.engine(0).set_script(f"[{{do: [{{refuse: {why}}}]}}]")
        seen = await ask(sim.url(), f"{BASES[name]}/chat/completions", {"messages": MESSAGES})
    assert (seen.status, seen.json["error"]["code"]) == REFUSED[name, why]
