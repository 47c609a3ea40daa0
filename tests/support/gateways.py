"""A gateway in this process, a client that reads strictly (h11), and what an endpoint may answer."""

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import h11

from pulsegate.core.events import TrafficSeen
from pulsegate.core.figures import WorkerFigures
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.provider_status import ProviderSeen
from pulsegate.core.snapshot import EndpointView, PoolView, Snapshot
from pulsegate.gateway.server import Gateway
from pulsegate.gateway.setup import EndpointSetup, Limits, PoolSetup, RouteSetup, Setup

MODEL = "small"
POOL = PoolName("pool")
CHAT = "/v1/chat/completions"


async def until(happened: Callable[[], object], *, patience_s: float = 5.0) -> None:
    """Come back when it has happened; fails when it does not."""
    async with asyncio.timeout(patience_s):
        while not happened():  # noqa: ASYNC110 - what is waited for happens in sockets, which set no event
            await asyncio.sleep(0.002)


@asynccontextmanager
async def under_way(work: Coroutine[Any, Any, "Reply"]) -> AsyncIterator["asyncio.Task[Reply]"]:
    """Run this while the block runs; a task that is left running is waited for."""
    async with asyncio.TaskGroup() as tasks:
        yield tasks.create_task(work)


@dataclass
class Heard:
    """A sink that remembers."""

    seen: list[TrafficSeen] = field(default_factory=list)
    latest: WorkerFigures | None = None
    provider_news: list[ProviderSeen] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    pings: bool = False

    def traffic(self, seen: Sequence[TrafficSeen]) -> None:
        self.seen += seen

    def figures(self, figures: WorkerFigures) -> None:
        self.latest = figures

    def providers(self, seen: Sequence[ProviderSeen]) -> None:
        self.provider_news += seen

    def ask_ping(self, ask: int) -> bool:
        self.asked.append(ask)
        return self.pings

    def total(self, what: str) -> int:
        return sum(getattr(report, what) for report in self.seen)


def endpoint(port: int, name: str | None = None, **more: Any) -> EndpointSetup:
    name = name or f"e{port}"
    return EndpointSetup(id=EndpointId(name), host="127.0.0.1", port=port, host_header=f"127.0.0.1:{port}", **more)


def pool(*ports: int, name: str = POOL, **more: Any) -> PoolSetup:
    return PoolSetup(name=PoolName(name), endpoints=tuple(endpoint(port) for port in ports), **more)


def setup_of(*pools: PoolSetup, limits: Limits | None = None, **more: Any) -> Setup:
    """One public model, served by these pools in order."""
    route = RouteSetup(name=MODEL, tiers=tuple(each.name for each in pools))
    return Setup(pools=pools, routes=(route,), limits=limits or Limits(), **more)


def view(port: int, **more: Any) -> EndpointView:
    fields: dict[str, Any] = {
        "id": EndpointId(f"e{port}"),
        "state": State.HEALTHY,
        "reason": Reason.OK,
        "weight": 100,
        "low_only": False,
        "max_inflight": None,
        "ejected": False,
        "suspect": False,
        "incarnation": Incarnation(1),
    }
    return EndpointView(**{**fields, **more})


def ejected(port: int) -> EndpointView:
    return view(port, state=State.UNHEALTHY, reason=Reason.HUNG, weight=0, ejected=True)


def snapshot(
    *views: EndpointView, version: int = 1, name: str = POOL, down: bool = False, starting: bool = False
) -> Snapshot:
    pool_view = PoolView(name=PoolName(name), endpoints=views, down=down, starting=starting)
    return Snapshot(version=version, pools=(pool_view,))


@dataclass
class Running:
    """A gateway that is open."""

    gateway: Gateway
    port: int
    heard: Heard
    client_tls: ssl.SSLContext | None = None

    async def ask(self, *args: Any, **how: Any) -> "Reply":
        """One request on a connection of its own."""
        async with Client(self.port, self.client_tls) as client:
            return await client.ask(*args, **how)

    async def idle(self) -> None:
        """Come back when nothing is held for anyone."""
        await until(lambda: self.gateway.idle)


