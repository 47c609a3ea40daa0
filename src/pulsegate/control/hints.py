"""What users met at endpoints that other gateways probe: collected here, told to those who probe them."""

from typing import NamedTuple

import msgspec

from pulsegate.core.events import TrafficSeen
from pulsegate.core.ids import EndpointId


class Hint(NamedTuple):
    """What users of one gateway met at an endpoint that another gateway probes. ``age_s``: of the last token."""

    endpoint: EndpointId
    tokens: int
    failures: int
    stalls: int
    age_s: float = 0.0

    def as_traffic(self, at: float, inflight: int) -> TrafficSeen:
        """As what is met here, where ``inflight`` requests of our own are."""
        return TrafficSeen(
            at=at,
            endpoint=self.endpoint,
            tokens=self.tokens,
            failures=self.failures,
            stalls=self.stalls,
            inflight=inflight,
            age_s=max(0.0, self.age_s),
        )


class Hints:
    """Those that wait to be told."""

    def __init__(self) -> None:
        self._hints: dict[EndpointId, Hint] = {}
        self._tokens_at: dict[EndpointId, float] = {}

    def add(self, event: TrafficSeen) -> bool:
        """Take in what users met; whether it must be told at once."""
        old = self._hints.get(event.endpoint, Hint(event.endpoint, 0, 0, 0))
        self._hints[event.endpoint] = Hint(
            event.endpoint, old.tokens + event.tokens, old.failures + event.failures, old.stalls + event.stalls
        )
        if event.tokens:
            self._tokens_at[event.endpoint] = event.at
        return event.failures > 0 or event.stalls > 0

    def take(self, now: float) -> tuple[bytes, ...]:
        """All of them, as they are told."""
        told = tuple(
            encode(hint._replace(age_s=now - self._tokens_at.get(endpoint, now)))
            for endpoint, hint in self._hints.items()
        )
        self.clear()
        return told

    def clear(self) -> None:
        """Nobody can be told."""
        self._hints.clear()
        self._tokens_at.clear()


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Hint).decode
