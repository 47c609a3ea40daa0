"""Message heads on their way through: which headers pass, which are ours, and how heads are put together."""

from typing import Final

from pulsegate.gateway.errors import REASONS
from pulsegate.gateway.setup import EndpointSetup

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""RFC 9110, section 7.6.1, and those that older proxies send."""

NOT_FROM_CLIENTS: Final = HOP_BY_HOP | {
    b"host",
    b"content-length",
    b"expect",
    b"authorization",
    b"accept-encoding",  # a compressed stream could not be looked into
    b"http2-settings",
    b"x-request-id",
    b"x-llm-probe",
    b"x-data-parallel-rank",  # a rank is an endpoint of its own, chosen here
}
NOT_FOR_PROVIDERS: Final = frozenset(
    {b"api-key", b"x-api-key", b"cookie", b"openai-organization", b"openai-project", b"forwarded", b"x-forwarded-for"}
    | {b"x-real-ip"}
)
"""Clients' secrets and whereabouts, which are no business of a hosted provider."""
NOT_FROM_ENDPOINTS: Final = HOP_BY_HOP | {b"content-length", b"x-request-id", b"alt-svc"}

OUR_PREFIX: Final = b"x-pulsegate-"

Pairs = list[tuple[bytes, bytes]]


def request_prefix(endpoint: EndpointSetup, target: bytes) -> bytes:
    """The part of an upstream request's head that is the same for every request: line, host, operator's headers."""
    if endpoint.api_path is None:
        path = endpoint.base_path.encode("latin-1") + target
    else:
        path = endpoint.api_path.encode("latin-1") + target.removeprefix(b"/v1")
    lines = [b"POST " + path + b" HTTP/1.1\r\nHost: "]
    lines.append(endpoint.host_header.encode("latin-1") + b"\r\n")
    lines.extend(f"{name}: {value}\r\n".encode("latin-1") for name, value in endpoint.headers)
    return b"".join(lines)


def connection_named(value: bytes) -> frozenset[bytes]:
    """The options of a ``Connection`` header: ``close`` and the names of headers that it makes hop-by-hop."""
    named = {token.strip().lower() for token in value.split(b",")}
    return frozenset(named - {b"", b"keep-alive", b"upgrade"})


def answer(
    status: int, body: bytes, request_id: bytes, *, keep_alive: bool, extra: bytes = b"", head_only: bool = False
) -> bytes:
    """A whole answer of our own. ``extra`` is further header lines, each with its line end."""
    reason = REASONS.get(status, b"Error")
    if b"Content-Type:" not in extra and body:
        extra += b"Content-Type: application/json\r\n"
    connection = b"" if keep_alive else b"Connection: close\r\n"
    head = b"HTTP/1.1 %d %b\r\nX-Request-ID: %b\r\n%b%bContent-Length: %d\r\n\r\n" % (
        status,
        reason,
        request_id,
        extra,
        connection,
        len(body),
    )
    return head if head_only else head + body
