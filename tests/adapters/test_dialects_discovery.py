"""``auto``: which engine answers, which model it serves, and how that was known."""

import asyncio
from dataclasses import replace

import pytest

from pulsegate.core.fleet import EndpointSpec, EngineName
from pulsegate.core.ids import EndpointId, PoolName, PromptId
from pulsegate.core.probe import Ending, FaultClass, ProbeAsk, ProbeKind
from pulsegate.engines.discovery import Discovery
from pulsegate.engines.factory import open_engine
from support.fake_server import HANG, Reply, Route, fake_server, lines, page, stream, text

ASK = ProbeAsk(
    kind=ProbeKind.MICRO, prompt_id=PromptId("p1"), prompt="olive Paris", nonce="olive", max_tokens=1, deadline_s=0.8
)
TOKEN = stream('{"choices":[{"text":" is","finish_reason":"length"}]}', "[DONE]")
CHAT_TOKEN = stream('{"choices":[{"delta":{"content":"is"},"finish_reason":"length"}]}', "[DONE]")


def listing(*cards: dict[str, object]) -> Reply:
    return page({"object": "list", "data": [{"object": "model", "created": 1796066148} | card for card in cards]})


VLLM = listing({"id": "lora", "owned_by": "vllm", "parent": "base"}, {"id": "base", "owned_by": "vllm", "parent": None})
TGI_INFO = {"model_id": "hub/m", "max_total_tokens": 2048, "router": "text-generation-router", "version": "3.3.0"}
LLAMA_HEADER = (("Server", "llama.cpp"),)

