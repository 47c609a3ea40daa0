"""Serves the admin application on sockets of ours, in the running event loop, without touching signals."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncGenerator, Generator

import uvicorn

from pulsegate.status.request_id import AsgiApp

BACKLOG = 256
GRACE_S = 2  # for requests in progress when we stop


class ListenError(Exception):
    """An address cannot be listened on; the message says why and what to do."""


class AddressInUseError(ListenError):
    """Somebody listens there; ``address`` is the literal IP and the port that it came to."""

    def __init__(self, message: str, address: tuple[str, int]) -> None:
        super().__init__(message)
        self.address = address


def listen(host: str, port: int, setting: str) -> socket.socket:
    """A listening socket; port 0 takes a free one. ``setting`` is what the operator calls this address.

    Raises:
        AddressInUseError: the address is taken.
        ListenError: it is not ours, or not allowed.
    """
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = infos[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as exc:
        raise ListenError(f"{setting}: cannot listen on {host}:{port}: {exc.strerror}") from exc
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)  # noqa: FBT003 - the socket API
    except OSError as exc:
        sock.close()
        message = f"{setting}: cannot listen on {host}:{port}: {_advice(exc)}"
        if exc.errno == errno.EADDRINUSE:
            raise AddressInUseError(message, (str(address[0]), int(address[1]))) from exc
        raise ListenError(message) from exc
    return sock


def base_url(sock: socket.socket) -> str:
    """Where a client on this machine reaches a listening socket."""
    host, port = sock.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - a comparison: nothing is bound here
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.asynccontextmanager
async def serving(app: AsgiApp, sock: socket.socket) -> AsyncGenerator[None]:
    """Serve ``app`` on ``sock`` while the context is open; then finish what is in progress, for at most 2 s."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.serve(sockets=[sock]))
        try:
            yield
        finally:
            server.should_exit = True
            await asyncio.wait([task])


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals belong to the process, not to its admin port."""
        yield


def _advice(exc: OSError) -> str:
    match exc.errno:
        case errno.EADDRINUSE:
            return "the address is in use; stop what listens there or choose another port"
        case errno.EADDRNOTAVAIL:
            return "no interface of this machine has that address"
        case errno.EACCES:
            return "not allowed; ports below 1024 need privileges"
        case _:
            return exc.strerror or str(exc)
