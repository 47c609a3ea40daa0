"""What Pulsegate weighs: idle with a fleet, with idle clients, and after many requests."""

import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

from bench.house import serving
from bench.peers import MODEL, Running
from bench.processes import Process, rss_mib, tree
from bench.wrk import wrk

JSON_BODY = {"model": MODEL, "messages": [{"role": "user", "content": "Hello there, how are you today?"}]}
WARM_REQUESTS_S = 3
SETTLE_S = 3.0


def fleet_mib(path: Path, endpoints: int, settle_s: float) -> float:
    """Control process and one worker, watching that many idle endpoints, all of them well."""
    command = [sys.executable, "-m", "pulsegate", "sim", "--port", "0", "--count", str(endpoints)]
    with Process(command, path / "fleet.log") as sim:
        engines = sim.line('"engines"')["engines"]
        rows = [{"id": one["name"], "url": one["url"], "engine": "vllm", "model": "sim"} for one in engines]
        with serving(path, {"models": [{"name": "m", "endpoints": rows}]}) as served:
            served.await_states({row["id"]: "healthy" for row in rows})
            time.sleep(settle_s)
            return rss_mib(served.process.pid)


def clients_mib(gateway: Running, connections: int) -> float:
    """All of its processes, while that many clients are connected and silent."""
    assert gateway.process is not None
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    host, port = gateway.url.removeprefix("http://").split(":")
    clients = [socket.create_connection((host, int(port)), 10) for _ in range(connections)]
    try:
        time.sleep(SETTLE_S)
        held = _connections(gateway)
        if held < connections:
            raise RuntimeError(f"only {held} of {connections} connections were taken")
        return rss_mib(gateway.process.pid)
    finally:
        for client in clients:
            client.close()


def _connections(gateway: Running) -> int:
    """How many descriptors its processes hold."""
    assert gateway.process is not None
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in tree(gateway.process.pid))


def growth_mib(gateway: Running, requests: int) -> tuple[float, int]:
    """What so many requests have added, after a warm-up; and how many it were."""
    assert gateway.process is not None
    wrk(gateway.url, JSON_BODY, gateway.headers, connections=16, seconds=WARM_REQUESTS_S)
    time.sleep(SETTLE_S)
    before, done = rss_mib(gateway.process.pid), 0
    while done < requests:
        done += wrk(gateway.url, JSON_BODY, gateway.headers, connections=16, seconds=10).requests
    time.sleep(SETTLE_S)
    return rss_mib(gateway.process.pid) - before, done


def wrk_version() -> str:
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
    return " ".join(said.split()[:2])
