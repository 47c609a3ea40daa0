"""A real vLLM on CPU, judged by a real control process with production defaults.

One server for all of these tests, because it takes half a minute to start; the last one kills it.
"""

import os
import signal
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from pulsegate.core.fleet import EngineName, ProbePolicy
from pulsegate.core.health import State
from support.real.connections import settled
from support.real.load import UserLoad
from support.real.probing import probe_many
from support.real.serve import Change, Serve
from support.real.vllm import MODEL, SLOTS, VllmServer

pytestmark = pytest.mark.vllm

DETECTION_S = ProbePolicy().interval_s + 2.5
RECOVERY_S = 90.0
SATURATION_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A vLLM that was watched from before its first moment; ``startup`` is what was said until it was ready."""

    server: VllmServer
    serve: Serve
    startup: list[Change]


@pytest.fixture(scope="module")
def watched(tmp_path_factory, vllm_installed):
    server = VllmServer()
    try:
        endpoint = {"url": server.url, "engine": "vllm", "model": MODEL}
        with Serve(tmp_path_factory.mktemp("vllm"), {"v": endpoint}) as serve:
            server.wait_ready()
            yield Watched(server=server, serve=serve, startup=serve.since(0.0))
    finally:
        server.stop()


@contextmanager
def stopped(pid: int):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def assert_found(watched: Watched) -> float:
    """Stop the engine behind the web server, see the verdict, see it stand; when it was let go on."""
    server, serve = watched.server, watched.serve
    stopped_at = serve.clock.now()
    with stopped(server.engine_core()):
        verdict = serve.await_state("v", State.UNHEALTHY, since=stopped_at, within_s=DETECTION_S)
        assert verdict.reason == "hung"
        assert server.health_status() == 200
        serve.pause(ProbePolicy().interval_s)
        assert serve.states() == {"v": "unhealthy"}
        return serve.clock.now()


def assert_comes_back(watched: Watched, since: float) -> None:
    """By way of degraded."""
    back = watched.serve.await_state("v", State.DEGRADED, since=since, within_s=RECOVERY_S)
    assert back.old is State.UNHEALTHY
    watched.serve.await_all(State.HEALTHY, within_s=RECOVERY_S)


def test_start_up_is_never_judged(watched):
    assert {change.state for change in watched.startup} <= {State.WARMING}
    watched.serve.await_all(State.HEALTHY, within_s=60)


def test_engine_core_stopped_while_idle(watched):
    watched.serve.await_all(State.HEALTHY, within_s=RECOVERY_S)
    healed_at = assert_found(watched)
    assert_comes_back(watched, healed_at)


def test_engine_core_stopped_while_busy(watched):
    watched.serve.await_all(State.HEALTHY, within_s=RECOVERY_S)
    with UserLoad(watched.server.url, MODEL, concurrency=SLOTS + 4, tokens=1500) as load:
        load.wait(6.0)
        assert watched.server.metric("vllm:num_requests_running") == SLOTS
        healed_at = assert_found(watched)
    assert not load.failed
    assert_comes_back(watched, healed_at)


@pytest.mark.timeout(900)
def test_saturation_is_busy_and_never_unhealthy(watched):
    server, serve = watched.server, watched.serve
    serve.await_all(State.HEALTHY, within_s=RECOVERY_S)
    began = serve.clock.now()
    with UserLoad(server.url, MODEL, concurrency=64, tokens=512) as load:
        full = 0
        for _ in range(10):
            serve.pause(SATURATION_S / 10)
            full += server.metric("vllm:num_requests_waiting") > 0
    said = serve.since(began)
    assert not [one for one in said if one.state is State.UNHEALTHY], serve.story(began)
    assert full >= 9, "the load was no load"
    assert load.finished >= SLOTS
    assert not load.failed
    assert [one for one in said if one.reason == "busy"], "a full server went unnoticed"
    serve.await_all(State.HEALTHY, within_s=RECOVERY_S)


async def test_a_thousand_probes_leave_nothing_behind(watched):
    server = watched.server
    endings = await probe_many(server.url, EngineName.VLLM, MODEL, count=1000, short_deadline_s=0.004)
    assert endings["complete"] + endings["left"] >= 500
    assert endings["deadline"] >= 250
    idle = 2  # the control process keeps a connection for probes and one for counters
    assert await settled(server.port, above=idle) <= idle
    assert server.metric("vllm:num_requests_running") == 0
    assert server.metric("vllm:num_requests_waiting") == 0


def test_engine_core_killed(watched):
    watched.serve.await_all(State.HEALTHY, within_s=RECOVERY_S)
    killed_at = watched.serve.clock.now()
    os.kill(watched.server.engine_core(), signal.SIGKILL)
    verdict = watched.serve.await_state("v", State.UNHEALTHY, since=killed_at, within_s=DETECTION_S)
    assert verdict.reason in {"engine_dead", "refused", "error"}
