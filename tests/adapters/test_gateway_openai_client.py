"""The official client sees nothing but an OpenAI-compatible server."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import openai
import pytest
from openai import AsyncOpenAI

from pulsegate.gateway.setup import EndpointSetup, PoolSetup
from pulsegate.sim import EngineConfig, Load, SimServer, Spread
from support import raw_server as script
from support.gateways import (
    DONE,
    END,
    MODEL,
    ROLE,
    STREAM_HEAD,
    TOOL_ANSWER,
    chunk,
    delta,
    endpoint,
    json_answer,
    pool,
    running,
    setup_of,
)
from support.raw_server import RawServer, Step, raw_server

FAST = Load(ttft=Spread(median_s=0.002), itl_s=0.001)
IMAGE = "data:image/png;base64," + base64.b64encode(bytes(range(256)) * 400).decode()
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-any", max_retries=0) as client:
        yield client


@asynccontextmanager
async def served(*endpoints: EndpointSetup) -> AsyncIterator[AsyncOpenAI]:
    async with (
        running(setup_of(PoolSetup(name=pool().name, endpoints=endpoints))) as run,
        client_of(run.port) as client,
    ):
        yield client


@asynccontextmanager
async def simulated() -> AsyncIterator[AsyncOpenAI]:
    async with SimServer([EngineConfig(engine="vllm", model="org/sim", load=FAST)]) as sim:
        url = urlsplit(sim.url())
        target = endpoint(url.port or 0, base_path=url.path.rstrip("/"), model="org/sim")
        async with served(target) as client:
            yield client


@asynccontextmanager
async def scripted(*steps: Step) -> AsyncIterator[tuple[AsyncOpenAI, RawServer]]:
    async with raw_server((script.Request(), *steps)) as server, served(endpoint(server.port)) as client:
        yield client, server


MESSAGES = [{"role": "user", "content": "1, 2, 3,"}]


async def test_chat() -> None:
    async with simulated() as client:
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=4)
        assert answer.choices[0].message.content
        assert answer.usage.completion_tokens == 4
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=4, stream=True)
        chunks = [chunk async for chunk in stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == answer.choices[0].message.content
    assert all(c.choices and c.usage is None for c in chunks)


async def test_chat_with_usage_asked_for() -> None:
    async with simulated() as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=4, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 4


async def test_completions() -> None:
    async with simulated() as client:
        answer = await client.completions.create(model=MODEL, prompt="1, 2, 3,", max_tokens=3)
        stream = await client.completions.create(model=MODEL, prompt="1, 2, 3,", max_tokens=3, stream=True)
        assert "".join([c.choices[0].text async for c in stream]) == answer.choices[0].text


async def test_embeddings() -> None:
    async with simulated() as client:
        answer = await client.embeddings.create(model=MODEL, input=["a", "b"], encoding_format="float")
    assert answer.data[0].embedding


async def test_responses() -> None:
    async with simulated() as client:
        answer = await client.responses.create(model=MODEL, input="1, 2, 3,", max_output_tokens=16)
        assert answer.output_text
        stream = await client.responses.create(model=MODEL, input="1, 2, 3,", max_output_tokens=16, stream=True)
        kinds = [event.type async for event in stream]
    assert kinds[-1] in ("response.completed", "response.incomplete")


async def test_models() -> None:
    async with simulated() as client:
        assert [model.id async for model in client.models.list()] == [MODEL]


async def test_tool_calls() -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": '{"city":"Bonn"}'}}
    events = [ROLE, delta(tool_calls=[call]), delta(tool_calls=[more]), delta("tool_calls"), DONE]
    steps = [script.Send(STREAM_HEAD), *(script.Send(chunk(each)) for each in events), script.Send(END)]
    async with scripted(*steps) as (client, _):
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, tools=TOOLS, stream=True)
        calls = [part for c in [c async for c in stream] for part in c.choices[0].delta.tool_calls or ()]
    assert calls[0].function.name == "weather"
    assert "".join(part.function.arguments or "" for part in calls) == '{"city":"Bonn"}'


async def test_tools_and_images_go_up_unchanged() -> None:
    picture = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    async with scripted(script.Send(json_answer(TOOL_ANSWER))) as (client, server):
        answer = await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": picture}], tools=TOOLS, extra_body={"top_k": 5}
        )
        assert answer.choices[0].message.tool_calls[0].function.name == "weather"
        sent = json.loads(server.connections[0].requests[0].partition(b"\r\n\r\n")[2])
    assert sent["messages"][0]["content"] == picture
    assert (sent["tools"], sent["top_k"]) == (TOOLS, 5)


async def test_errors_are_the_clients_own_exceptions() -> None:
    async with simulated() as client:
        with pytest.raises(openai.NotFoundError) as unknown:
            await client.chat.completions.create(model="nope", messages=MESSAGES)
    assert (unknown.value.code, unknown.value.type) == ("model_not_found", "invalid_request_error")
    async with served(endpoint(1)) as client:
        with pytest.raises(openai.InternalServerError) as failed:
            await client.chat.completions.create(model=MODEL, messages=MESSAGES)
    assert failed.value.code == "no_endpoint_available"


async def test_a_cut_stream_raises() -> None:
    steps = [script.Send(STREAM_HEAD + chunk(ROLE) + chunk(delta(content="Hi"))), script.Wait(0.02), script.Close()]
    async with scripted(*steps) as (client, _):
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        assert [(await anext(stream)).choices[0].delta.content for _ in range(2)] == ["", "Hi"]
        with pytest.raises(openai.APIError, match="closed the stream") as cut:
            await anext(stream)
    assert cut.value.code == "upstream_cut"
