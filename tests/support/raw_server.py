"""A server of scripted bytes on 127.0.0.1: each connection plays one script; what it saw is kept for assertions."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

# the steps of a script


@dataclass(frozen=True)
class Send:
    """Write these bytes; with ``piece`` in pieces of that many bytes, each its own segment."""

    data: bytes
    piece: int | None = None


@dataclass(frozen=True)
class Flood:
    """Write these bytes over and over, until the client is gone or ``times`` is reached."""

    data: bytes
    times: int = 1_000_000


@dataclass(frozen=True)
class Wait:
    """Do nothing for that long."""

    seconds: float


@dataclass(frozen=True)
class Request:
    """Read one whole request (head and Content-Length) and keep it."""


@dataclass(frozen=True)
class Reset:
    """End the connection with RST."""


@dataclass(frozen=True)
class Close:
    """End the connection with FIN."""


@dataclass(frozen=True)
class Hang:
    """Say nothing more until the client goes."""


Step = Send | Flood | Wait | Request | Reset | Close | Hang


@dataclass
class Seen:
    """What one connection saw."""

    requests: list[bytes] = field(default_factory=list)
    sent_bytes: int = 0
    closed_after_s: float | None = None  # when the client's end was noticed, since the last scripted step


class RawServer:
    """Plays ``scripts`` in turn, one per connection; the last one is repeated."""

    def __init__(self, scripts: Iterable[Iterable[Step]], tls: ssl.SSLContext | None) -> None:
        self._scripts = [tuple(script) for script in scripts]
        self._tls = tls
        self._writers: set[asyncio.StreamWriter] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.connections: list[Seen] = []
        self.port = 0

    @property
    def open_connections(self) -> int:
        """How many are not closed yet, seen from this side."""
        return len(self._writers)

    async def all_closed(self) -> None:
        """Come back when no connection is left; the test's own time limit bounds it."""
        async with asyncio.timeout(10):
            await self._idle.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = Seen()
        script = self._scripts[min(len(self.connections), len(self._scripts) - 1)]
        self.connections.append(seen)
        self._writers.add(writer)
        self._idle.clear()
        loop = asyncio.get_running_loop()
        try:
            for step in script:
                await self._play(step, reader, writer, seen)
            done = loop.time()
            if not any(isinstance(step, Reset) for step in script):
                while await reader.read(65536):
                    pass
            seen.closed_after_s = loop.time() - done
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            if not self._writers:
                self._idle.set()

    async def _play(self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Seen) -> None:
        match step:
            case Send(data=data, piece=piece):
                size = piece or len(data) or 1
                for start in range(0, len(data), size):
                    writer.write(data[start : start + size])
                    await writer.drain()
                    if piece:
                        await asyncio.sleep(0)
                seen.sent_bytes += len(data)
            case Flood(data=data, times=times):
                for _ in range(times):
                    writer.write(data)
                    await writer.drain()
                    seen.sent_bytes += len(data)
            case Wait(seconds=seconds):
                await asyncio.sleep(seconds)
            case Request():
                seen.requests.append(await read_request(reader))
            case Reset():
                sock = writer.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            case Close():
                writer.close()
            case Hang():
                pass


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Head and body of one request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head + await reader.readexactly(length)


@asynccontextmanager
async def raw_server(
    *scripts: Iterable[Step], tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", unix_path: str | None = None
) -> AsyncIterator[RawServer]:
    """A listening server. On leaving it asserts that the client left no connection behind."""
    raw = RawServer(scripts, tls)
    if unix_path is None:
        server = await asyncio.start_server(raw.serve, host, 0, ssl=tls)
        raw.port = server.sockets[0].getsockname()[1]
    else:
        server = await asyncio.start_unix_server(raw.serve, unix_path)
    try:
        yield raw
        await raw.all_closed()
    finally:
        server.close()
