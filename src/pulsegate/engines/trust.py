"""TLS contexts out of a :class:`TlsSpec`: read once, read again when a file was renewed."""

import ssl
from functools import lru_cache
from pathlib import Path

from pulsegate import trust
from pulsegate.core.fleet import TlsSpec


def client_context(spec: TlsSpec) -> ssl.SSLContext:
    """The context for this spec, shared by all endpoints that have the same.

    Raises:
        OSError: a file cannot be read or is not what it should be (``ssl.SSLError`` is one).
    """
    files = (spec.ca_file, spec.cert_file, spec.key_file)
    return _context(spec, tuple(None if file is None else Path(file).stat().st_mtime_ns for file in files))


@lru_cache(maxsize=256)
def _context(spec: TlsSpec, _renewed_at: tuple[int | None, ...]) -> ssl.SSLContext:
    return trust.client_context(spec)
