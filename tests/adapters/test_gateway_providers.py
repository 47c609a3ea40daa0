"""The chain deepseek -> zhipu -> dashscope through a gateway: each of their failures, with and without streaming."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pulsegate.assembly import setup_of
from pulsegate.config.loading import parse
from support.fake_providers import (
    BASES,
    FAILURES,
    HANG,
    WELL,
    FakeProvider,
    data,
    either,
    error,
    fake_provider,
    page,
    sse,
    whole,
)
from support.fake_providers import delta as event
from support.gateways import Reply, Running, ask_for, running, until

NAMES = tuple(BASES)


@dataclass
class Chain:
    """A gateway before the three."""

    run: Running
    fakes: dict[str, FakeProvider]

    async def ask(self, *, stream: bool = False, **how: Any) -> Reply:
        return await self.run.ask(ask_for(stream=stream, model="chat"), **how)

    def asked(self) -> dict[str, int]:
        return {name: len(fake.asked) for name, fake in self.fakes.items()}

    def reasons(self) -> dict[str, str]:
        """Why providers are not asked as usual; those that are well are left out."""
        watches = self.run.gateway._context.roster.watches
        told = {name: {place.reason.value for place in watch.seen().places} - {"ok"} for name, watch in watches.items()}
        return {name: ", ".join(sorted(reasons)) for name, reasons in told.items() if reasons}


def document(fakes: dict[str, FakeProvider], **more: Any) -> dict[str, Any]:
    models = [
        {"name": "chat", "provider": "deepseek", "model": "deepseek-chat", "fallbacks": ["glm", "qwen"]},
        {"name": "glm", "provider": "zhipu", "model": "glm-4.5"},
        {"name": "qwen", "provider": "dashscope", "model": "qwen-plus"},
    ]
    providers = [{"name": name, "base_url": fake.base_url, "api_key": f"sk-{name}"} for name, fake in fakes.items()]
    return {"models": models, "providers": providers, **more}


@asynccontextmanager
async def chain(**more: Any) -> AsyncIterator[Chain]:
    async with AsyncExitStack() as stack:
        fakes = {name: await stack.enter_async_context(fake_provider(name)) for name in NAMES}
        text = yaml.safe_dump(document(fakes, **more))
        setup = setup_of(parse(text.encode(), Path("pulsegate.yaml"), {}), access_log=None, priced_at=0.0)
        run = await stack.enter_async_context(running(setup))
        yield Chain(run, fakes)


def served_by(reply: Reply) -> str:
    return reply.headers["x-pulsegate-provider"]


def text_of(reply: Reply, *, stream: bool) -> str:
    return reply.text if stream else reply.json["choices"][0]["message"]["content"]


@pytest.mark.parametrize("stream", [False, True])
async def test_each_of_them_serves_in_its_own_shape(stream):
    async with chain() as run:
        for name in NAMES:
            reply = await run.ask(stream=stream)
            assert reply.status == 200
            assert served_by(reply) == name
            assert text_of(reply, stream=stream) == name
            run.fakes[name].answer = error(402, message="Insufficient Balance")
        assert run.asked() == {"deepseek": 2, "zhipu": 2, "dashscope": 1}  # who is out of money is not asked again


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("who", "answer", "reason"), FAILURES.values(), ids=FAILURES.keys())
async def test_the_chain_survives_each_failure(who, answer, reason, stream):
    async with chain() as run:
        for earlier in NAMES[: NAMES.index(who)]:
            run.fakes[earlier].answer = error(402, message="Insufficient Balance")
        last = NAMES[-1]
        if who == last:  # it stands last: nobody is behind it, so it changes places with the first
            run.fakes["zhipu"].answer = error(402, message="Insufficient Balance")
            run.fakes[who].answer = answer
            refused = await run.ask(stream=stream)
            assert refused.status in (502, 503)
            run.fakes["deepseek"].answer = WELL["deepseek"]
        else:
            run.fakes[who].answer = answer
            reply = await run.ask(stream=stream)
            assert reply.status == 200
            after = NAMES[NAMES.index(who) + 1]
            assert (served_by(reply), text_of(reply, stream=stream)) == (after, after)
        assert run.reasons().get(who, "") == reason


@pytest.mark.parametrize("stream", [False, True])
async def test_all_three_down_is_told_and_mended(stream):
    async with chain() as run:
        for fake in run.fakes.values():
            fake.answer = error(503, message="busy")
        reply = await run.ask(stream=stream)
        assert (reply.status, reply.code) == (503, "overloaded")
        assert int(reply.headers["retry-after"]) >= 1
        for name in NAMES:
            run.fakes[name].answer = WELL[name]
        await until(lambda: set(run.reasons().values()) == {"recovering"}, patience_s=3)
        assert served_by(await run.ask(stream=stream)) == "deepseek"


async def test_when_everything_rests_the_answer_says_when_the_first_is_back():
    async with chain() as run:
        stamps = (("Date", "Wed, 21 Oct 2026 07:28:00 GMT"), ("Retry-After", "Wed, 21 Oct 2026 07:28:40 GMT"))
        run.fakes["deepseek"].answer = error(402, message="Insufficient Balance")
        run.fakes["zhipu"].answer = error(429, stamps, message="slow down")
        run.fakes["dashscope"].answer = error(429, (("Retry-After", "90"),), message="slow down")
        assert (await run.ask()).status == 502
        reply = await run.ask()
        assert (reply.status, reply.code) == (503, "no_endpoint_available")
        assert reply.headers["retry-after"] == "40"
        assert set(run.asked().values()) == {1}


async def test_names_keys_and_paths_are_the_providers_own_and_nothing_of_the_clients_secrets_goes_there():
    async with chain() as run:
        body = b'{"model": "chat",  "messages": [{"role": "user", "content": "\\u4f60"}], "x": {"b": 1.0, "a":2}}'
        secrets = {"Authorization": "Bearer user-key", "Cookie": "a=b", "X-Api-Key": "k", "Api-Key": "k"}
        await run.run.ask(body, headers=secrets)
        [asked] = run.fakes["deepseek"].asked
        assert asked.body == body.replace(b'"model": "chat",  "m', b'"model":"deepseek-chat","m').replace(
            b'"messages": [', b'"messages":['
        ).replace(b', "x": ', b',"x":')  # values as they came, byte for byte
        assert asked.headers["authorization"] == "Bearer sk-deepseek"
        assert asked.headers["host"] == run.fakes["deepseek"].server.url.removeprefix("http://")
        assert not {"cookie", "x-api-key", "api-key"} & set(asked.headers)
        assert "user-key" not in str(asked.headers)
        run.fakes["deepseek"].answer = error(402, message="Insufficient Balance")
        run.fakes["zhipu"].answer = error(402, message="Insufficient Balance")
        await run.ask()
        assert run.fakes["zhipu"].asked[0].json["model"] == "glm-4.5"
        assert run.fakes["dashscope"].asked[0].json["model"] == "qwen-plus"


async def test_a_request_that_is_too_large_is_the_users_own():
    async with chain() as run:
        run.fakes["deepseek"].answer = error(
            429, message="Request too large for model x (TPM): Limit 12000, Requested 15318"
        )
        reply = await run.ask()
        assert (reply.status, served_by(reply)) == (429, "deepseek")
        assert "Request too large" in reply.json["error"]["message"]
        run.fakes["deepseek"].answer = error(
            400, message="maximum context length is 8192", code="context_length_exceeded"
        )
        assert (await run.ask()).status == 400
        assert run.reasons() == {}
        assert run.asked() == {"deepseek": 2, "zhipu": 0, "dashscope": 0}


async def test_a_silent_provider_is_left_at_the_deadline_and_rests_after_three():
    async with chain(gateway={"ttft_deadline": "150ms"}) as run:
        run.fakes["deepseek"].answer = HANG
        for _ in range(3):
            assert served_by(await run.ask(stream=True)) == "zhipu"
        assert run.reasons() == {"deepseek": "error"}
        assert served_by(await run.ask(stream=True)) == "zhipu"
        assert run.asked()["deepseek"] == 3


async def test_keep_alive_comments_are_no_tokens():
    async with chain(gateway={"ttft_deadline": "200ms"}) as run:
        slow = sse(*[": keep-alive\n\n"] * 3, ending="hang")
        run.fakes["deepseek"].answer = either(slow, page(whole("x")))
        reply = await run.ask(stream=True)
        assert (served_by(reply), reply.text) == ("zhipu", "zhipu")
        assert b"keep-alive" not in reply.body


async def test_comments_that_a_gateway_took_for_data_are_skipped():
    async with chain() as run:
        glued = sse("data: : OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n" + data(event("stop", content="Hi")))
        run.fakes["deepseek"].answer = either(glued, page(whole("x")))
        reply = await run.ask(stream=True)
        assert served_by(reply) == "deepseek"


async def test_an_interruption_after_the_first_token_counts_against_the_provider():
    cut = either(
        sse(data(event(content="Hi")), data(event("insufficient_system_resource", content=""))), page(whole("x"))
    )
    async with chain() as run:
        run.fakes["deepseek"].answer = cut
        for _ in range(10):
            await run.ask(stream=True)
        assert run.reasons() == {"deepseek": "error"}


@asynccontextmanager
async def two_keys() -> AsyncIterator[Chain]:
    async with fake_provider("deepseek") as deepseek, fake_provider("zhipu") as zhipu:
        providers = [
            {"name": "deepseek", "base_url": deepseek.base_url, "api_keys": ["k1", "k2"]},
            {"name": "zhipu", "base_url": zhipu.base_url, "api_key": "z"},
        ]
        models = [{"name": "chat", "provider": "deepseek", "fallbacks": ["glm"]}, {"name": "glm", "provider": "zhipu"}]
        text = yaml.safe_dump({"models": models, "providers": providers})
        setup = setup_of(parse(text.encode(), Path("pulsegate.yaml"), {}), access_log=None, priced_at=0.0)
        async with running(setup) as run:
            yield Chain(run, {"deepseek": deepseek, "zhipu": zhipu})


def keys_used(fake: FakeProvider) -> set[str]:
    return {asked.headers["authorization"] for asked in fake.asked}


async def test_keys_take_turns():
    async with two_keys() as run:
        for _ in range(30):
            await run.ask()
        assert keys_used(run.fakes["deepseek"]) == {"Bearer k1", "Bearer k2"}


@pytest.mark.parametrize(
    "answer",
    [error(401, message="no"), error(402, message="no"), error(429, (("retry-after", "60"),), message="slow down")],
)
async def test_a_key_that_is_refused_rests_by_itself(answer):
    async with two_keys() as run:
        run.fakes["deepseek"].by_key["k1"] = answer
        for _ in range(20):
            assert served_by(await run.ask()) == "deepseek"
        used = [asked.headers["authorization"] for asked in run.fakes["deepseek"].asked]
        assert used.count("Bearer k1") == 1
        assert run.asked()["zhipu"] == 0


async def test_another_key_is_no_help_against_an_outage():
    async with two_keys() as run:
        run.fakes["deepseek"].answer = error(500, message="boom")
        assert served_by(await run.ask()) == "zhipu"
        assert run.asked() == {"deepseek": 1, "zhipu": 1}


async def test_coming_back_is_tried_with_one_request_at_a_time():
    async with chain(gateway={"ttft_deadline": "5s"}) as run:
        run.fakes["deepseek"].answer = error(503, message="busy")
        await run.ask()
        await until(lambda: run.reasons() == {"deepseek": "recovering"}, patience_s=3)
        run.fakes["deepseek"].answer = HANG
        async with asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(run.ask(stream=True)) for _ in range(8)]
            await until(lambda: sum(task.done() for task in asking) == 7)
            assert run.asked()["deepseek"] == 2  # the one that found it busy, and one trial
            assert {served_by(task.result()) for task in asking if task.done()} == {"zhipu"}
            await run.fakes["deepseek"].server.close()  # the trial fails
        assert set(run.reasons()) == {"deepseek"}