@asynccontextmanager
async def running(
    setup: Setup, known: Snapshot | None = None, client_tls: ssl.SSLContext | None = None
) -> AsyncIterator[Running]:
    """An open gateway. On leaving it asserts that no request, seat or booking is left."""
    heard = Heard()
    gateway = Gateway(setup, known, heard)
    listener = socket.create_server(("127.0.0.1", 0))
    async with gateway.open(listener):
        run = Running(gateway, listener.getsockname()[1], heard, client_tls)
        yield run
        await run.idle()


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    times: list[float]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["error"]["code"]

    @property
    def events(self) -> list[str]:
        """The data of each event, comments left out."""
        found = [part for part in self.body.replace(b"\r\n", b"\n").decode().split("\n\n") if part]
        return [part.removeprefix("data:").strip() for part in found if part.startswith("data:")]

    @property
    def text(self) -> str:
        """What a stream's deltas come to."""
        chunks = [json.loads(event) for event in self.events if event != "[DONE]"]
        return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk.get("choices", ()))

    @property
    def last_error(self) -> str | None:
        """The code of the error event that ended the stream, if one did."""
        last = json.loads(self.events[-1]) if self.events and self.events[-1] != "[DONE]" else {}
        return last.get("error", {}).get("code")


class Client:
    """One connection to a gateway. h11 checks the framing of all that comes."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._port = port
        self._tls = tls
        self._http = h11.Connection(h11.CLIENT)

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._tls)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.writer.transport.abort()

    async def ask(
        self, body: Any = None, *, path: str = CHAT, method: str = "POST", headers: dict[str, str] | None = None
    ) -> Reply:
        """Send a request (``body``: bytes, or what becomes JSON) and read its answer."""
        if self._http.our_state is h11.DONE:
            self._http.start_next_cycle()
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"host": "gateway", "content-type": "application/json", "content-length": str(len(data))}
        fields |= {name.lower(): value for name, value in (headers or {}).items()}
        self._send(h11.Request(method=method, target=path, headers=list(fields.items())))
        if data:
            self._send(h11.Data(data=data))
        self._send(h11.EndOfMessage())
        async with asyncio.timeout(20):
            return await self.reply()

    def _send(self, event: Any) -> None:
        self.writer.write(self._http.send(event) or b"")

    async def reply(self) -> Reply:
        loop = asyncio.get_running_loop()
        reply = Reply(0, {}, b"", whole=False, times=[])
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                try:
                    data = await self.reader.read(65536)
                except ConnectionError:
                    return reply
                try:
                    self._http.receive_data(data)
                    if not data:
                        event = self._http.next_event()
                except h11.RemoteProtocolError:
                    return reply  # cut off in the middle
                if not data and not isinstance(event, h11.EndOfMessage):
                    return reply
            if isinstance(event, h11.Response):
                reply.status = event.status_code
                reply.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                reply.body += bytes(event.data)
                reply.times.append(loop.time())
            elif isinstance(event, h11.EndOfMessage):
                reply.whole = True
                return reply

    async def raw(self, data: bytes, *, patience_s: float = 2.0) -> bytes:
        """Send bytes as they are and read until the gateway closes."""
        self.writer.write(data)
        return await self.rest(patience_s=patience_s)

    async def rest(self, *, patience_s: float = 2.0) -> bytes:
        async with asyncio.timeout(patience_s):
            parts: list[bytes] = []
            try:
                while data := await self.reader.read(65536):
                    parts.append(data)
            except ConnectionError:
                pass
            return b"".join(parts)


# what an endpoint may answer


def ask_for(*, stream: bool = False, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
    if stream:
        fields["stream"] = True
    return {**fields, **more}


def json_answer(fields: Any = None, *, status: str = "200 OK", headers: str = "") -> bytes:
    if fields is None:
        message = {"role": "assistant", "content": "Hi"}
        usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
        fields = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
    body = fields if isinstance(fields, bytes) else json.dumps(fields).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


def delta(finish: str | None = None, **fields: Any) -> bytes:
    """One event of a chat stream."""
    return event({"id": "x", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


ROLE = delta(role="assistant", content="")
DONE = b"data: [DONE]\n\n"
USAGE = event({"id": "x", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})


def stream_answer(*texts: str, usage: bool = False) -> bytes:
    """A whole stream, each event in a chunk of its own."""
    events = [ROLE, *(delta(content=text) for text in texts), delta("stop")]
    if usage:
        events.append(USAGE)
    return STREAM_HEAD + b"".join(chunk(each) for each in [*events, DONE]) + END


TOOL_ANSWER = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
            },
            "finish_reason": "tool_calls",
        }
    ],
}
