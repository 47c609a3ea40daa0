"""What the data plane's own code costs per request, and each of its features: no sockets, no kernel.

``python -m bench.hotpath``: bytes go in where a socket's read would bring them, and come out where one would send them.
Shows the least CPU time of many short runs.
"""

import asyncio
import gc
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.backend import DONE, JSON_REPLY, ROLE, STOP, STREAM_HEAD, TOKEN, USAGE
from pulsegate.gateway.downstream import ClientConnection
from pulsegate.gateway.server import Gateway
from pulsegate.gateway.setup import EndpointSetup, PoolSetup, RouteSetup, Setup
from pulsegate.gateway.upstream import UpstreamConnection

ENDPOINTS = 4
CHUNKS = 64
RUNS = 60


class Wire(asyncio.Transport):
    """A transport that leads nowhere."""

    def write(self, data) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


def setup(folder: Path, *features: str) -> Setup:
    model = "org/bench" if "model mapping" in features else None
    endpoints = tuple(
        EndpointSetup(id=f"10.0.0.{n}:8000", host="10.0.0.1", port=n, host_header=f"10.0.0.{n}:8000", model=model)
        for n in range(1, ENDPOINTS + 1)
    )
    keys = folder / "keys.json"
    digest = hashlib.sha256(b"sk-bench").hexdigest()
    keys.write_text(json.dumps({"keys": [{"name": "bench", "sha256": digest, "models": ["bench"]}]}))
    pool = PoolSetup(name="bench", endpoints=endpoints, ask_usage="usage" in features)
    return Setup(
        pools=(pool,),
        routes=(RouteSetup(name="bench", tiers=("bench",)),),
        keys_file=str(keys) if "keys" in features else None,
        access_log="/dev/null" if "access log" in features else None,
        response_headers="response headers" in features,
        affinity_header="x-session" if "affinity" in features else None,
    )


def request(*, stream: bool, number: int) -> bytes:
    fields = {"model": "bench", "messages": [{"role": "user", "content": "Hello there, how are you today?"}]}
    body = json.dumps({**fields, "stream": True} if stream else fields).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway:8080\r\nAccept: */*\r\nUser-Agent: bench/{number}\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer sk-bench\r\nX-Session: s{number % 7}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Plane:
    def __init__(self, given: Setup) -> None:
        self.gateway = Gateway(given, None)
        context = self.gateway._context  # noqa: SLF001 - what is measured lies inside
        self.upstream: list[UpstreamConnection] = []
        for backend in context.roster.backends.values():
            conn = UpstreamConnection(backend)
            conn.connection_made(Wire())
            backend.keep(conn)
            self.upstream.append(conn)
        self.client = ClientConnection(context, self.gateway)
        self.client.connection_made(Wire())

    def serve(self, asked: bytes, reads: list[bytes]) -> None:
        self.client.data_received(asked)
        conn = next(each for each in self.upstream if each.owner is not None)
        for read in reads:
            conn.data_received(read)


def least(run: Callable[[], None], times: int) -> float:
    """Microseconds of CPU per run."""
    best = float("inf")
    for _ in range(RUNS):
        began = time.process_time()
        for _ in range(times):
            run()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6


def measure(folder: Path, *features: str, new_heads: bool = False) -> tuple[float, float]:
    plane = Plane(setup(folder, *features))
    whole = [request(stream=False, number=n) for n in range(64 if new_heads else 1)] * (1 if new_heads else 64)
    streamed = [request(stream=True, number=n) for n in range(8)]
    usage = [USAGE] if "usage" in features else []
    reads = [STREAM_HEAD + ROLE, *([TOKEN] * CHUNKS), STOP, *usage, DONE]

    def one_batch() -> None:
        for asked in whole:
            plane.serve(asked, [JSON_REPLY])

    def streams() -> None:
        for asked in streamed:
            plane.serve(asked, reads)

    return least(one_batch, 3) / len(whole), least(streams, 1) / len(streamed)


FEATURES = ("keys", "access log", "response headers", "affinity", "usage", "model mapping")


def main() -> None:
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = measure(folder)
        print(f"{'':24}{'JSON':>10}{f'{CHUNKS} chunks':>12}   microseconds of CPU")
        print(f"{'bare':24}{base[0]:10.1f}{base[1]:12.1f}")
        for feature in FEATURES:
            got = measure(folder, feature)
            print(f"{'+ ' + feature:24}{got[0] - base[0]:+10.1f}{got[1] - base[1]:+12.1f}")
        got = measure(folder, new_heads=True)
        print(f"{'+ a new head each time':24}{got[0] - base[0]:+10.1f}")
        everything = measure(folder, *FEATURES, new_heads=True)
        print(f"{'everything':24}{everything[0]:10.1f}{everything[1]:12.1f}")


if __name__ == "__main__":
    sys.exit(main())
