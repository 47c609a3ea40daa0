"""A small HTTP client that reports what came over the wire, piece by piece, and how it ended."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self
from urllib.parse import urlsplit

End = Literal["whole", "eof", "reset", "silent", "refused"]


@dataclass
class Seen:
    """One answer: ``end`` is ``whole`` when the body was complete, ``silent`` when nothing more came in time."""

    end: End
    raw: bytes = b""
    pieces: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @property
    def head(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[0].lower()

    @property
    def body(self) -> bytes:
        rest = self.raw.partition(b"\r\n\r\n")[2]
        return _unchunk(rest)[0] if b"transfer-encoding: chunked" in self.head else rest

    @property
    def events(self) -> list[str]:
        lines = self.body.decode().splitlines()
        return [line.partition(":")[2].strip() for line in lines if line.startswith("data:")]

    @property
    def json(self):
        return json.loads(self.body)


def _unchunk(rest: bytes) -> tuple[bytes, bool]:
    body = b""
    while True:
        size, found, rest = rest.partition(b"\r\n")
        if not found:
            return body, False
        length = int(size, 16)
        if length == 0:
            return body, rest == b"\r\n"
        body += rest[:length]
        rest = rest[length + 2 :]


def is_whole(raw: bytes) -> bool:
    """Whether a response is complete by its own word."""
    head, found, rest = raw.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(rest) >= int(line.partition(b":")[2])
        if line == b"transfer-encoding: chunked":
            return _unchunk(rest)[1]
    return False


class SimClient:
    """One connection, used for one request after another."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._base = parts.hostname, parts.port, parts.path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        self._streams = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(self, *_exc) -> None:
        self._streams[1].close()

    def send(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        lines = [f"{method} {self._base}{path} HTTP/1.1", "host: sim", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._streams[1].write("\r\n".join([*lines, "", ""]).encode() + body)

    async def read(self, patience_s: float, until: bytes | None = None) -> Seen:
        loop, reader = asyncio.get_running_loop(), self._streams[0]
        begun, raw, pieces = loop.time(), b"", []
        try:
            async with asyncio.timeout(patience_s):
                while data := await reader.read(65536):
                    raw += data
                    pieces.append((loop.time() - begun, data))
                    if is_whole(raw) or (until is not None and until in raw):
                        return Seen("whole", raw, pieces)
                return Seen("eof", raw, pieces)
        except TimeoutError:
            return Seen("silent", raw, pieces)
        except ConnectionError:
            return Seen("reset", raw, pieces)

    async def drink(self, patience_s: float) -> int:
        """Read to the end of the connection without looking at it; how many bytes came."""
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while data := await self._streams[0].read(65536):
                    size += len(data)
                    if data.endswith(b"0\r\n\r\n"):
                        break
        return size


async def ask(
    url: str,
    path: str = "/v1/completions",
    body: object = None,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    patience_s: float = 5.0,
) -> Seen:
    """One request on its own connection; with a ``body`` (JSON, or bytes as they are) it is a POST."""
    sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    try:
        async with SimClient(url) as client:
            client.send(method or ("GET" if body is None else "POST"), path, sent, headers)
            return await client.read(patience_s)
    except ConnectionRefusedError:
        return Seen("refused")


PROMPT = "1, 2, 3,"


def asking(max_tokens: int = 1, *, stream: bool = True, prompt: str = PROMPT, **more: object) -> dict[str, object]:
    """A request for completions."""
    return {"prompt": prompt, "max_tokens": max_tokens, "stream": stream, **more}
