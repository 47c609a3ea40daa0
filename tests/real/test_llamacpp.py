"""A real llama.cpp, judged by a real control process.

Intervals, deadlines and counts are the defaults. Only what is still called fast is not: this engine computes on one
shared core, where a first token takes 100 to 300 ms.
"""

import json
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from pulsegate.core.fleet import EngineName, ProbePolicy
from pulsegate.core.health import State
from pulsegate.embedded.engine import MODEL, LlamaEngine
from pulsegate.embedded.freeze import FrozenThread, busiest_thread, thread_cpu_ticks
from pulsegate.embedded.local_http import get
from support.real.connections import settled
from support.real.load import UserLoad
from support.real.probing import probe_many
from support.real.serve import Serve
from support.real.vllm import free_port

pytestmark = pytest.mark.llamacpp

INTERVAL_S = ProbePolicy().interval_s
DETECTION_S = INTERVAL_S + 2.5
PROBE = {"healthy_ttft": "500ms", "congested_ttft": "600ms"}


@contextmanager
def running(weights, count):
    engines = [LlamaEngine(f"llama.cpp {number}", weights) for number in range(count)]
    try:
        for engine in engines:
            engine.wait_ready()
        yield engines
    finally:
        for engine in engines:
            engine.stop()


@pytest.fixture(scope="module")
def engines(weights):
    with running(weights, 2) as engines:
        yield engines


@pytest.fixture
def serve(tmp_path, engines):
    with Serve(tmp_path, {f"e{n}": entry(engine.url) for n, engine in enumerate(engines)}, probe=PROBE) as serve:
        serve.await_all(State.HEALTHY, within_s=60)
        yield serve


def entry(url: str) -> dict:
    return {"url": url, "engine": "llamacpp"}


def test_frozen_compute_is_found_and_its_recovery_too(serve, engines):
    frozen_at = serve.clock.now()
    how = engines[0].freeze()
    try:
        assert "stands still" in how, f"tracing is not permitted here: {how}"
        verdict = serve.await_state("e0", State.UNHEALTHY, since=frozen_at, within_s=DETECTION_S)
        assert verdict.reason == "hung"
        assert engines[0].health_status() == 200
        assert next(one.state for one in serve.since(frozen_at, "e0")) is State.DEGRADED
        assert serve.states()["e1"] == "healthy"
        serve.pause(INTERVAL_S)  # it stays out as long as it hangs
        assert serve.states()["e0"] == "unhealthy"
    finally:
        engines[0].thaw()
    thawed_at = serve.clock.now()
    serve.await_state("e0", State.HEALTHY, since=thawed_at, within_s=60)
    states = [one.state for one in serve.since(thawed_at, "e0")]
    assert states[0] is State.DEGRADED
    assert State.UNHEALTHY not in states


def test_a_load_of_users_never_makes_it_unhealthy(serve, engines):
    started_at = serve.clock.now()
    with UserLoad(engines[0].url, MODEL, concurrency=12, tokens=200) as load:
        while load.finished < 12 or serve.clock.now() < started_at + 30:
            serve.pause(1)
    assert not load.failed
    assert not [one for one in serve.since(started_at) if one.state is State.UNHEALTHY], serve.story(started_at)
    busy = [one for one in serve.since(started_at, "e0") if one.state is State.DEGRADED]
    assert busy, "12 users on 4 slots went unnoticed"
    serve.await_all(State.HEALTHY, within_s=60)


@pytest.mark.timeout(600)
async def test_a_thousand_probes_leave_nothing_behind(engines):
    port = urlsplit(engines[0].url).port
    assert await settled(port) == 0, "somebody else is connected"
    endings = await probe_many(engines[0].url, EngineName.LLAMACPP, MODEL, count=1000, short_deadline_s=0.02)
    assert endings["complete"] >= 450
    assert endings["deadline"] >= 450
    assert await settled(port) == 0
    _, slots = get(f"{engines[0].url}/slots", 5)
    assert not [slot for slot in json.loads(slots) if slot["is_processing"]]
    _, metrics = get(f"{engines[0].url}/metrics", 5)
    assert b"\nllamacpp:requests_processing 0\n" in metrics
    assert b"\nllamacpp:requests_deferred 0\n" in metrics


def test_loading_is_warming_and_nothing_else(tmp_path, weights):
    port = free_port()
    with Serve(tmp_path, {"e0": entry(f"http://127.0.0.1:{port}")}, probe=PROBE) as serve:
        serve.pause(INTERVAL_S + 1)  # nothing listens yet
        assert serve.states() == {"e0": "warming"}
        engine = LlamaEngine("llama.cpp", weights, port=port)
        try:
            with loading(engine, port):
                serve.pause(2 * INTERVAL_S)
                row = serve.endpoints()["e0"]
                assert (row["state"], row["reason"]) == ("warming", "loading")
            serve.await_all(State.HEALTHY, within_s=60)
        finally:
            engine.stop()
        assert {one.state for one in serve.since(0.0)} <= {State.WARMING, State.DEGRADED, State.HEALTHY}


@contextmanager
def loading(engine: LlamaEngine, port: int):
    """Holds the engine in its loading: the thread that loads stands still, the web server says 503."""
    while health(port) != 503:
        assert not engine.child.ended, engine.child.failure("ended")
        engine.child.wait(0.01)
    before = thread_cpu_ticks(engine.child.pid)
    while (loader := busiest_thread(before, thread_cpu_ticks(engine.child.pid))) is None:
        engine.child.wait(0.05)
    frozen = FrozenThread(loader)
    try:
        assert health(port) == 503, "it had loaded already"
        yield
        assert health(port) == 503
    finally:
        frozen.thaw()


def health(port: int) -> int | None:
    try:
        return get(f"http://127.0.0.1:{port}/health", 1)[0]
    except OSError:
        return None


def test_a_killed_engine_is_refused(tmp_path, weights):
    with running(weights, 2) as engines:
        entries = {f"e{n}": entry(engine.url) for n, engine in enumerate(engines)}
        with Serve(tmp_path, entries, probe=PROBE) as serve:
            serve.await_all(State.HEALTHY, within_s=60)
            killed_at = serve.clock.now()
            engines[0].kill()
            verdict = serve.await_state("e0", State.UNHEALTHY, since=killed_at, within_s=DETECTION_S)
            assert verdict.reason == "refused"
            assert serve.states()["e1"] == "healthy"
