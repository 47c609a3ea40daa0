"""What a client learns from a refusal, within the same probe, and remembers."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from pulsegate.core.fleet import EndpointSpec, EngineName
from pulsegate.core.ids import EndpointId, PoolName, PromptId
from pulsegate.core.probe import FaultClass, ProbeAsk, ProbeKind, ProbeResult
from pulsegate.engines.factory import open_engine
from support.fake_server import Asked, FakeServer, Reply, fake_server, page, stream

ASK = ProbeAsk(
    kind=ProbeKind.MICRO, prompt_id=PromptId("p1"), prompt="olive Paris", nonce="olive", max_tokens=1, deadline_s=0.8
)
TOKEN = stream('{"choices":[{"text":" is","finish_reason":"length"}]}', "[DONE]")
CHAT_TOKEN = stream('{"choices":[{"delta":{"content":"is"},"finish_reason":"length"}]}', "[DONE]")
COMPLETIONS, CHAT = "POST /v1/completions", "POST /v1/chat/completions"


def refuse(message: str, status: int = 400, code: object = None) -> Reply:
    return page({"error": {"message": message, "type": "invalid_request_error", "code": code}}, status)


def without(*names: str, token: Reply = TOKEN) -> Callable[[Asked], Reply]:
    """A server that names the first of these fields that it finds, and accepts a request without them."""

    def answer(asked: Asked) -> Reply:
        found = next((name for name in names if name in asked.json), None)
        return token if found is None else refuse(f"Unrecognized request argument supplied: {found}")

    return answer


async def two_probes(
    routes: dict[str, Reply | Callable[[Asked], Reply]], engine: EngineName, **more: object
) -> tuple[ProbeResult, ProbeResult, FakeServer]:
    async with fake_server(routes) as server:
        spec = EndpointSpec(id=EndpointId("e"), pool=PoolName("p"), url=server.url, engine=engine, model="m")
        client = open_engine(replace(spec, **more))
        first, second = await client.probe(ASK), await client.probe(ASK._replace(nonce="amber"))
        await client.close()
        return first, second, server


async def test_vllm_is_given_a_salt_and_a_priority():
    _, second, server = await two_probes({COMPLETIONS: TOKEN}, EngineName.VLLM, dp_rank=3)
    assert second.token_seen
    assert [asked.json["cache_salt"] for asked in server.asked] == ["olive", "amber"]
    assert server.asked[0].json["priority"] < 0
    assert server.asked[0].headers["x-data-parallel-rank"] == "3"


@pytest.mark.parametrize("names", [("cache_salt",), ("priority",), ("cache_salt", "priority"), ("top_p",)])
async def test_fields_that_are_named_are_left_out_from_then_on(names: tuple[str, ...]):
    first, second, server = await two_probes({COMPLETIONS: without(*names)}, EngineName.VLLM)
    assert first.token_seen
    assert second.token_seen
    assert len(server.asked) == len(names) + 2  # a refusal each, and two tokens
    assert not set(names) & set(server.asked[-1].json)


async def test_a_validation_that_lists_several_fields_is_learned_at_once():
    said = [{"type": "extra_forbidden", "loc": ["body", name]} for name in ("cache_salt", "priority")]
    refusal = page({"detail": said}, 422)
    first, _, server = await two_probes(
        {COMPLETIONS: lambda asked: refusal if "priority" in asked.json else TOKEN}, EngineName.VLLM
    )
    assert first.token_seen
    assert len(server.asked) == 3


async def test_a_refusal_that_names_nothing_stands():
    first, _, server = await two_probes({COMPLETIONS: refuse("no")}, EngineName.VLLM)
    assert first.fault is not None
    assert first.fault.kind is FaultClass.BAD_REQUEST
    assert len(server.asked) == 2  # one a probe: nothing is retried in a tight loop


async def test_a_server_that_always_refuses_is_asked_four_times_at_most():
    def answer(asked: Asked) -> Reply:
        return refuse("unknown field " + next(iter(set(asked.json) - {"model", "prompt"})))

    async with fake_server({COMPLETIONS: answer}) as server:
        spec = EndpointSpec(id=EndpointId("e"), pool=PoolName("p"), url=server.url, engine=EngineName.VLLM, model="m")
        client = open_engine(spec)
        result = await client.probe(ASK)
        assert result.fault is not None
        assert len(server.asked) <= 4
        await client.close()


@pytest.mark.parametrize(
    "refusal",
    [
        page({"detail": "Not Found"}, 404),
        page({"detail": "Method Not Allowed"}, 405),
        refuse(
            "This is a chat model and not supported in the v1/completions endpoint. Did you mean v1/chat/completions?",
            404,
        ),
        refuse("this model does not support text completions"),
    ],
    ids=["no such path", "no such method", "openai", "words"],
)
async def test_a_server_without_completions_is_asked_for_a_chat(refusal: Reply):
    first, second, server = await two_probes({COMPLETIONS: refusal, CHAT: CHAT_TOKEN}, EngineName.OPENAI)
    assert (first.text, second.text) == ("is", "is")
    assert server.paths() == [COMPLETIONS, CHAT, CHAT]
    assert server.asked[-1].json["messages"] == [{"role": "user", "content": "olive Paris"}]


async def test_a_model_that_is_missing_is_no_reason_to_chat():
    unknown = refuse("The model `m` does not exist.", 404, "model_not_found")
    first, _, server = await two_probes({COMPLETIONS: unknown, CHAT: CHAT_TOKEN}, EngineName.OPENAI)
    assert first.fault is not None
    assert first.fault.kind is FaultClass.NOT_FOUND
    assert server.paths() == [COMPLETIONS, COMPLETIONS]


async def test_the_other_name_of_the_limit_and_sixteen_tokens():
    """A reasoning model of OpenAI's: no completions, no max_tokens, no temperature, at least 16 tokens."""

    def answer(asked: Asked) -> Reply:
        body = asked.json
        if "max_tokens" in body:
            return refuse("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if body["max_completion_tokens"] < 16:
            return refuse("Could not finish: max_tokens or model output limit was reached.")
        return CHAT_TOKEN

    first, second, server = await two_probes({CHAT: answer}, EngineName.OPENAI)
    assert first.token_seen
    assert second.token_seen
    assert len(server.asked) == 5
    assert server.asked[-1].json["max_completion_tokens"] == 16


async def test_an_output_limit_that_stands_is_told_as_such():
    refusal = refuse("max_tokens or model output limit was reached")
    first, _, server = await two_probes({COMPLETIONS: refusal}, EngineName.OPENAI)
    assert first.fault is not None
    assert first.fault.kind is FaultClass.OUTPUT_LIMIT
    assert len(server.asked) == 3


async def test_tgi_behind_a_gateway_that_shows_only_v1():
    first, second, server = await two_probes({CHAT: CHAT_TOKEN}, EngineName.TGI)
    assert (first.text, second.text) == ("is", "is")
    assert server.paths() == ["POST /generate_stream", COMPLETIONS, CHAT, CHAT]


async def test_triton_ensembles_that_want_word_lists():
    path = "POST /v2/models/m/generate_stream"

    def answer(asked: Asked) -> Reply:
        if "bad_words" not in asked.json:
            return page({"error": "expected 11 inputs but got 3 inputs for model 'm'"}, 400)
        if "parameters" in asked.json:
            return page({"error": "unexpected parameter 'temperature'"}, 400)
        return stream('{"text_output":" is"}')

    first, second, server = await two_probes({path: answer}, EngineName.TRITON)
    assert (first.text, second.text) == (" is", " is")
    assert len(server.asked) == 4
    assert server.asked[-1].json == {
        "text_input": "olive Paris", "max_tokens": 1, "stream": True, "bad_words": "", "stop_words": ""
    }  # fmt: skip


async def test_learning_costs_deadline_but_not_ttft():
    slow = replace(refuse("no cache_salt here"), head_delay_s=0.2)
    first, _, _ = await two_probes(
        {COMPLETIONS: lambda asked: slow if "cache_salt" in asked.json else TOKEN}, EngineName.VLLM
    )
    assert first.phases.first_token_s is not None
    assert first.phases.first_token_s < 0.15


async def test_keys_never_come_back_in_a_detail():
    echo = page({"error": {"message": "bad key k3y-secret for olive"}}, 401)
    first, _, _ = await two_probes({COMPLETIONS: echo}, EngineName.OPENAI, api_key="k3y-secret")
    assert first.fault is not None
    assert first.fault.detail == "bad key *** for olive"
    assert "k3y" not in json.dumps(repr(first))
