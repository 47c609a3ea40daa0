"""The demo as a user runs it: what it shows, how it ends, and that nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pulsegate.embedded.local_http import get
from support.processes import ends_soon

pytestmark = [pytest.mark.llamacpp, pytest.mark.timeout(240)]

COMMAND = [sys.executable, "-m", "pulsegate", "demo"]


@pytest.fixture
def run(tmp_path):
    """Starts the command in a world whose temporary directory can be looked through."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # noqa: TID251 # handed on, not read

    def start(*options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(  # noqa: S603
            [*COMMAND, *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return start


def assert_nothing_left(tmp_path: Path) -> None:
    assert not list(tmp_path.iterdir())
    assert_no_process_left(tmp_path)


def assert_no_process_left(tmp_path: Path) -> None:
    """A killed process takes a moment to be gone; a control process that lost its parent first drains."""
    for process in Path("/proc").glob("[0-9]*"):
        if inherited(process, f"TMPDIR={tmp_path}"):
            command = (process / "cmdline").read_text().replace("\0", " ")
            assert ends_soon(int(process.name), within_s=20.0), f"left behind: {command}"


def inherited(process: Path, variable: str) -> bool:
    try:
        return variable.encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is not ours
        return False


@pytest.mark.parametrize("options", [(), ("--simulated",)], ids=["real", "simulated"])
def test_it_freezes_one_engine_and_heals_it(run, tmp_path, weights, options):
    with run(*options) as demo:
        said, _ = demo.communicate()
    assert demo.returncode == 0, said
    assert ("SIMULATED" in said) == bool(options)
    shown = re.findall(r"s  engine-1 +(\w+) +(\w+)", said.partition("FROZEN")[2])
    verdict = shown.index(("unhealthy", "hung"))
    assert "degraded" in [state for state, _ in shown[:verdict]]
    assert "degraded" in [state for state, _ in shown[verdict:]]
    assert shown[-1] == ("healthy", "ok")
    assert "while its /health still says 200" in said
    assert_nothing_left(tmp_path)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_staying_ends_with_a_signal(run, tmp_path, weights, signum):
    with run("--stay", "--simulated") as demo:
        assert demo.stdout is not None
        heard = ""
        while "time  endpoint" not in heard:
            line = demo.stdout.readline()
            assert line, heard
            heard += line
        endpoints = re.search(r"curl -s (\S+/api/endpoints)", heard)
        assert endpoints is not None
        assert get(endpoints[1], 5)[0] == 200
        demo.send_signal(signum)
        rest, _ = demo.communicate()
    assert demo.returncode == 0, heard + rest
    assert_nothing_left(tmp_path)


def test_what_a_killed_demo_started_ends_with_it(run, tmp_path, weights):
    with run("--stay") as demo:
        assert demo.stdout is not None
        while "time  endpoint" not in demo.stdout.readline():
            pass
        demo.kill()
        demo.communicate()  # ends when the last process that holds the pipe has ended
    assert_no_process_left(tmp_path)
