"""A whole Pulsegate and its fleet as processes, as an operator would start them."""

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Protocol
from urllib.request import Request, urlopen

from bench.processes import Process, free_ports

MODEL = "m"


class Engine(Protocol):
    """An engine that something can be done to."""

    url: str
    engine: str  # the dialect
    model: str

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def end(self, number: signal.Signals) -> None: ...

    def start(self) -> None: ...


class SimEngine:
    """``pulsegate sim`` with one engine, in a process of its own so that it can be killed, on ports that stay."""

    engine, model = "vllm", "sim"

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._port = free_ports(2)
        self.url = f"http://127.0.0.1:{self._port + 1}"
        self.admin = f"http://127.0.0.1:{self._port}/_sim/e0"
        self._process: Process | None = None
        self.start()

    def start(self) -> None:
        self.stop()
        command = [sys.executable, "-m", "pulsegate", "sim", "--ports", "--port", str(self._port), *self._options]
        self._process = Process(command, self._folder / f"sim-{self._port}.log")
        self._process.line('"engines"')

    def freeze(self) -> None:
        call(f"{self.admin}/freeze", "POST")

    def thaw(self) -> None:
        call(f"{self.admin}/thaw", "POST")

    def script(self, text: str) -> None:
        call(f"{self.admin}/script", "PUT", text)

    def end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.signal(number)

    def status(self) -> dict:
        return call(self.admin)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()


class Served:
    """``pulsegate serve``: where it answers."""

    def __init__(self, process: Process) -> None:
        self.process = process
        told = process.line('"gateway": "http')
        self.gateway: str = told["gateway"]
        self.admin: str = told["admin"]

    def endpoints(self) -> list[dict]:
        return call(f"{self.admin}/api/endpoints")["endpoints"]

    def states(self) -> dict[str, str]:
        return {row["id"]: row["state"] for row in self.endpoints()}

    def await_states(self, wanted: Mapping[str, str], patience_s: float = 60.0) -> None:
        """Until these endpoints are in these states."""
        deadline = time.perf_counter() + patience_s
        while not wanted.items() <= (states := self.states()).items():
            if time.perf_counter() > deadline:
                raise RuntimeError(f"endpoints are {states}, not {dict(wanted)}")
            time.sleep(0.1)


@contextlib.contextmanager
def folder() -> Generator[Path]:
    """For configurations and logs; kept when something goes wrong, so that one can look."""
    path = Path(tempfile.mkdtemp(prefix="pulsegate-trial-"))
    try:
        yield path
    except BaseException:
        print(f"logs are in {path}", file=sys.stderr)
        raise
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


@contextlib.contextmanager
def sims(path: Path, count: int, *options: str) -> Generator[list[SimEngine]]:
    with contextlib.ExitStack() as stack:
        engines = []
        for _ in range(count):
            engines.append(SimEngine(path, *options))
            stack.callback(engines[-1].stop)
        yield engines


@contextlib.contextmanager
def serving(path: Path, config: Mapping[str, object], *, workers: int = 1) -> Generator[Served]:
    """``pulsegate serve`` with this configuration (JSON is YAML too) and its access log in ``path``."""
    file = path / "pulsegate.yaml"
    free = {"listen": "127.0.0.1:0"}
    whole = {**config, "admin": free, "gateway": {**free, **dict(config.get("gateway", {}))}}  # type: ignore[call-overload] # a mapping by construction
    file.write_text(json.dumps(whole))
    command = [sys.executable, "-m", "pulsegate", "serve", "-c", str(file), "--log", "json"]
    command += ["--access-log", str(path / "access.log"), "--workers", str(workers)]
    with Process(command, path / "serve.log") as process:
        yield Served(process)


def pool(name: str, engines: Mapping[str, Engine], **more: object) -> dict[str, object]:
    """A model of the configuration, served by these engines; ``more`` are further keys."""
    rows = [{"id": id_, "url": e.url, "engine": e.engine, "model": e.model} for id_, e in engines.items()]
    return {"name": name, "endpoints": rows, **more}


def call(url: str, method: str = "GET", body: str = "") -> dict:
    with urlopen(Request(url, data=body.encode() if method != "GET" else None, method=method), timeout=10) as answer:
        raw = answer.read()
    return json.loads(raw) if raw else {}


def machine() -> str:
    """What it was measured on, in a line."""
    models = [line.partition(":")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return f"{os.cpu_count()} cores of{models[0] if models else ' an unknown kind'}, Python {sys.version.split()[0]}"
