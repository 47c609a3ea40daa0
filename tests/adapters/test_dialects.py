"""The contract of the port ``Engine``, run over every dialect against a server on a real socket."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from pulsegate.core.fleet import EndpointSpec, EngineName
from pulsegate.core.ids import EndpointId, PoolName, PromptId
from pulsegate.core.probe import Counters, Ending, FaultClass, ProbeAsk, ProbeKind, ProbeResult
from pulsegate.engines.client import EngineClient
from pulsegate.engines.factory import open_engine
from support.fake_server import HANG, FakeServer, Reply, Route, fake_server, lines, page, stream, text

ASK = ProbeAsk(
    kind=ProbeKind.MICRO, prompt_id=PromptId("p1"), prompt="olive Paris", nonce="olive", max_tokens=1, deadline_s=0.8
)
DEEP = ASK._replace(kind=ProbeKind.DEEP, max_tokens=4, end_deadline_s=2.0)


def chunk(said: str, finish: str | None = None) -> str:
    return json.dumps({"choices": [{"index": 0, "text": said, "finish_reason": finish}]})


def tgi(said: str, finish: str | None = None) -> str:
    return json.dumps({"token": {"id": 1, "text": said}, "generated_text": None if finish is None else said})


def triton(said: str, finish: str | None = None) -> str:
    return json.dumps({"model_name": "m", "text_output": said})


def ollama(said: str, finish: str | None = None) -> str:
    return json.dumps({"response": said, "done": finish is not None, "done_reason": finish})


def ndjson(*events: str, ending: str = "", head_delay_s: float = 0.0) -> Reply:
    return replace(lines(*events), ending=ending, head_delay_s=head_delay_s)


@dataclass(frozen=True)
class Kind:
    """How a server of one dialect answers."""

    engine: EngineName
    path: str
    event: Callable[[str, str | None], str] = chunk
    stream: Callable[..., Reply] = stream
    done: tuple[str, ...] = ("[DONE]",)
    lists: Mapping[str, object] = field(default_factory=lambda: {"GET /v1/models": {"data": [{"id": "m"}]}})
    counters: tuple[str, bytes, Counters] | None = None
    ends_silently: bool = False

    def routes(self, **extra: Route) -> dict[str, Route]:
        return {path: page(value) for path, value in self.lists.items()} | extra

    def token(self, said: str = " is") -> Reply:
        return self.stream(self.event(said, "length"), *self.done)


COMPLETIONS = "POST /v1/completions"
KINDS = [
    Kind(
        EngineName.VLLM,
        COMPLETIONS,
        counters=(
            "/metrics",
            b'vllm:generation_tokens_total{engine="0"} 5\nvllm:num_requests_running{engine="0"} 1\n',
            Counters(progress=5.0, running=1.0, waiting=None),
        ),
    ),
    Kind(
        EngineName.SGLANG,
        COMPLETIONS,
        counters=("/metrics", b"sglang:prompt_tokens_total 5\n", Counters(progress=5.0, running=None, waiting=None)),
    ),
    Kind(
        EngineName.TGI,
        "POST /generate_stream",
        event=tgi,
        done=(),
        counters=(
            "/metrics",
            b"tgi_batch_inference_success 5\ntgi_queue_size 2\n",
            Counters(progress=5.0, running=None, waiting=2.0),
        ),
    ),
    Kind(
        EngineName.TRTLLM,
        COMPLETIONS,
        counters=(
            "/metrics",
            b'[{"iter":9,"numActiveRequests":1,"numQueuedRequests":0}]',
            Counters(progress=9.0, running=1.0, waiting=0.0),
        ),
    ),
    Kind(
        EngineName.TRITON,
        "POST /v2/models/m/generate_stream",
        event=triton,
        done=(),
        lists={"POST /v2/repository/index": [{"name": "m", "state": "READY"}]},
        counters=(
            "/v2/models/m/stats",
            b'{"model_stats":[{"response_stats":{"0":{"success":{"count":3}}}}]}',
            Counters(progress=3.0, running=None, waiting=None),
        ),
        ends_silently=True,
    ),
    Kind(
        EngineName.LLAMACPP,
        COMPLETIONS,
        counters=(
            "/metrics",
            b"llamacpp:n_decode_total 7\nllamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n",
            Counters(progress=7.0, running=1.0, waiting=2.0),
        ),
    ),
    Kind(
        EngineName.OLLAMA,
        "POST /api/generate",
        event=ollama,
        stream=ndjson,
        done=(),
        lists={"GET /api/ps": {"models": [{"name": "m", "model": "m"}]}},
    ),
    Kind(
        EngineName.LMDEPLOY,
        COMPLETIONS,
        counters=("/metrics", b"lmdeploy:prompt_tokens_total 5\n", Counters(progress=5.0, running=None, waiting=None)),
    ),
    Kind(EngineName.OPENAI, COMPLETIONS),
]


def endpoint(url: str, engine: EngineName = EngineName.AUTO, **more: object) -> EndpointSpec:
    return replace(EndpointSpec(id=EndpointId("e"), pool=PoolName("p"), url=url, engine=engine), **more)


async def probe(kind: Kind, reply: Route, ask: ProbeAsk = ASK, **spec: object) -> tuple[ProbeResult, FakeServer]:
    """One probe of a server that answers the probe like that."""
    async with fake_server(kind.routes(**{kind.path: reply})) as server:
        engine = open_engine(endpoint(server.url, kind.engine, **spec))
        try:
            return await engine.probe(ask), server
        finally:
            await engine.close()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.engine)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


async def test_a_token(kind: Kind):
    result, server = await probe(kind, kind.token())
    assert (result.token_seen, result.text, result.chunks, result.fault) == (True, " is", 1, None)
    assert result.ending is Ending.COMPLETE
    assert result.phases.first_token_s is not None
    assert result.phases.end_s is not None
    assert result.phases.first_token_s <= result.phases.end_s < 0.8
    assert result.finish_reason == (None if kind.ends_silently else "length")
    asked = server.asked[-1]
    assert f"{asked.method} {asked.path}" == kind.path
    assert asked.headers["x-llm-probe"] == "true"
    assert asked.headers["content-type"] == "application/json"
    assert b"olive Paris" in asked.body
    assert b"logprobs" not in asked.body


async def test_it_is_asked_for_one_token_greedily(kind: Kind):
    _, server = await probe(kind, kind.token())
    body = server.asked[-1].json
    options = body | body.get("options", {}) | body.get("parameters", {})
    limit = options.get("max_tokens") or options.get("num_predict") or options.get("max_new_tokens")
    assert limit == 1
    assert options.get("temperature") == 0 or options.get("do_sample") is False
    assert body.get("stream") is True or kind.path.endswith("_stream")
    assert "stop" not in options


async def test_secrets_and_headers_go_along(kind: Kind):
    _, server = await probe(kind, kind.token(), api_key="k3y", headers=(("X-Team", "blue"),), model="mine")
    assert server.paths() == [kind.path.replace("/m/", "/mine/")] if kind.engine is EngineName.TRITON else [kind.path]
    for asked in server.asked:
        assert asked.headers["authorization"] == "Bearer k3y"
        assert asked.headers["x-team"] == "blue"


async def test_headers_then_silence_is_a_deadline(kind: Kind):
    result, server = await probe(kind, kind.stream(ending="hang"), ASK._replace(deadline_s=0.1))
    assert (result.ending, result.token_seen, result.fault) == (Ending.DEADLINE, False, None)
    assert result.phases.first_byte_s is not None
    assert result.phases.first_token_s is None
    await gone(server)


async def test_silence_is_a_deadline(kind: Kind):
    result, server = await probe(kind, HANG, ASK._replace(deadline_s=0.1))
    assert (result.ending, result.token_seen, result.fault) == (Ending.DEADLINE, False, None)
    assert result.phases.first_byte_s is None
    await gone(server)


async def gone(server: FakeServer) -> None:
    """The server has noticed that the prober left."""
    await server.left_alone()
    assert server.left_early == 1


async def test_a_stream_that_goes_on_is_left_after_the_token(kind: Kind):
    result, server = await probe(kind, kind.stream(kind.event(" is", None), ending="hang"))
    assert (result.ending, result.token_seen, result.fault) == (Ending.LEFT, True, None)
    assert result.phases.end_s is not None
    assert result.phases.first_token_s is not None
    assert 0.04 < result.phases.end_s - result.phases.first_token_s < 0.3
    await gone(server)


async def test_a_stream_that_is_cut_after_the_token(kind: Kind):
    result, _ = await probe(kind, kind.stream(kind.event(" is", None), ending="cut"))
    assert (result.ending, result.token_seen) == (Ending.CUT, True)
    assert result.fault is not None
    assert result.fault.kind is FaultClass.CLOSED


async def test_a_stream_that_is_cut_before_the_token(kind: Kind):
    result, _ = await probe(kind, kind.stream(ending="cut"))
    assert (result.ending, result.token_seen) == (Ending.FAILED, False)
    assert result.fault is not None
    assert result.fault.kind is FaultClass.CLOSED


async def test_a_token_without_any_end_word(kind: Kind):
    result, _ = await probe(kind, kind.stream(kind.event(" is", None)))
    assert result.ending is (Ending.COMPLETE if kind.ends_silently else Ending.CUT)
    assert (result.token_seen, result.fault) == (True, None)


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        (page({"error": {"message": "CUDA error: x", "code": 500}}, 500), FaultClass.CUDA),
        (page({"error": "server busy, please try again"}, 503), FaultClass.OVERLOAD),
        (page({"error": {"message": "Loading model", "code": 503}}, 503), FaultClass.STARTING),
        (page({"error": "Unauthorized"}, 401), FaultClass.AUTH),
        (page({"error": {"message": "Insufficient Balance"}}, 402), FaultClass.BILLING),
        (text("", 500), FaultClass.SERVER),
        (text("LLM is unavailable.", 503), FaultClass.ENGINE_DEAD),
        (page({"error": {"message": "oops", "code": "502"}}), FaultClass.SERVER),
        (text("<html>hello</html>"), FaultClass.PROTOCOL),
        (page({}, 302, (("location", "http://elsewhere/"),)), FaultClass.REDIRECT),
        (Reply(status=500, pieces=((0.0, b'{"error":"x'), (0.0, b'y"}')), ending="hang"), FaultClass.SERVER),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_failed_answer_is_classified(kind: Kind, reply: Reply, fault: FaultClass):
    result, _ = await probe(kind, reply, ASK._replace(deadline_s=0.3))
    assert result.fault is not None
    assert result.fault.kind is fault
    assert (result.ending, result.token_seen) == (Ending.FAILED, False)


async def test_an_error_inside_the_stream(kind: Kind):
    error = json.dumps({"error": "CUDA error: device-side assert triggered"})
    for pieces in ([error], [kind.event(" is", None), error]):
        result, _ = await probe(kind, kind.stream(*pieces, *kind.done))
        assert result.fault is not None
        assert (result.fault.kind, result.ending) == (FaultClass.CUDA, Ending.FAILED)
        assert result.token_seen == (len(pieces) == 2)


async def test_retry_after_is_kept(kind: Kind):
    result, _ = await probe(kind, page({"error": "overloaded"}, 503, (("Retry-After", "3"),)))
    assert result.fault is not None
    assert result.fault.retry_after_s == 3.0


async def test_nothing_listens(kind: Kind):
    async with fake_server({}) as server:
        url = server.url
    engine = open_engine(endpoint(url, kind.engine))
    result = await engine.probe(ASK)
    await engine.close()
    assert result.fault is not None
    assert (result.fault.kind, result.ending) == (FaultClass.REFUSED, Ending.FAILED)


async def test_a_deep_probe_waits_for_all_its_tokens(kind: Kind):
    events = [kind.event(f" {n}", "length" if n == 3 else None) for n in range(4)]
    reply = kind.stream(*events, *kind.done)
    slow = replace(reply, pieces=tuple((0.1, piece) for _, piece in reply.pieces))
    result, server = await probe(kind, slow, DEEP)
    assert (result.ending, result.chunks, result.text) == (Ending.COMPLETE, 4, " 0 1 2 3")
    body = server.asked[-1].body
    assert b":4" in body


async def test_a_deep_probe_that_stalls_is_left(kind: Kind):
    reply = kind.stream(kind.event(" 0", None), ending="hang")
    result, _ = await probe(kind, reply, DEEP._replace(end_deadline_s=0.2))
    assert (result.ending, result.chunks, result.fault) == (Ending.LEFT, 1, None)
    assert result.phases.end_s is not None
    assert 0.15 < result.phases.end_s < 0.5


async def test_counters(kind: Kind):
    routes = kind.routes(**{kind.path: kind.token()})
    expected = None
    if kind.counters is not None:
        path, body, expected = kind.counters
        routes[f"GET {path}"] = Reply(kind="text/plain", pieces=((0.0, body),))
    async with fake_server(routes) as server:
        engine = open_engine(endpoint(server.url, kind.engine))
        assert await engine.counters(0.5) is None  # nothing is known before the first probe
        await engine.probe(ASK)
        assert await engine.counters(0.5) == expected
        if kind.counters is not None:
            server.routes[f"GET {path}"] = HANG
            assert await engine.counters(0.05) is None
            server.routes[f"GET {path}"] = text("not supported", 501)
            assert await engine.counters(0.5) is None
        await engine.close()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.counters is not None], ids=lambda kind: kind.engine)
async def test_counters_are_read_while_a_probe_hangs(kind: Kind):
    assert kind.counters is not None
    path, body, expected = kind.counters
    async with fake_server(kind.routes(**{kind.path: kind.token()})) as server:
        server.routes[f"GET {path}"] = Reply(kind="text/plain", pieces=((0.0, body),))
        engine = open_engine(endpoint(server.url, kind.engine))
        await engine.probe(ASK)
        server.routes[kind.path] = kind.stream(ending="hang")
        async with asyncio.TaskGroup() as group:
            probing = group.create_task(engine.probe(ASK._replace(deadline_s=0.3)))
            await asyncio.sleep(0.05)
            assert await engine.counters(0.2) == expected
        assert probing.result().ending is Ending.DEADLINE
        await engine.close()


async def test_no_connection_is_left_after_many_probes(kind: Kind):
    async with fake_server(kind.routes(**{kind.path: kind.token()})) as server:
        engine = open_engine(endpoint(server.url, kind.engine))
        for n in range(20):
            server.routes[kind.path] = kind.token() if n % 2 else kind.stream(ending="hang")
            await engine.probe(ASK._replace(deadline_s=0.02))
        await engine.close()
        await server.left_alone()


async def test_a_cancelled_probe_leaves_nothing(kind: Kind):
    async with fake_server(kind.routes(**{kind.path: HANG})) as server:
        engine: EngineClient = open_engine(endpoint(server.url, kind.engine, model="m"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await engine.probe(ASK)
        await server.left_alone()
        await engine.close()
