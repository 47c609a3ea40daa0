"""TLS contexts out of a :class:`TlsSpec`: read once, read again when a file was renewed."""

import ssl
from functools import lru_cache
from pathlib import Path

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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not spec.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif spec.ca_file is not None:
        context.load_verify_locations(spec.ca_file)
    else:
        context.load_default_certs()
    if spec.cert_file is not None:
        context.load_cert_chain(spec.cert_file, spec.key_file, password=_no_password)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _no_password() -> str:
    """OpenSSL would ask at the terminal and stand still."""
    raise ssl.SSLError("the key file is encrypted; give one without a password")
