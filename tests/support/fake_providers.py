"""Fake DeepSeek, Zhipu and DashScope: their paths, answers, keep-alives and refusals as they are met in the field."""

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from support.fake_server import Asked, FakeServer, Reply, fake_server, page

BASES = {"deepseek": "/v1", "zhipu": "/api/paas/v4", "dashscope": "/compatible-mode/v1"}
MODELS = {"deepseek": "deepseek-chat", "zhipu": "glm-4.5", "dashscope": "qwen-plus"}
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}

Answer = Callable[[bool], Reply]
"""What is answered, by whether a stream was asked for."""


def error(status: int, headers: tuple[tuple[str, str], ...] = (), **fields: Any) -> Answer:
    """A refusal in OpenAI's envelope."""
    return lambda _stream: page({"error": fields}, status, headers)


def raw(status: int, text: bytes, kind: str = "application/json") -> Answer:
    return lambda _stream: Reply(status=status, kind=kind, pieces=((0.0, text),))


def sse(*events: str, ending: str = "") -> Reply:
    """A stream of events as they are, comments included."""
    return Reply(kind="text/event-stream", pieces=tuple((0.0, event.encode()) for event in events), ending=ending)


def data(fields: Mapping[str, Any], *, space: bool = True) -> str:
    return f"data:{' ' if space else ''}{json.dumps(fields, ensure_ascii=False)}\n\n"


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish}],
    }


DONE = "data: [DONE]\n\n"
TAIL = {"id": "x", "choices": [], "usage": USAGE}


def whole(text: str, finish: str = "stop") -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": USAGE}


def either(stream_reply: Reply, whole_reply: Reply) -> Answer:
    return lambda stream: stream_reply if stream else whole_reply


# How they answer when they are well. DeepSeek holds the line while a request queues; Zhipu has reasoning and no role
# chunk; DashScope writes no space after the colon and ends with an empty list of choices.
WELL: dict[str, Answer] = {
    "deepseek": either(
        sse(
            ": keep-alive\n\n",
            ": keep-alive\n\n",
            data(delta(role="assistant", content="")),
            data(delta(content="deep")),
            data(delta(content="seek")),
            data({**delta("stop", content=""), "usage": USAGE}),
            DONE,
        ),
        Reply(pieces=((0.0, b"\n\n\n"), (0.0, json.dumps(whole("deepseek")).encode()))),
    ),
    "zhipu": either(
        sse(
            data(delta(reasoning_content="hm")),
            data(delta(content="zhipu")),
            data({**delta("stop"), "usage": USAGE}),
            DONE,
        ),
        page(whole("zhipu")),
    ),
    "dashscope": either(
        sse(
            data(delta(role="assistant", content=""), space=False),
            data(delta(content="dashscope"), space=False),
            data(delta("stop", content=""), space=False),
            data(TAIL, space=False),
            DONE,
        ),
        page(whole("dashscope")),
    ),
}

HANG: Answer = lambda _stream: Reply(head_delay_s=3600.0)  # noqa: E731 - a table of answers
CUT: Answer = either(
    sse(": keep-alive\n\n", data(delta(role="assistant", content="")), ending="cut"),
    Reply(pieces=((0.0, b"\n\n"),), ending="cut"),
)
IN_200: Answer = either(
    sse(data({"error": {"message": "Provider returned error", "code": 502}}), DONE),
    page({"error": {"message": "Provider returned error", "code": 502}}),
)

