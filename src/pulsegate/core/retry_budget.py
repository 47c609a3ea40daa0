"""How many extra attempts may be under way at once, so that retries never become a storm.

The idea of Finagle's and Linkerd's retry budgets, on concurrency as in Envoy's: a share of the requests in flight,
with a floor.
"""

from pulsegate.core.errors import InvariantError


class RetryBudget:
    """Counts extra attempts (replays and hedges) that wait for their first token.

    ``in_flight`` (requests, not attempts) is kept by the data plane: plus one when a request is admitted, minus one
    when it is over.
    """

    __slots__ = ("_floor", "_percent", "_used", "in_flight")

    def __init__(self, percent: int = 20, floor: int = 3) -> None:
        self._percent = percent
        self._floor = floor
        self._used = 0
        self.in_flight = 0

    @property
    def used(self) -> int:
        """Extra attempts under way."""
        return self._used

    def resize(self, percent: int, floor: int) -> None:
        """Take over new settings; what is booked stays booked."""
        self._percent = percent
        self._floor = floor

    def take(self) -> bool:
        """Book one extra attempt; False when as many as ``max(floor, percent of in_flight)`` are under way."""
        if self._used >= max(self._floor, self._percent * self.in_flight // 100):
            return False
        self._used += 1
        return True

    def give(self) -> None:
        """An extra attempt brought its first token or ended: its booking is free again.

        Raises:
            InvariantError: nothing was booked.
        """
        if self._used == 0:
            raise InvariantError("a retry was given back to the budget that was never booked")
        self._used -= 1

    def __repr__(self) -> str:
        return f"RetryBudget(used={self._used}, in_flight={self.in_flight})"
