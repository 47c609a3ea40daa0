"""From an address to an open connection: resolve, connect, TLS; each step stamped and bounded by the deadline."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterable
from itertools import zip_longest

from pulsegate.core.fleet import TlsSpec
from pulsegate.core.probe import Fault, FaultClass, Phases
from pulsegate.engines.blame import connect_fault, handshake_fault, local_fault, resolve_fault
from pulsegate.engines.connection import Connection
from pulsegate.engines.redaction import presentable
from pulsegate.engines.target import Target
from pulsegate.engines.trust import client_context

_MAX_ADDRESSES = 4
_STALE_GRACE_S = 0.1  # a resolver slower than that is not waited for when an earlier answer is at hand


class Stamps:
    """When each step of one dialling was done, in seconds since ``start``, which is now on the clock that is given."""

    __slots__ = ("connect_s", "dns_s", "loop", "now", "start", "tls_s")

    def __init__(self, *, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self.loop = loop
        self.now = now
        self.start = now()
        self.dns_s: float | None = None
        self.connect_s: float | None = None
        self.tls_s: float | None = None

    def since_start_s(self) -> float:
        """How long ago the exchange began."""
        return self.now() - self.start

    def phases(self) -> Phases:
        """The phases of an exchange that got no further than dialling."""
        return Phases(dns_s=self.dns_s, connect_s=self.connect_s, tls_s=self.tls_s, end_s=self.since_start_s())


class DialError(Exception):
    """No connection; ``fault`` is why, or None when the deadline passed during the TLS handshake.

    A server that accepts and then says nothing is late, not misconfigured: that is no fault of TLS.
    """

    def __init__(self, fault: Fault | None, *, deadline_hit: bool = False) -> None:
        super().__init__(fault.detail if fault else "late")
        self.fault = fault
        self.deadline_hit = deadline_hit


class Dialler:
    """Opens connections to one target. Remembers which address worked, and the last answer of the resolver."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: tuple[str, ...] = (target.host,) if target.literal else ()

    async def dial(self, make: Callable[[], Connection], stamps: Stamps, deadline_s: float) -> Connection:
        """A connection that is ready for a request.

        Raises:
            DialError: with the fault.
        """
        until = stamps.loop.time() + deadline_s - stamps.since_start_s()
        if self._target.unix_path is not None:
            connection = await self._unix(self._target.unix_path, make, until)
        else:
            addresses = await self._resolve(until)
            if not self._target.literal:
                stamps.dns_s = stamps.since_start_s()
            connection = await self._first(addresses, make, until)
        stamps.connect_s = stamps.since_start_s()
        if self._target.tls is not None:
            await self._secure(connection, self._target.tls, until)
            stamps.tls_s = stamps.since_start_s()
        return connection

    async def _resolve(self, until: float) -> tuple[str, ...]:
        """Addresses to try. An earlier answer serves when the resolver fails or is slow."""
        if self._target.literal:
            return self._known
        loop = asyncio.get_running_loop()
        host = self._target.host
        patience = min(until, loop.time() + _STALE_GRACE_S) if self._known else until
        try:
            async with asyncio.timeout_at(patience):
                found = await loop.getaddrinfo(host, self._target.port, type=socket.SOCK_STREAM)
        except TimeoutError as exc:
            if not self._known:
                fault = Fault(kind=FaultClass.UNREACHABLE, detail=f"the name {host} was not resolved in time")
                raise DialError(fault, deadline_hit=True) from exc
        except (OSError, UnicodeError) as exc:
            if not self._known:
                fault = resolve_fault(exc, host) if isinstance(exc, OSError) else local_fault(f"bad host name {host}")
                raise DialError(fault) from exc
        else:
            self._known = _in_turn(((info[0], str(info[4][0])) for info in found), self._known)
        return self._known

    async def _first(self, addresses: tuple[str, ...], make: Callable[[], Connection], until: float) -> Connection:
        """Try the addresses one after the other, each with an equal share of the time that is left."""
        loop = asyncio.get_running_loop()
        worst: DialError | None = None
        for tried, address in enumerate(addresses):
            share_s = max(0.0, until - loop.time()) / (len(addresses) - tried)
            try:
                connection = await self._connect(address, make, loop.time() + share_s)
            except DialError as exc:
                # REFUSED says more than UNREACHABLE: a host is there and nothing listens
                refused = worst is not None and worst.fault is not None and worst.fault.kind is FaultClass.REFUSED
                worst = worst if refused else exc
            else:
                self._known = (address, *(other for other in self._known if other != address))
                return connection
        if worst is None:
            worst = DialError(Fault(kind=FaultClass.UNREACHABLE, detail=f"{self._target.host} has no address"))
        raise worst

    async def _connect(self, address: str, make: Callable[[], Connection], until: float) -> Connection:
        loop = asyncio.get_running_loop()
        port = self._target.port
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        connection = make()
        opening = loop.create_connection(lambda: connection, address, port)
        return await self._open(connection, opening, place, until)

    async def _unix(self, path: str, make: Callable[[], Connection], until: float) -> Connection:
        loop = asyncio.get_running_loop()
        connection = make()
        opening = loop.create_unix_connection(lambda: connection, path)
        return await self._open(connection, opening, f"unix:{path}", until)

    async def _open(
        self, connection: Connection, opening: Coroutine[object, object, object], place: str, until: float
    ) -> Connection:
        try:
            async with asyncio.timeout_at(until):
                await opening
        except BaseException as exc:
            # the time can run out between the connection and the task that waits for it; uvloop then closes the socket
            # but does not tell the protocol
            connection.abandon()
            if isinstance(exc, TimeoutError):
                fault = Fault(kind=FaultClass.UNREACHABLE, detail=presentable(f"{place}: no connection in time"))
                raise DialError(fault, deadline_hit=True) from exc
            if isinstance(exc, OSError):
                raise DialError(connect_fault(exc, place, unix=self._target.unix_path is not None)) from exc
            raise
        return connection

    async def _secure(self, connection: Connection, spec: TlsSpec, until: float) -> None:
        try:
            connection.transport = await self._handshake(connection, spec, until)
        except BaseException:
            # the loop does not tell a protocol whose handshake failed that it lost its connection
            connection.abandon()
            raise

    async def _handshake(self, connection: Connection, spec: TlsSpec, until: float) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        try:
            context = client_context(spec)
        except OSError as exc:
            raise DialError(local_fault(f"cannot use the TLS files: {exc.strerror or exc}")) from exc
        if not connection.open:
            raise DialError(handshake_fault(ConnectionResetError()))
        name = spec.server_name or self._target.host.partition("%")[0]
        try:
            async with asyncio.timeout_at(until):
                transport = await loop.start_tls(connection.transport, connection, context, server_hostname=name)
        except TimeoutError as exc:
            raise DialError(None, deadline_hit=True) from exc
        except OSError as exc:
            raise DialError(handshake_fault(exc)) from exc
        if transport is None:
            raise DialError(handshake_fault(ConnectionResetError()))
        return transport


def _in_turn(found: Iterable[tuple[int, str]], known: tuple[str, ...]) -> tuple[str, ...]:
    """Addresses in the order to try: the one that worked last time, then the families in turn (RFC 8305, section 4)."""
    families: dict[int, list[str]] = {}
    for family, address in found:
        families.setdefault(family, []).append(address)
    woven = (address for rank in zip_longest(*families.values()) for address in rank if address is not None)
    ordered = dict.fromkeys(woven)
    last_good = [address for address in known[:1] if address in ordered]
    return tuple(dict.fromkeys([*last_good, *ordered]))[:_MAX_ADDRESSES]