# Ways to fail before the first token: who, what it says, and what it amounts to.
FAILURES: dict[str, tuple[str, Answer, str]] = {
    "deepseek: no balance": (
        "deepseek",
        error(402, message="Insufficient Balance", type="unknown_error", param=None, code="invalid_request_error"),
        "billing",
    ),
    "deepseek: wrong key": (
        "deepseek",
        error(
            401,
            message="Authentication Fails (no such user)",
            type="authentication_error",
            code="invalid_request_error",
        ),
        "auth",
    ),
    "deepseek: rate limit": ("deepseek", error(429, message="Rate limit reached", code="rate_limit"), "rate_limited"),
    "deepseek: busy": ("deepseek", error(503, message="Server is overloaded, please retry"), "busy"),
    "deepseek: fails": ("deepseek", raw(500, b""), ""),
    "deepseek: interrupted before a token": (
        "deepseek",
        either(
            sse(": keep-alive\n\n", data(delta("insufficient_system_resource", content="")), DONE),
            page(whole("", "insufficient_system_resource")),
        ),
        "",
    ),
    "deepseek: keep-alives and then nothing": ("deepseek", CUT, ""),
    "zhipu: no balance in a 429": (
        "zhipu",
        error(429, code="1113", message="余额不足或无可用资源包,请充值。"),
        "billing",
    ),
    "zhipu: no balance in the other envelope": (
        "zhipu",
        lambda _stream: page(
            {"type": "error", "error": {"type": "1113", "message": "no balance"}, "request_id": "r"}, 429
        ),
        "billing",
    ),
    "zhipu: concurrency limit": (
        "zhipu",
        error(429, code="1302", message="您当前使用该API的并发数过高"),
        "rate_limited",
    ),
    "zhipu: busy": ("zhipu", error(429, code="1305", message="当前API请求过多,请稍后重试。"), "busy"),
    "zhipu: wrong key": ("zhipu", error(401, code="1000", message="身份验证失败。"), "auth"),
    "zhipu: unknown model": ("zhipu", error(400, code="1211", message="模型不存在,请检查模型代码。"), "not_found"),
    "zhipu: a web page": ("zhipu", raw(502, b"<html><title>502 Bad Gateway</title>", "text/html"), ""),
    "dashscope: arrears in a 400": (
        "dashscope",
        error(
            400,
            code="Arrearage",
            type="Arrearage",
            message="Access denied, please make sure your account is in good standing.",
        ),
        "billing",
    ),
    "dashscope: free tier over": (
        "dashscope",
        error(403, code="AllocationQuota.FreeTierOnly", message="The free tier of the model has been exhausted."),
        "billing",
    ),
    "dashscope: throttled": (
        "dashscope",
        error(429, (("retry-after", "7"),), code="Throttling.RateQuota", message="Requests rate limit exceeded."),
        "rate_limited",
    ),
    "dashscope: wrong key": (
        "dashscope",
        error(401, code="invalid_api_key", message="Incorrect API key provided."),
        "auth",
    ),
    "dashscope: error inside 200": ("dashscope", IN_200, ""),
}


@dataclass
class FakeProvider:
    """One of them. ``answer`` is what it answers now; ``by_key`` what it answers to some keys."""

    name: str
    server: FakeServer
    answer: Answer
    by_key: dict[str, Answer] = field(default_factory=dict)
    models: Reply = field(default_factory=lambda: page({"object": "list", "data": []}))

    @property
    def base_url(self) -> str:
        return self.server.url + BASES[self.name]

    @property
    def asked(self) -> list[Asked]:
        """The completions that it was asked for."""
        return [asked for asked in self.server.asked if asked.method == "POST"]

    @property
    def pings(self) -> int:
        return sum(asked.method == "GET" for asked in self.server.asked)

    def complete(self, asked: Asked) -> Reply:
        key = asked.headers.get("authorization", "").removeprefix("Bearer ")
        return self.by_key.get(key, self.answer)(asked.json.get("stream") is True)


@asynccontextmanager
async def fake_provider(name: str, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeProvider]:
    """A provider that is well."""
    async with fake_server({}, tls=tls) as server:
        fake = FakeProvider(name, server, WELL[name])
        server.routes[f"POST {BASES[name]}/chat/completions"] = fake.complete
        server.routes[f"GET {BASES[name]}/models"] = lambda _asked: fake.models
        yield fake
