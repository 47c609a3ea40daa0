"""HTTP/1.1 to one endpoint with exact phase stamps: one idle connection, bounded in time and size, nothing leaks.

Decides how an exchange ended below the dialect; what the bytes mean is the listener's business.
"""

from collections.abc import Callable

from pulsegate.engines.exchange import Exchange, Flow, Limits, Listener, Request
from pulsegate.engines.target import Target, parse_target

__all__ = ["Exchange", "Flow", "Limits", "Listener", "Request", "Target", "Wire", "parse_target"]


class Wire:
    """The line to one endpoint. Exchanges may overlap; each then has its own connection, one is kept afterwards.

    Args:
        target: where to.
        now: monotonic seconds for the stamps. Default: the running loop's clock. uvloop's is only read once per
            iteration and counts whole milliseconds; whoever starts many exchanges in one iteration gives a real one.
    """

    def __init__(self, target: Target, *, now: Callable[[], float] | None = None) -> None:
        self._target = target
        self._now = now

    async def exchange(
        self,
        request: Request,
        listener: Listener,
        *,
        deadline_s: float,
        end_deadline_s: float | None = None,
        limits: Limits = Limits(),
    ) -> Exchange:
        """Send the request and let the listener hear the answer. Never raises for the peer's faults.

        Returns when the body ended, a fault or deadline ended it, or the listener had enough; by then the connection
        is idle or closed. ``deadline_s`` holds until the listener says LINGER, or to the end if it never does. After
        LINGER the exchange may go on for 50 ms, or until ``end_deadline_s`` (from the start) if that is given.

        Raises:
            ValueError: the request cannot be written (a line break in a header): our own mistake.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close every connection; exchanges in flight end with a LOCAL fault."""
