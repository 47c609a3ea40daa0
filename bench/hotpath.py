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
from pathlib import Path

from bench.backend import DONE, JSON_REPLY, ROLE, STOP, STREAM_HEAD, TOKEN, USAGE
from pulsegate.gateway.downstream import ClientConnection
from pulsegate.gateway.server import Gateway
from pulsegate.gateway.setup import EndpointSetup, PoolSetup, RouteSetup, Setup
from pulsegate.gateway.upstream import UpstreamConnection

ENDPOINTS = 4
CHUNKS = 64
BATCH = 40
STREAMS = 6
ROUNDS = 150


class Wire(asyncio.Transport):
    """A transport that leads nowhere."""

    def write(self, data) -> None:
        pass

    def set_protocol(self, protocol) -> None:
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


class Measured:
    """One choice of features, and the least it was seen to cost: microseconds of CPU per request."""

    def __init__(self, name: str, folder: Path, *features: str, new_heads: bool = False) -> None:
        self.name = name
        self.json_us = self.stream_us = float("inf")
        self._plane = Plane(setup(folder, *features))
        numbers = range(BATCH) if new_heads else [0] * BATCH
        self._whole = [request(stream=False, number=n) for n in numbers]
        self._stream = request(stream=True, number=0)
        usage = [USAGE] if "usage" in features else []
        self._reads = [STREAM_HEAD + ROLE, *([TOKEN] * CHUNKS), STOP, *usage, DONE]

    def look(self) -> None:
        began = time.process_time()
        for asked in self._whole:
            self._plane.serve(asked, [JSON_REPLY])
        between = time.process_time()
        for _ in range(STREAMS):
            self._plane.serve(self._stream, self._reads)
        ended = time.process_time()
        self.json_us = min(self.json_us, (between - began) / BATCH * 1e6)
        self.stream_us = min(self.stream_us, (ended - between) / STREAMS * 1e6)


FEATURES = ("keys", "access log", "response headers", "affinity", "usage", "model mapping")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare = Measured("bare", folder)
        alone = [Measured(f"+ {feature}", folder, feature) for feature in FEATURES]
        alone.append(Measured("+ a new head each time", folder, new_heads=True))
        usual = Measured("everything", folder, *FEATURES)
        worst = Measured("... with new heads", folder, *FEATURES, new_heads=True)
        gc.collect()
        gc.freeze()
        gc.disable()  # as good as in a worker: requests leave no cycles
        for _ in range(ROUNDS):  # in turns, so that a machine that slows down slows down all of them
            for each in (bare, *alone, usual, worst):
                each.look()
    print(f"{'':24}{'JSON':>8}{f'{CHUNKS} chunks':>12}   microseconds of CPU")
    for each in (bare, usual, worst):
        print(f"{each.name:24}{each.json_us:8.1f}{each.stream_us:12.1f}")
    for each in alone:
        print(f"{each.name:24}{each.json_us - bare.json_us:+8.1f}{each.stream_us - bare.stream_us:+12.1f}")


if __name__ == "__main__":
    sys.exit(main())
