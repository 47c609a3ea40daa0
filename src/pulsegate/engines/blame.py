"""Whose fault a failed socket, handshake or parse is: exceptions of the transport become one :class:`Fault`.

Does not judge answers; what an engine says in status and body is classified by the dialects.
"""

import errno
import os
import socket
import ssl

from pulsegate.core.probe import Fault, FaultClass
from pulsegate.core.tls_hint import USE_HTTP, is_no_tls
from pulsegate.engines.redaction import presentable

CLOSED_BY_US = "closed by the prober"

_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL})
_REFUSED = frozenset({errno.ECONNREFUSED, errno.ENOENT})
_CUT = frozenset({errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE})


def local_fault(detail: str) -> Fault:
    """Our own fault."""
    return Fault(kind=FaultClass.LOCAL, detail=presentable(detail))


def protocol_fault(detail: str, status: int | None = None) -> Fault:
    """The peer broke HTTP or a limit."""
    return Fault(kind=FaultClass.PROTOCOL, detail=presentable(detail), status=status)


def closed_fault(detail: str, status: int | None = None) -> Fault:
    """The connection ended before the answer was whole."""
    return Fault(kind=FaultClass.CLOSED, detail=presentable(detail), status=status)


def resolve_fault(exc: OSError, host: str) -> Fault:
    """The name was not resolved."""
    if isinstance(exc, socket.gaierror):
        if exc.errno == socket.EAI_MEMORY:
            return local_fault(f"no memory to resolve {host}")
        return Fault(kind=FaultClass.UNREACHABLE, detail=presentable(f"cannot resolve {host}: {exc.strerror}"))
    return connect_fault(exc, host)


def connect_fault(exc: OSError, place: str, *, unix: bool = False) -> Fault:
    """No connection to ``place`` came about."""
    reason = f"{place}: {_reason(exc)}"
    if exc.errno in _OURS or (unix and exc.errno in (errno.EACCES, errno.EPERM)):
        return local_fault(reason)
    if exc.errno in _REFUSED:
        return Fault(kind=FaultClass.REFUSED, detail=presentable(reason))
    if exc.errno in _CUT:
        return closed_fault(reason)
    return Fault(kind=FaultClass.UNREACHABLE, detail=presentable(reason))


def handshake_fault(exc: OSError) -> Fault:
    """The TLS handshake failed."""
    if exc.errno in _OURS:
        return local_fault(_reason(exc))
    match exc:
        case ssl.SSLCertVerificationError():
            detail = f"certificate not accepted: {exc.verify_message}"
        case ssl.SSLError() if is_no_tls(exc.reason):
            detail = USE_HTTP
        case ssl.SSLError():
            detail = f"handshake failed: {exc.reason or type(exc).__name__}"
        case _:
            detail = "the server closed the connection during the handshake"
    return Fault(kind=FaultClass.TLS, detail=presentable(detail))


def lost_fault(exc: Exception | None, status: int | None) -> Fault:
    """An established connection ended in the middle of an exchange."""
    match exc:
        case None:
            return closed_fault("the server closed the connection before the answer was whole", status)
        case ssl.SSLError():
            # an alert after the handshake: with TLS 1.3 a refused client certificate is only told here
            detail = f"TLS failed: {exc.reason or type(exc).__name__}"
            return Fault(kind=FaultClass.TLS, detail=presentable(detail), status=status)
        case OSError() if exc.errno in _OURS:
            return local_fault(_reason(exc))
        case OSError():
            return closed_fault(_reason(exc), status)
        case _:
            return closed_fault(f"the connection broke: {type(exc).__name__}", status)


def _reason(exc: OSError) -> str:
    """The system's own words: asyncio and uvloop wrap the message differently, the number is the same."""
    if exc.errno is not None and exc.errno in errno.errorcode:
        return f"{os.strerror(exc.errno)} ({errno.errorcode[exc.errno]})"
    return exc.strerror or type(exc).__name__
