"""Asks a running Pulsegate through its admin API."""

import http.client
import urllib.error
import urllib.request
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from pulsegate.config.address import provider_url
from pulsegate.control.ready_document import ReadyDocument
from pulsegate.status.shapes import Coordination, Endpoint, EndpointDetail

TIMEOUT_S: Final = 3.0
_MAX_BYTES: Final = 64 * 2**20

T = TypeVar("T")


class AdminError(Exception):
    """The admin API did not answer, or not as expected; says why in a few words."""


class _Listing(msgspec.Struct):
    endpoints: list[Endpoint]


class AdminClient:
    """One admin API. Every call is one short request, so that a restart of the server is nothing special."""

    def __init__(self, url: str) -> None:
        """``url`` is its base, e.g. ``http://127.0.0.1:8081``; the scheme may be left out.

        Raises:
            PydanticCustomError: it is not a URL.
        """
        self.url = provider_url(url if "://" in url else f"http://{url}").text
        # Without the proxies of the environment: they are for the way out, not for this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def endpoints(self) -> list[Endpoint]:
        """All endpoints in the order of the configuration."""
        return self._get("/api/endpoints", _Listing).endpoints

    def endpoint(self, name: str) -> EndpointDetail:
        """One endpoint with its last probes."""
        return self._get(f"/api/endpoints/{quote(name, safe='')}", EndpointDetail)

    def coordination(self) -> Coordination | None:
        """How it stands with other gateways; None if it is too old to say."""
        try:
            return self._get("/api/coordination", Coordination)
        except AdminError:
            return None

    def readiness(self) -> ReadyDocument:
        """May traffic be sent there?"""
        return self._get("/health/ready", ReadyDocument, also_ok=503)

    def _get(self, path: str, shape: type[T], also_ok: int | None = None) -> T:
        try:
            return msgspec.json.decode(self._body(path, also_ok), type=shape)
        except msgspec.DecodeError as exc:
            raise AdminError(f"what answers there is not Pulsegate's admin API: {exc}") from exc

    def _body(self, path: str, also_ok: int | None) -> bytes:
        try:
            with self._opener.open(self.url + path, timeout=TIMEOUT_S) as answer:
                return answer.read(_MAX_BYTES)
        except urllib.error.HTTPError as exc:
            with exc:
                if exc.code == also_ok:
                    return exc.read(_MAX_BYTES)
            raise AdminError(f"{path} answers with status {exc.code}") from exc
        except urllib.error.URLError as exc:
            reason = exc.reason
            said = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
            raise AdminError(said) from exc
        except (OSError, http.client.HTTPException) as exc:
            raise AdminError(str(exc) or type(exc).__name__) from exc
