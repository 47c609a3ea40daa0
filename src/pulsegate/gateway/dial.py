"""Opens connections to one endpoint: TCP, TLS or a Unix socket; classifies why it could not."""

import asyncio
import errno
import ssl
from collections.abc import Callable

from pulsegate.core.rescue import FailureKind
from pulsegate.core.tls_hint import USE_HTTP, is_no_tls
from pulsegate.gateway.setup import EndpointSetup
from pulsegate.gateway.upstream import UpstreamConnection

_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})


class DialError(Exception):
    """No connection: ``kind`` says whose fault it is, the message why."""

    def __init__(self, kind: FailureKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


async def dial(
    endpoint: EndpointSetup,
    context: ssl.SSLContext | None,
    make: Callable[[], UpstreamConnection],
    timeout_s: float,
) -> UpstreamConnection:
    """A connection to this endpoint; ``context`` is ``client_context`` of its TLS settings, None for plain HTTP.

    Raises:
        DialError: it could not be made in time.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout_s):
            if endpoint.unix_path is not None:
                _, conn = await loop.create_unix_connection(make, endpoint.unix_path)
            else:
                name = None if endpoint.tls is None else endpoint.tls.server_name or endpoint.host
                _, conn = await loop.create_connection(
                    make, endpoint.host, endpoint.port, ssl=context, server_hostname=name
                )
    except TimeoutError as exc:
        raise DialError(FailureKind.CONNECT, f"no connection within {timeout_s:g} s") from exc
    except OSError as exc:  # ssl.SSLError and socket.gaierror are among them
        kind = FailureKind.LOCAL if exc.errno in _OURS else FailureKind.CONNECT
        raise DialError(kind, _reason(exc)) from exc
    return conn


def _reason(exc: OSError) -> str:
    if isinstance(exc, ssl.SSLError) and is_no_tls(exc.reason):
        return USE_HTTP
    return f"{type(exc).__name__}: {exc}"[:200]
