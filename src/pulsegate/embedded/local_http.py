"""One blocking HTTP exchange with a server of ours on this machine."""

import http.client
import json
from urllib.parse import urlsplit


def get(url: str, timeout_s: float) -> tuple[int, bytes]:
    """Status and body of ``url``.

    Raises:
        OSError: refused, reset, or nothing came within ``timeout_s`` (TimeoutError).
    """
    return _exchange("GET", url, None, timeout_s)


def post(url: str, body: object, timeout_s: float) -> tuple[int, bytes]:
    """Send ``body`` as JSON; status and body of the answer. Raises as :func:`get`."""
    return _exchange("POST", url, json.dumps(body), timeout_s)


def _exchange(method: str, url: str, body: str | None, timeout_s: float) -> tuple[int, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=timeout_s)
    target = parts.path or "/"
    try:
        connection.request(
            method,
            f"{target}?{parts.query}" if parts.query else target,
            body=body,
            headers={"Content-Type": "application/json"} if body is not None else {},
        )
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as exc:
        raise ConnectionError(f"{url}: {exc!r}") from exc
    finally:
        connection.close()
