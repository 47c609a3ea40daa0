"""A real vLLM with two data-parallel ranks that sends keep-alive comments in quiet streams."""

import os
import signal
import socket

import pytest

from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import State
from support.real.serve import Serve
from support.real.vllm import MODEL, VllmServer

pytestmark = pytest.mark.vllm

DETECTION_S = ProbePolicy().interval_s + 2.5
RECOVERY_S = 90.0
PATIENT_TIMEOUT_S = 2.5  # longer than the second between two comments


@pytest.fixture(scope="module")
def server(vllm_installed):
    server = VllmServer("--data-parallel-size", "2", "--api-server-count", "1", "--sse-keep-alive-interval", "1")
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def watch(folder, server: VllmServer, probe: dict | None = None) -> Serve:
    endpoint = {"url": server.url, "engine": "vllm", "model": MODEL, "data_parallel": 2}
    return Serve(folder, {"v": endpoint}, probe=probe)


def test_the_stopped_rank_of_two_is_found_and_the_other_stays(tmp_path, server):
    with watch(tmp_path, server) as serve:
        serve.await_all(State.HEALTHY, within_s=60)
        stopped_at = serve.clock.now()
        os.kill(server.engine_core(1), signal.SIGSTOP)
        try:
            verdict = serve.await_state("v#dp1", State.UNHEALTHY, since=stopped_at, within_s=DETECTION_S)
            assert verdict.reason == "hung"
            serve.pause(2 * ProbePolicy().interval_s)
            assert serve.states() == {"v#dp0": "healthy", "v#dp1": "unhealthy"}
            assert not [one for one in serve.since(stopped_at, "v#dp0") if one.state is State.UNHEALTHY]
        finally:
            os.kill(server.engine_core(1), signal.SIGCONT)
        serve.await_all(State.HEALTHY, within_s=RECOVERY_S)


def test_keep_alive_comments_are_no_sign_of_life(tmp_path, server):
    with watch(tmp_path, server, probe={"timeout": f"{PATIENT_TIMEOUT_S}s"}) as serve:
        serve.await_all(State.HEALTHY, within_s=60)
        stopped_at = serve.clock.now()
        os.kill(server.engine_core(1), signal.SIGSTOP)
        try:
            assert b": keep-alive" in heard_from(server, rank=1, seconds=PATIENT_TIMEOUT_S)
            within_s = ProbePolicy().interval_s + 2 * PATIENT_TIMEOUT_S + 1.0
            verdict = serve.await_state("v#dp1", State.UNHEALTHY, since=stopped_at, within_s=within_s)
            assert verdict.reason == "hung"
        finally:
            os.kill(server.engine_core(1), signal.SIGCONT)


def heard_from(server: VllmServer, *, rank: int, seconds: float) -> bytes:
    """What a streamed request to one rank hears in that time; fails if it hears an event."""
    body = b'{"model": "%s", "prompt": "One", "max_tokens": 1, "stream": true}' % MODEL.encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-data-parallel-rank: {rank}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    heard = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as connection:
        connection.sendall(head.encode() + body)
        while b": keep-alive" not in heard:
            heard += connection.recv(4096)
    assert b"data:" not in heard, "the rank answered"
    return heard
