"""Somebody asked for readiness after a ping: waits until the control process has pinged all providers."""

from typing import Final, Protocol

from pulsegate.core.routing import Seat
from pulsegate.gateway.catalogue import readiness
from pulsegate.gateway.context import Context
from pulsegate.gateway.intake import Incoming

PATIENCE_S: Final = 6.0
"""A round takes 2 s, another one may be under way; who hears nothing then is answered by what is known."""


class Asker(Protocol):
    """The connection that it came by."""

    def answered(self, incoming: Incoming, status: int, body: bytes) -> None:
        """Send the answer and go on."""
        ...


class PingWait:
    """One such request; takes a call's place on its connection."""

    __slots__ = ("_client", "_context", "attempts", "due_at", "incoming", "over", "started_at")

    def __init__(self, context: Context, client: Asker, incoming: Incoming) -> None:
        self._context = context
        self._client = client
        self.incoming = incoming
        self.attempts = 0
        self.started_at = context.now()
        self.due_at = self.started_at + PATIENCE_S
        self.over = False

    def begin(self) -> None:
        """Ask for the ping."""
        self._context.live.add(self)
        if self._context.ask_ping is None:
            self.ping_over()
        else:
            self._context.ask_ping(self)

    def ping_over(self) -> None:
        """Answer by what is known now."""
        if self.over:
            return
        self.client_gone()
        status, body = readiness(self._context)
        self._client.answered(self.incoming, status, body)

    def client_gone(self) -> None:
        """Nobody waits any more."""
        self.over = True
        self._context.live.discard(self)

    def due(self, now: float) -> None:  # noqa: ARG002 - one deadline
        """Live: it takes too long."""
        self.ping_over()

    def crash(self) -> None:
        """Live: give up."""
        self.client_gone()

    def client_paused(self, *, paused: bool) -> None:
        """There is nothing to hold back."""

    def budget_freed(self, now: float) -> None:
        """Live: it needs none."""

    def endpoints_changed(self, ejected: list[Seat], suspect: list[Seat], now: float) -> None:
        """Live: it waits at none."""
