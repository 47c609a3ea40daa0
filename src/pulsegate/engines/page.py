"""Fetches one small page from a server: what it serves, what it is, its counters. No token is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from pulsegate.core.probe import Fault
from pulsegate.engines.blame import protocol_fault
from pulsegate.engines.exchange import Exchange, Flow, Request
from pulsegate.engines.faults import classify_answer
from pulsegate.engines.wire import Wire

_OK: Final = 200
_MAX_SMALL_BYTES: Final = 1024 * 1024
_HEADERS: Final = (("X-LLM-Probe", "true"), ("Accept", "application/json, text/plain;q=0.9, */*;q=0.1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What came back. ``fault`` is None only for a whole 200 answer, or when the deadline came first."""

    exchange: Exchange
    body: bytes
    fault: Fault | None

    @property
    def ok(self) -> bool:
        """A whole 200 answer."""
        return self.exchange.whole and self.exchange.status == _OK

    @property
    def headers(self) -> Mapping[str, str]:
        """Of the answer; names in lower case."""
        return self.exchange.headers

    def json(self) -> object:
        """The decoded body; None if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, RecursionError):
            return None


class _Collector:
    """Keeps the body, up to a size."""

    def __init__(self, max_bytes: int) -> None:
        self.body = bytearray()
        self._max_bytes = max_bytes

    def on_head(self, status: int, headers: Mapping[str, str], at_s: float) -> None:
        """Nothing to decide."""

    def on_body(self, data: bytes, at_s: float) -> Flow:  # noqa: ARG002 - pages have no tokens
        """Keep it."""
        self.body += data
        return Flow.STOP if self.is_full else Flow.CONTINUE

    @property
    def is_full(self) -> bool:
        """More came than is wanted."""
        return len(self.body) > self._max_bytes

    def on_end(self, at_s: float) -> None:
        """Nothing left to do."""


async def fetch_page(
    wire: Wire,
    path: str,
    *,
    deadline_s: float,
    method: str = "GET",
    secrets: tuple[str, ...] = (),
    max_bytes: int = _MAX_SMALL_BYTES,
) -> Page:
    """One page within ``deadline_s``; never raises for the peer's faults."""
    collector = _Collector(max_bytes)
    exchange = await wire.exchange(
        Request(method=method, path=path, headers=_HEADERS), collector, deadline_s=max(deadline_s, 0.001)
    )
    body = bytes(collector.body)
    fault = exchange.fault
    if fault is None and exchange.status is not None and exchange.status != _OK:
        fault = classify_answer(exchange.status, body, exchange.headers, secrets)
    elif fault is None and collector.is_full:
        fault = protocol_fault(f"the page {path} is longer than {max_bytes} bytes", exchange.status)
    return Page(exchange=exchange, body=body, fault=fault)
