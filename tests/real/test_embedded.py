"""The engines that we start ourselves: what a freeze does to them, and what is left when they are gone."""

import signal
import subprocess
import sys

import pytest

from pulsegate.embedded.child import ChildError
from pulsegate.embedded.engine import MODEL, LlamaEngine
from pulsegate.embedded.freeze import FreezeError, FrozenThread
from pulsegate.embedded.local_http import post
from support.processes import ends_soon

pytestmark = pytest.mark.llamacpp


@pytest.fixture(scope="module")
def engine(weights):
    engine = LlamaEngine("llama.cpp", weights)
    try:
        engine.wait_ready()
        yield engine
    finally:
        engine.stop()


def token(engine: LlamaEngine, timeout_s: float) -> int:
    return post(f"{engine.url}/v1/completions", {"model": MODEL, "prompt": "One", "max_tokens": 1}, timeout_s)[0]


def test_a_frozen_engine_gives_no_token_but_says_that_it_is_well(engine):
    assert token(engine, 20.0) == 200
    how = engine.freeze()
    try:
        assert "stands still" in how, f"tracing is not permitted here: {how}"
        with pytest.raises(TimeoutError):
            token(engine, 1.5)
        assert engine.health_status() == 200
    finally:
        engine.thaw()
    assert token(engine, 20.0) == 200


def test_freezing_a_thread_that_does_not_exist_is_an_error():
    with pytest.raises(FreezeError, match="No such process"):
        FrozenThread(2**22 - 1)


def test_an_engine_that_cannot_load_shows_its_log(tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but not really")
    engine = LlamaEngine("llama.cpp", broken)
    try:
        with pytest.raises(ChildError, match=r"(?s)failed to start.*broken.gguf"):
            engine.wait_ready()
    finally:
        engine.stop()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_ends_with_the_process_that_started_it(weights, signum):
    program = (
        "import sys, pathlib, time\n"
        "from pulsegate.embedded.engine import LlamaEngine\n"
        "engine = LlamaEngine('llama.cpp', pathlib.Path(sys.argv[1]))\n"
        "engine.wait_ready()\n"
        "engine.freeze()\n"
        "print(engine.child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:  # noqa: S603
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signum)
        parent.wait()
    assert ends_soon(pid), f"engine {pid} outlived its parent"
