"""One connection to a Redis. Whatever goes wrong with it comes out as ``Gone``, which says why and holds no secret.

redis-py's ``Connection`` and not its clients: these reconnect and ask again by themselves, and whoever must know
exactly what it has heard and said cannot use that. A connection that failed once is closed and not used again.
"""

import asyncio
import math
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TypedDict, cast

from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import AuthenticationError, NoScriptError, RedisError

from pulsegate.core.coordination import RedisAddress, RedisSpec
from pulsegate.core.fleet import TlsSpec
from pulsegate.trust import client_context

CALL_TIMEOUT_S = 1.0
_LONGEST_WHY = 200
_KEEPALIVE = {
    option: value
    for name, value in (("TCP_KEEPIDLE", 1), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 1), ("TCP_USER_TIMEOUT", 2000))
    if (option := getattr(socket, name, None)) is not None
}
"""A host that is gone is noticed within two seconds, also by a connection on which nothing is said."""

Word = str | bytes | int
Place = RedisAddress | str
"""An address, or the path of a Unix socket."""


class Gone(Exception):  # noqa: N818 - told to people as it stands: "redis at host:port: ..."
    """The backend cannot be worked with now."""


class Line:
    """An open connection on which one asks and is answered, or listens."""

    def __init__(self, connection: AbstractConnection, place: Place, secret: str | None) -> None:
        self._connection = connection
        self._secret = secret
        self.name = f"redis at {place}"

    def __repr__(self) -> str:
        return f"Line({self.name})"

    async def open(self) -> None:
        """Connect and authenticate.

        Raises:
            Gone: it does not work.
        """
        with self.blame():
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._connection.connect()  # pyright: ignore[reportUnknownMemberType] - untyped there

    async def ask(self, *words: Word) -> object:
        """The answer to one command; errors that it gives are raised as they are: see ``blame``."""
        async with asyncio.timeout(CALL_TIMEOUT_S):
            await self._connection.send_command(*words)
            return cast("object", await self._connection.read_response())

    async def run(self, sha: str, source: str, *words: Word) -> object:
        """The answer of a script, which the server may know already.

        Raises:
            Gone: no answer.
        """
        with self.blame():
            try:
                return await self.ask("EVALSHA", sha, *words)
            except NoScriptError:
                return await self.ask("EVAL", source, *words)

    async def say(self, *words: Word) -> None:
        """Send a command to whose answer somebody else listens.

        Raises:
            Gone: it cannot be sent.
        """
        with self.blame():
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._connection.send_command(*words)

    async def hear(self) -> list[object]:
        """The next message, whenever it comes.

        Raises:
            Gone: there will be none.
        """
        with self.blame():
            return cast("list[object]", await self._connection.read_response(timeout=math.inf))

    async def close(self) -> None:
        """Close without waiting for the other side."""
        await self._connection.disconnect(nowait=True)

    @contextmanager
    def blame(self) -> Generator[None, None, None]:
        """Turns what redis-py and the sockets raise into ``Gone``."""
        try:
            yield
        except TimeoutError as exc:
            raise Gone(f"{self.name}: no answer within {CALL_TIMEOUT_S:g} s") from exc
        except (RedisError, OSError) as exc:
            raise Gone(f"{self.name}: {self._reason(exc)}") from exc

    def _reason(self, exc: Exception) -> str:
        if isinstance(exc, AuthenticationError):
            return "it refuses this user or password"
        text = " ".join(str(exc).split()) or type(exc).__name__
        if self._secret:
            text = text.replace(self._secret, "***")
        return text[:_LONGEST_WHY]


@asynccontextmanager
async def open_line(place: Place, spec: RedisSpec, *, anonymous: bool = False) -> AsyncGenerator[Line, None]:
    """A connection that is closed at the end.

    Args:
        place: where to.
        spec: user, password, database and TLS.
        anonymous: without user, password and database.

    Raises:
        Gone: it does not work.
    """
    password = None if anonymous else spec.password
    settings = _Settings(
        username=None if anonymous else spec.username,
        password=password,
        db=0 if anonymous else spec.db,
        protocol=2,
        socket_timeout=None,
        socket_connect_timeout=CALL_TIMEOUT_S,
        driver_info=None,
    )
    try:
        line = Line(_connection(place, spec.tls, settings), place, password)
    except OSError as exc:
        raise Gone(f"cannot use the TLS files for redis: {exc.strerror or exc}") from exc
    try:
        await line.open()
        yield line
    finally:
        await line.close()


class _Settings(TypedDict):
    """Of every connection.

    No time-out of redis-py's own, because ours bounds the whole call; no ``driver_info``, because telling the server
    about the client would need one more permission.
    """

    username: str | None
    password: str | None
    db: int
    protocol: int
    socket_timeout: float | None
    socket_connect_timeout: float
    driver_info: None


def _connection(place: Place, tls: TlsSpec | None, settings: _Settings) -> AbstractConnection:
    if isinstance(place, str):
        return UnixDomainSocketConnection(path=place, **settings)
    host, port = place
    if tls is None:
        return Connection(host=host, port=port, socket_keepalive_options=_KEEPALIVE, **settings)
    connection = SSLConnection(host=host, port=port, socket_keepalive_options=_KEEPALIVE, **settings)
    # redis-py would trust the system's authorities beside the one that is named
    connection.ssl_context.context = client_context(tls, alpn=())
    return connection
