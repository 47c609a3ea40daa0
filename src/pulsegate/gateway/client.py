"""A client's connection, as the request that came by it sees it."""

from collections.abc import Callable
from typing import Protocol

from pulsegate.gateway.errors import ApiError
from pulsegate.gateway.intake import Incoming


class Client(Protocol):
    """The connection that a request came by."""

    paused: bool

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def writer(self) -> Callable[[bytes], object]:
        """What sends bytes without a detour."""
        ...

    def refuse(self, error: ApiError, incoming: Incoming) -> None:
        """Send an error of our own as the whole answer."""
        ...

    def call_over(self, *, keep_alive: bool) -> None:
        """The answer is complete (or the connection must be closed, because it cannot be completed)."""
        ...