FOUND: list[tuple[str, dict[str, Route], EngineName, str | None, str]] = [
    (
        "vllm",
        {"GET /v1/models": VLLM, "POST /v1/completions": TOKEN},
        EngineName.VLLM,
        "base",
        'owned_by "vllm" in /v1/models',
    ),
    (
        "sglang",
        {"GET /v1/models": listing({"id": "qwen", "owned_by": "sglang"}), "POST /v1/completions": TOKEN},
        EngineName.SGLANG,
        "qwen",
        'owned_by "sglang" in /v1/models',
    ),
    (
        "sglang of old",
        {
            "GET /get_model_info": page({"model_path": "org/qwen", "tokenizer_path": "x", "is_generation": True}),
            "POST /v1/completions": TOKEN,
        },
        EngineName.SGLANG,
        "org/qwen",
        "model_path in /get_model_info",
    ),
    (
        "trtllm",
        {"GET /v1/models": listing({"id": "nano", "owned_by": "tensorrt_llm"}), "POST /v1/completions": TOKEN},
        EngineName.TRTLLM,
        "nano",
        'owned_by "tensorrt_llm" in /v1/models',
    ),
    (
        "lmdeploy",
        {"GET /v1/models": listing({"id": "intern", "owned_by": "lmdeploy"}), "POST /v1/completions": TOKEN},
        EngineName.LMDEPLOY,
        "intern",
        'owned_by "lmdeploy" in /v1/models',
    ),
    (
        "llama.cpp",
        {"GET /v1/models": page({"data": [{"id": "tiny"}]}, 200, LLAMA_HEADER), "POST /v1/completions": TOKEN},
        EngineName.LLAMACPP,
        "tiny",
        "header Server: llama.cpp",
    ),
    (
        "tgi",
        {
            "GET /v1/models": listing({"id": "hub/m", "owned_by": "hub/m"}),
            "GET /info": page(TGI_INFO),
            "POST /generate_stream": stream('{"token":{"text":" is"},"generated_text":" is"}'),
        },
        EngineName.TGI,
        "hub/m",
        "router in /info",
    ),
    (
        "triton",
        {
            "GET /v2": page({"name": "triton", "version": "2.60.0", "extensions": []}),
            "POST /v2/repository/index": page(
                [
                    {"name": "preprocessing", "version": "1", "state": "READY"},
                    {"name": "old", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"},
                    {"name": "ensemble", "version": "1", "state": "READY"},
                ]
            ),
            "POST /v2/models/ensemble/generate_stream": stream('{"text_output":" is"}'),
        },
        EngineName.TRITON,
        "ensemble",
        'name "triton" in /v2',
    ),
    (
        "ollama",
        {
            "GET /": text("Ollama is running"),
            "GET /v1/models": listing({"id": "pulled:1b", "owned_by": "library"}),
            "GET /api/ps": page({"models": [{"name": "loaded:1b", "model": "loaded:1b"}]}),
            "POST /api/generate": lines('{"response":" is","done":true,"done_reason":"length","eval_count":1}'),
        },
        EngineName.OLLAMA,
        "loaded:1b",
        '"Ollama is running" at /',
    ),
    (
        "ollama with nothing loaded",
        {
            "GET /": text("Ollama is running"),
            "GET /api/ps": page({"models": []}),
            "GET /api/tags": page({"models": [{"name": "pulled:1b", "model": "pulled:1b"}]}),
            "POST /api/generate": lines('{"response":" is","done":true,"done_reason":"length","eval_count":1}'),
        },
        EngineName.OLLAMA,
        "pulled:1b",
        '"Ollama is running" at /',
    ),
    (
        "a hosted one",
        {"GET /v1/models": listing({"id": "chat", "owned_by": "somebody"}), "POST /v1/chat/completions": CHAT_TOKEN},
        EngineName.OPENAI,
        "chat",
        "/v1/models answers, so it is spoken to as a generic OpenAI-compatible server",
    ),
]


def endpoint(url: str, **more: object) -> EndpointSpec:
    return replace(EndpointSpec(id=EndpointId("e"), pool=PoolName("p"), url=url), **more)


@pytest.mark.parametrize(
    ("routes", "engine", "model", "evidence"), [row[1:] for row in FOUND], ids=[row[0] for row in FOUND]
)
async def test_found(routes: dict[str, Route], engine: EngineName, model: str | None, evidence: str):
    async with fake_server(routes) as server:
        client = open_engine(endpoint(server.url))
        assert client.discovery is None
        result = await client.probe(ASK)
        assert (result.text.strip(), result.ending, result.fault) == ("is", Ending.COMPLETE, None)
        assert client.discovery == Discovery(engine=engine, model=model, evidence=evidence)
        before = len(server.asked)
        await client.probe(ASK)
        assert len(server.asked) == before + 1  # what is known is not asked again
        await client.close()


@pytest.mark.parametrize(
    ("routes", "public", "model"),
    [
        ({"GET /v1/models": VLLM, "POST /v1/completions": TOKEN}, "lora", "lora"),
        ({"GET /v1/models": VLLM, "POST /v1/completions": TOKEN}, "other", "base"),
        (
            {
                "GET /": text("Ollama is running"),
                "GET /api/ps": page({"models": [{"name": "loaded:1b"}]}),
                "GET /api/tags": page({"models": [{"name": "loaded:1b"}, {"name": "pulled:1b"}]}),
                "POST /api/generate": lines('{"response":" is","done":true,"done_reason":"length","eval_count":1}'),
            },
            "pulled:1b",
            "pulled:1b",
        ),
    ],
)
async def test_of_several_models_the_one_with_the_public_name_is_asked_for(
    routes: dict[str, Route], public: str, model: str
):
    async with fake_server(routes) as server:
        client = open_engine(endpoint(server.url, pool=PoolName(public)))
        result = await client.probe(ASK)
        assert (result.token_seen, result.served_model) == (True, model)
        assert server.asked[-1].json["model"] == model
        await client.close()


async def test_the_configured_model_stands():
    async with fake_server({"GET /v1/models": VLLM, "POST /v1/completions": TOKEN}) as server:
        client = open_engine(endpoint(server.url, model="mine"))
        await client.probe(ASK)
        assert server.asked[-1].json["model"] == "mine"
        assert client.discovery is not None
        assert (client.discovery.engine, client.discovery.model) == (EngineName.VLLM, "mine")
        await client.close()


async def test_a_configured_engine_and_model_ask_for_nothing():
    async with fake_server({"POST /v1/completions": TOKEN}) as server:
        client = open_engine(endpoint(server.url, engine=EngineName.VLLM, model="m"))
        await client.probe(ASK)
        assert server.paths() == ["POST /v1/completions"]
        await client.close()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (page({"error": {"message": "Loading model", "code": 503}}, 503), FaultClass.STARTING),
        (page({"error": "Unauthorized"}, 401), FaultClass.AUTH),
        (page({"error": "CUDA error: x"}, 500), FaultClass.CUDA),
        (text("LLM is unavailable.", 503), FaultClass.ENGINE_DEAD),
    ],
)
async def test_a_listing_that_tells_why_is_the_result(reply: Reply, kind: FaultClass):
    async with fake_server({"GET /v1/models": reply}) as server:
        client = open_engine(endpoint(server.url))
        result = await client.probe(ASK)
        assert result.fault is not None
        assert (result.fault.kind, result.ending) == (kind, Ending.FAILED)
        assert client.discovery is None
        server.routes |= {"GET /v1/models": VLLM, "POST /v1/completions": TOKEN}
        assert (await client.probe(ASK)).token_seen
        await client.close()


async def test_a_broken_listing_does_not_hide_a_working_server():
    """transformers serve answers 500 there while it generates."""
    routes = {"GET /v1/models": text("Internal Server Error", 500), "POST /v1/completions": TOKEN}
    async with fake_server(routes) as server:
        client = open_engine(endpoint(server.url, model="m"))
        assert (await client.probe(ASK)).token_seen
        assert client.discovery is not None
        assert client.discovery.engine is EngineName.OPENAI
        await client.close()


