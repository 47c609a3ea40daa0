"""TLS towards servers: from a :class:`TlsSpec` to Python's context, the same for probes, users' requests and Redis."""

import ssl

from pulsegate.core.fleet import TlsSpec


def client_context(spec: TlsSpec, *, alpn: tuple[str, ...] = ("http/1.1",)) -> ssl.SSLContext:
    """The context for this spec; reads its files.

    Raises:
        OSError: a file cannot be read or is not what it should be (``ssl.SSLError`` is one).
    """
    context = ssl.create_default_context(cafile=spec.ca_file)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if spec.cert_file is not None:
        context.load_cert_chain(spec.cert_file, spec.key_file, password=no_password)
    if not spec.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def no_password() -> str:
    """For ``load_cert_chain``: OpenSSL would ask at the terminal and stand still."""
    raise ssl.SSLError("the key file is encrypted; give one without a password")
