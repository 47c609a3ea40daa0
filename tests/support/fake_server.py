"""A small HTTP server on 127.0.0.1 whose answers a test chooses by path; what it was asked is kept for assertions."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer: the head after ``head_delay_s``, then each piece after its delay, then the end (or a hang or cut).

    ``close``: "" keeps the connection, "hang" leaves the body open, "cut" resets in the middle of it.
    """

    status: int = 200
    kind: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    pieces: tuple[tuple[float, bytes], ...] = ()
    head_delay_s: float = 0.0
    ending: str = ""


def page(value: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    """A JSON answer."""
    return Reply(status=status, headers=headers, pieces=((0.0, json.dumps(value).encode()),))


def text(body: str, status: int = 200) -> Reply:
    """A text answer."""
    return Reply(status=status, kind="text/plain", pieces=((0.0, body.encode()),))


def stream(*payloads: str, delay_s: float = 0.0, ending: str = "", head_delay_s: float = 0.0) -> Reply:
    """An event stream; each event comes ``delay_s`` after the one before."""
    pieces = tuple((delay_s, f"data: {payload}\n\n".encode()) for payload in payloads)
    return Reply(kind="text/event-stream", pieces=pieces, ending=ending, head_delay_s=head_delay_s)


def lines(*payloads: str) -> Reply:
    """One JSON object a line."""
    return Reply(kind="application/x-ndjson", pieces=tuple((0.0, f"{payload}\n".encode()) for payload in payloads))


HANG = Reply(head_delay_s=3600.0)
NOT_FOUND = page({"detail": "Not Found"}, 404)

Route = Reply | Callable[[Asked], Reply]


@dataclass
class FakeServer:
    """``routes`` maps ``"POST /path"`` to an answer or to a function that makes one; anything else is 404."""

    routes: dict[str, Route]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    left_early: int = 0
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _alone: asyncio.Event = field(default_factory=asyncio.Event)

    def paths(self) -> list[str]:
        return [f"{asked.method} {asked.path}" for asked in self.asked]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        self._writers.add(writer)
        self._alone.clear()
        try:
            while (asked := await _request(reader)) is not None:
                self.asked.append(asked)
                route = self.routes.get(f"{asked.method} {asked.path}", NOT_FOUND)
                if not await self._answer(route if isinstance(route, Reply) else route(asked), reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left_early += 1
        finally:
            self.open_connections -= 1
            self._writers.discard(writer)
            writer.close()
            if not self._writers:
                self._alone.set()

    async def left_alone(self) -> None:
        """Every connection that was opened has ended; two seconds are long enough."""
        async with asyncio.timeout(2.0):
            await self._alone.wait()

    async def close(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.transport.abort()
        if self._writers:
            await self.left_alone()

    async def _answer(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if not await _idle(reader, reply.head_delay_s):
            self.left_early += 1
            return False
        head = [f"HTTP/1.1 {reply.status} X", f"content-type: {reply.kind}", "transfer-encoding: chunked"]
        head += [f"{name}: {value}" for name, value in reply.headers]
        writer.write("\r\n".join([*head, "", ""]).encode())
        for delay_s, piece in reply.pieces:
            if delay_s and not await _idle(reader, delay_s):
                self.left_early += 1
                return False
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if reply.ending == "hang":
            await _idle(reader, 3600.0)
            self.left_early += 1
            return False
        if reply.ending == "cut":
            writer.transport.abort()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    start, *fields = head.decode().strip().split("\r\n")
    method, path, _ = start.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in fields)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method=method, path=path, headers=headers, body=body)


async def _idle(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Wait; False if the client went in the meantime. A client that waits for an answer sends nothing."""
    if seconds <= 0.0:
        return True
    try:
        async with asyncio.timeout(seconds):
            await reader.read(1)
    except TimeoutError:
        return True
    return False


@asynccontextmanager
async def fake_server(
    routes: dict[str, Route], port: int = 0, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[FakeServer]:
    """Listens until the block ends."""
    fake = FakeServer(routes)
    server = await asyncio.start_server(fake.serve, "127.0.0.1", port, ssl=tls)
    fake.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        server.close()
        await fake.close()
