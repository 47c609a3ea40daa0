"""A real vLLM on CPU with a tiny random model, as a child process.

scripts/install-vllm.sh and scripts/tiny_llama.py make the parts.
"""

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from pulsegate.control.clock import SystemClock
from pulsegate.embedded.child import Child
from pulsegate.embedded.local_http import get

ROOT = Path(__file__).parents[3]
VENV = ROOT / "build" / "vllm"
MODEL_DIR = ROOT / "build" / "tiny-llama"
MODEL = "tiny"
SLOTS = 16
_START_TIMEOUT_S = 400.0


def make_model() -> None:
    """Write the tiny model unless it is there."""
    if not MODEL_DIR.exists():
        subprocess.run([VENV / "bin/python", ROOT / "scripts/tiny_llama.py", MODEL_DIR], check=True)  # noqa: S603


def free_port() -> int:
    """A port that was free a moment ago: vLLM cannot pick one itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class VllmServer:
    """One ``vllm serve``; starts at once, is ready after :meth:`wait_ready`."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._clock = SystemClock()
        inherited = dict(os.environ)  # noqa: TID251 # handed on to the child, not read
        environment = {
            **inherited,
            "PATH": f"{VENV / 'bin'}:{inherited['PATH']}",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
        }
        command = [str(VENV / "bin/vllm"), "serve", str(MODEL_DIR), "--served-model-name", MODEL]
        listen = ["--host", "127.0.0.1", "--port", str(self.port), "--disable-uvicorn-access-log"]
        one_process = ["--distributed-executor-backend", "uni"]  # no worker beside the EngineCore
        size = ["--dtype", "bfloat16", "--max-model-len", "2048", "--max-num-seqs", str(SLOTS), "--enforce-eager"]
        self.child = Child("vllm", [*command, *listen, *size, *one_process, *options], env=environment)

    def wait_ready(self) -> None:
        """Come back when its own health check says 200."""
        deadline = self._clock.now() + _START_TIMEOUT_S
        while self._clock.now() < deadline:
            if self.child.wait(0.5) is not None:
                break
            if self.health_status() == 200:
                return
        raise self.child.failure("did not start")

    def health_status(self) -> int | None:
        """What the kubelet would see."""
        try:
            return get(f"{self.url}/health", 2.0)[0]
        except OSError:
            return None

    def metric(self, name: str) -> float:
        """The sum of a metric over its label sets."""
        _, body = get(f"{self.url}/metrics", 5.0)
        lines = [line for line in body.decode().splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        assert lines, f"vLLM has no metric {name}"
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def engine_core(self, rank: int | None = None) -> int:
        """The process id of the EngineCore (of one data-parallel rank)."""
        name = "EngineCore" if rank is None else f"EngineCore_DP{rank}"
        found = [pid for pid in _descendants(self.child.pid) if name in _title(pid)]
        assert len(found) == 1, f"expected one {name}, found {found}"
        return found[0]

    def stop(self) -> None:
        """End it and everything that it started: stopped, or orphaned by the death of a parent."""
        for pid in _descendants(self.child.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.child.stop(grace_s=10.0)


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = list(children.get(pid, []))
    for child in found:  # grows while we walk it
        found += children.get(child, [])
    return found
