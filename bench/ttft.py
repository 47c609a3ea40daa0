"""Time to the first token at a steady rate, by a client that adds as little of its own as it can.

Requests are due at fixed times and go out on kept connections; what is timed is from the write of the request to the
read that brings the first token. Streams are read to their end without being looked at.
"""

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from time import perf_counter
from urllib.parse import urlsplit

import uvloop

from bench.client import quantile

TOKEN = b'"content":" token"'
LITELLM_TOKEN = b'"content": " token"'
END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Milliseconds from request to first token."""

    count: int
    p50_ms: float
    p99_ms: float
    unanswered: int


class _Connection(asyncio.Protocol):
    def __init__(self, idle: "deque[_Connection]", waits_s: list[float]) -> None:
        self._idle = idle
        self._waits_s = waits_s
        self._sent_at: float | None = None
        self._tail = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport) -> None:
        self._transport = transport
        self._idle.append(self)

    def ask(self, request: bytes) -> None:
        assert self._transport is not None
        self._sent_at, self._tail = perf_counter(), b""
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._sent_at is not None:
            now = perf_counter()  # the loop's own clock counts milliseconds
            if TOKEN not in data and LITELLM_TOKEN not in data:
                return
            self._waits_s.append(now - self._sent_at)
            self._sent_at = None
        self._tail = self._tail[-5:] + data[-5:]
        if self._tail.endswith(END):
            self._tail = b""
            self._idle.append(self)


async def _measure(url: str, request: bytes, rate_per_s: float, seconds: float, most: int) -> Waits:
    loop = asyncio.get_running_loop()
    parts, idle, waits_s, chance = urlsplit(url), deque[_Connection](), list[float](), Random(7)
    for _ in range(most):
        await loop.create_connection(lambda: _Connection(idle, waits_s), parts.hostname, parts.port)
    begun, sent, skipped = loop.time(), 0, 0
    for number in range(round(rate_per_s * seconds)):
        due = begun + (number + chance.random()) / rate_per_s
        await asyncio.sleep(due - loop.time())
        if idle:
            idle.popleft().ask(request)
            sent += 1
        else:
            skipped += 1
    await asyncio.sleep(2.5)
    p50_ms, p99_ms = (1000 * quantile(waits_s, share) for share in (0.5, 0.99))
    return Waits(count=len(waits_s), p50_ms=p50_ms, p99_ms=p99_ms, unanswered=sent - len(waits_s) + skipped)


def measure(
    url: str, body: Mapping[str, object], headers: Mapping[str, str], *, rate_per_s: float, seconds: float, most: int
) -> Waits:
    """``most``: how many streams may be under way at once."""
    payload = json.dumps(body, separators=(",", ":")).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", f"Host: {urlsplit(url).netloc}", f"Content-Length: {len(payload)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    request = "\r\n".join([*lines, "", ""]).encode() + payload
    return uvloop.run(_measure(url, request, rate_per_s, seconds, most))
