"""One HTTP request over a real socket, without a client library: tests see the bytes that a server sent."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def request(
    base_url: str, path: str, *, method: str = "GET", headers: dict[str, str] | None = None, timeout_s: float = 10.0
) -> Answer:
    """``path`` goes out as it is, so percent-encoding is the test's own."""
    async with asyncio.timeout(timeout_s):
        reader, writer = await connect(base_url, path, method=method, headers=headers)
        try:
            return await read_answer(reader)
        finally:
            writer.close()


async def connect(
    base_url: str, path: str, *, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request and leave its answer to the caller."""
    url = urlsplit(base_url)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    lines = [f"{method} {path} HTTP/1.1", f"host: {url.netloc}", "connection: close", "content-length: 0"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    await writer.drain()
    return reader, writer


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), headers


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """An answer with a content length, or one that ends with the connection."""
    status, headers = await read_head(reader)
    length = headers.get("content-length")
    body = await (reader.read() if length is None else reader.readexactly(int(length)))
    return Answer(status, headers, body)
