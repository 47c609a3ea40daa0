"""The simulator's sockets: many engines behind one port by base path, or each on a port of its own."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from pulsegate.sim.admin import administer
from pulsegate.sim.connection import Connection
from pulsegate.sim.engine import EngineConfig, SimEngine

_BACKLOG = 4096
_DEAF_BACKLOG = 1


class Port:
    """One listening address that can refuse, be deaf, and listen again; the number stays ours meanwhile.

    A second socket is bound to the same port but never listens, so nobody else gets it while we refuse.
    """

    def __init__(self, host: str, number: int, tls: ssl.SSLContext | None) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._family = family
        self._host = host
        self._tls = tls
        self._keeper = self._bound(number)
        self.number: int = self._keeper.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._deaf: socket.socket | None = None

    def __repr__(self) -> str:
        state = "open" if self._server else "deaf" if self._deaf else "refusing"
        return f"Port({self._host}:{self.number}, {state})"

    def _bound(self, number: int) -> socket.socket:
        sock = socket.socket(self._family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((self._host, number))
        sock.setblocking(False)  # noqa: FBT003 - the name of its only argument is the method's
        return sock

    @property
    def url(self) -> str:
        """``http://127.0.0.1:8000``."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.number}"

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._server is not None

    async def open(self, make: Callable[[], Connection]) -> None:
        """Accept connections; those that waited while we were deaf are served."""
        if self._server is not None:
            return
        sock, self._deaf = self._deaf or self._bound(self.number), None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(make, sock=sock, backlog=_BACKLOG, ssl=self._tls)

    def refuse(self) -> None:
        """Nobody listens."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._deaf is not None:
            self._deaf.close()
            self._deaf = None

    def deafen(self) -> None:
        """The kernel takes a connection or two, we take none."""
        self.refuse()
        self._deaf = self._bound(self.number)
        self._deaf.listen(_DEAF_BACKLOG)

    def close(self) -> None:
        """Let go of the number, too."""
        self.refuse()
        self._keeper.close()


class EngineDoor:
    """An engine's hold on its connections and, where it has one, on its own port."""

    def __init__(self, server: "SimServer", engine: SimEngine, port: Port | None) -> None:
        self._server = server
        self._engine = engine
        self.port = port

    def refuse(self) -> None:
        """The port refuses; on a shared port the connection takes this part, see ``Connection``."""
        if self.port is not None:
            self.port.refuse()
            self._server.give_up(self)

    def deafen(self) -> None:
        """Connections are not accepted."""
        if self.port is not None:
            self.port.deafen()
            self._server.give_up(self)

    def open(self) -> None:
        """Accept connections, in a moment."""
        if self.port is not None and not self.port.is_open:
            self._server.open_soon(self)

    def reset_all(self) -> None:
        """Reset the engine's connections."""
        for connection in self._server.connections():
            if connection.engine is self._engine:
                connection.leave(reset=True)


class SimServer:
    """Runs engines until the ``async with`` block ends.

    With ``ports`` False all engines share one port, each below ``/e0``, ``/e1``...; with ``ports`` True each has its
    own. ``engines`` is one configuration per engine. The control interface (``/_sim``) answers on every port and on
    :attr:`admin_url`, which no engine's fault touches.
    """

    def __init__(
        self,
        engines: Iterable[EngineConfig] = (EngineConfig(),),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ports: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._configs = tuple(engines)
        self._host = host
        self._port_number = port
        self._own_ports = ports
        self._tls = tls
        self._engines: list[SimEngine] = []
        self._doors: list[EngineDoor] = []
        self._connections: set[Connection] = set()
        self._all_gone = asyncio.Event()
        self._to_open: asyncio.Queue[EngineDoor] = asyncio.Queue()
        self._wanted: set[EngineDoor] = set()
        self._opener: asyncio.Task[None] | None = None
        self._main: Port | None = None

    def __repr__(self) -> str:
        return f"SimServer({len(self._engines)} engines at {self._main})"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._main = Port(self._host, self._port_number, None if self._own_ports else self._tls)
        await self._main.open(lambda: self._connection(None))
        for index, config in enumerate(self._configs):
            engine = SimEngine(f"e{index}", config, loop)
            number = self._port_number + 1 + index if self._port_number else 0
            port = Port(self._host, number, self._tls) if self._own_ports else None
            door = EngineDoor(self, engine, port)
            engine.door = door
            self._engines.append(engine)
            self._doors.append(door)
            if port is not None:
                await port.open(lambda engine=engine: self._connection(engine))
            engine.come_up()
        # The only task there is, ended below. A TaskGroup cannot be left from another task than it was entered from,
        # which is just what test fixtures do with ``async with``.
        self._opener = loop.create_task(self._open_ports())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opener is not None:
            self._opener.cancel()
            await asyncio.gather(self._opener, return_exceptions=True)
        for engine in self._engines:
            engine.end()
        for port in (self._main, *(door.port for door in self._doors)):
            if port is not None:
                port.close()
        for connection in self.connections():
            connection.leave(reset=True)
        if self._connections:
            await self._all_gone.wait()

    # --- what tests and benchmarks use ------------------------------------------------------------------------

    def engine(self, index: int = 0) -> SimEngine:
        """The engine with this number."""
        return self._engines[index]

    @property
    def engines(self) -> tuple[SimEngine, ...]:
        """All engines."""
        return tuple(self._engines)

    def url(self, index: int = 0) -> str:
        """Where that engine is reached."""
        port = self._doors[index].port
        return port.url if port is not None else f"{self.admin_url}/e{index}"

    @property
    def admin_url(self) -> str:
        """Where ``/_sim`` always answers."""
        if self._main is None:
            raise RuntimeError("the simulator is not running; use it in an async with block")
        return self._main.url

    # --- for connections and doors ----------------------------------------------------------------------------

    def _connection(self, home: SimEngine | None) -> Connection:
        connection = Connection(self, home, self._forget_connection)
        self._connections.add(connection)
        self._all_gone.clear()
        return connection

    def _forget_connection(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._all_gone.set()

    def connections(self) -> tuple[Connection, ...]:
        """All open connections."""
        return tuple(self._connections)

    def find(self, path: str) -> tuple[SimEngine, str] | None:
        """The engine behind ``/e3/v1/models``, and ``/v1/models``."""
        name, slash, rest = path[1:].partition("/")
        if not name.startswith("e") or not name[1:].isdigit() or int(name[1:]) >= len(self._engines):
            return None
        return self._engines[int(name[1:])], slash + rest if slash else "/"

    def administer(self, method: str, path: str, query: str, body: bytes) -> tuple[int, bytes]:
        """Answer ``/_sim``."""
        urls = [self.url(index) for index in range(len(self._engines))]
        return administer(self._engines, urls, method=method, path=path, query=query, body=body)

    def open_soon(self, door: EngineDoor) -> None:
        """Let the opener open this port."""
        self._wanted.add(door)
        self._to_open.put_nowait(door)

    def give_up(self, door: EngineDoor) -> None:
        """It should not be opened after all."""
        self._wanted.discard(door)

    async def _open_ports(self) -> None:
        while True:
            door = await self._to_open.get()
            if door in self._wanted and door.port is not None:
                self._wanted.discard(door)
                index = self._doors.index(door)
                await door.port.open(lambda index=index: self._connection(self._engines[index]))