@pytest.mark.parametrize("routes", [{}, {"GET /v1/models": page({"data": []})}, {"GET /v1/models": page([1])}])
async def test_no_model_anywhere_is_said(routes: dict[str, Route]):
    async with fake_server(routes) as server:
        client = open_engine(endpoint(server.url))
        result = await client.probe(ASK)
        assert result.fault is not None
        assert result.fault.kind is FaultClass.NOT_FOUND
        await client.close()


async def test_a_listing_that_hangs_is_a_deadline():
    async with fake_server({"GET /v1/models": HANG}) as server:
        client = open_engine(endpoint(server.url))
        result = await client.probe(ASK._replace(deadline_s=0.1))
        assert (result.ending, result.fault, result.token_seen) == (Ending.DEADLINE, None, False)
        await client.close()
        await server.left_alone()


async def test_pages_that_hang_leave_time_for_the_probe():
    routes = dict.fromkeys(("GET /info", "GET /get_model_info", "GET /v2", "GET /"), HANG)
    async with fake_server({**routes, "POST /v1/completions": TOKEN}) as server:
        client = open_engine(endpoint(server.url, model="m"))
        assert (await client.probe(ASK._replace(deadline_s=0.2))).token_seen
        await client.close()


async def test_after_a_restart_everything_is_found_anew():
    async with fake_server({"GET /v1/models": VLLM, "POST /v1/completions": TOKEN}) as server:
        client = open_engine(endpoint(server.url))
        await client.probe(ASK)
        port = int(server.url.rpartition(":")[2])
    gone = await client.probe(ASK)
    assert gone.fault is not None
    assert gone.fault.kind is FaultClass.REFUSED
    assert client.discovery is None
    other = {"GET /v1/models": listing({"id": "next", "owned_by": "sglang"}), "POST /v1/completions": TOKEN}
    async with fake_server(other, port=port) as server:
        assert (await client.probe(ASK)).token_seen
        assert client.discovery is not None
        assert (client.discovery.engine, client.discovery.model) == (EngineName.SGLANG, "next")
        assert server.asked[-1].json["model"] == "next"
        await client.close()


async def test_another_model_after_a_reload_is_found():
    unknown = page({"error": {"message": "The model `base` does not exist.", "code": 404}}, 404)
    async with fake_server({"GET /v1/models": VLLM, "POST /v1/completions": TOKEN}) as server:
        client = open_engine(endpoint(server.url, engine=EngineName.VLLM))
        await client.probe(ASK)
        server.routes["GET /v1/models"] = listing({"id": "new", "owned_by": "vllm"})
        server.routes["POST /v1/completions"] = lambda asked: TOKEN if asked.json["model"] == "new" else unknown
        assert (await client.probe(ASK)).token_seen
        await client.close()


async def test_a_configured_model_that_is_unknown_stays_a_fault():
    unknown = page({"error": {"message": "The model `mine` does not exist.", "code": 404}}, 404)
    async with fake_server({"GET /v1/models": VLLM, "POST /v1/completions": unknown}) as server:
        client = open_engine(endpoint(server.url, engine=EngineName.VLLM, model="mine"))
        result = await client.probe(ASK)
        assert result.fault is not None
        assert result.fault.kind is FaultClass.NOT_FOUND
        assert server.paths() == ["POST /v1/completions"]
        await client.close()


async def test_discovery_is_quick_and_never_asks_for_a_token():
    async with fake_server({}) as server:
        client = open_engine(endpoint(server.url, model="m"))
        async with asyncio.timeout(1.0):
            await client.probe(ASK)
        pages = [path for path in server.paths() if path.startswith("GET")]
        assert sorted(pages) == ["GET /", "GET /get_model_info", "GET /info", "GET /v1/models", "GET /v2"]
        assert server.paths()[5:] == ["POST /v1/completions", "POST /v1/chat/completions"]
        await client.close()


async def test_a_server_too_sick_to_tell_is_asked_again():
    """It answers 500 to everything, then recovers: it is not taken for a generic server for ever."""
    sick = text("Internal Server Error", 500)
    async with fake_server({"GET /v1/models": sick, "POST /v1/completions": sick}) as server:
        client = open_engine(endpoint(server.url, model="base"))
        result = await client.probe(ASK)
        assert result.fault is not None
        assert result.fault.kind is FaultClass.SERVER
        assert client.discovery is None
        server.routes |= {"GET /v1/models": VLLM, "POST /v1/completions": TOKEN}
        assert (await client.probe(ASK)).token_seen
        assert client.discovery is not None
        assert client.discovery.engine is EngineName.VLLM
        await client.close()
