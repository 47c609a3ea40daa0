"""One worker's data plane: runs on the event loop that it was opened on."""

import socket
from contextlib import AbstractAsyncContextManager

from pulsegate.core.snapshot import Snapshot
from pulsegate.gateway.setup import Setup
from pulsegate.gateway.sink import NullSink, Sink


class Gateway:
    """Serves users' requests. Owns its sockets; knows nothing of the control process but ``Sink`` and the snapshots.

    Usage::

        gateway = Gateway(setup, snapshot, sink)
        async with gateway.open(listener):    # an already bound and listening socket; everything is closed at the end
            gateway.follow(snapshot)          # latest wins, synchronous, takes effect at once
            gateway.reconfigure(setup)
            await gateway.drain(timeout_s)    # no new connections; returns when the last request is over or time is up
    """

    def __init__(self, setup: Setup, snapshot: Snapshot | None, sink: Sink | None = None) -> None:
        """``snapshot`` None: every configured endpoint may serve until the first snapshot comes.

        Raises:
            ValueError: the setup contradicts itself (a route without its pool) or the keys file cannot be read.
        """
        self._setup = setup
        self._snapshot = snapshot
        self._sink: Sink = sink or NullSink()

    def open(self, listener: socket.socket) -> AbstractAsyncContextManager[None]:
        """Accept while the context is entered, once, on the running loop; at its end everything is closed at once."""
        raise NotImplementedError

    def follow(self, snapshot: Snapshot) -> None:
        """Route by this snapshot from now on; requests that wait on newly ejected endpoints move at once."""
        raise NotImplementedError

    def reconfigure(self, setup: Setup) -> None:
        """Take over a new setup: requests under way end as they began.

        Raises:
            ValueError: it contradicts itself; the old one stays.
        """
        raise NotImplementedError

    async def drain(self, timeout_s: float) -> int:
        """Stop accepting, close idle connections, let requests end; returns how many were cut off at the timeout."""
        raise NotImplementedError

    def __repr__(self) -> str:
        version = None if self._snapshot is None else self._snapshot.version
        return f"Gateway(routes={len(self._setup.routes)}, snapshot={version})"
