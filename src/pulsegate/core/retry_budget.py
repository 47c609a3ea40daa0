"""How many extra attempts may be under way at once, so that retries never become a storm.

The idea of Finagle's and Linkerd's retry budgets, on concurrency as in Envoy's: a share of the requests in flight,
with a floor.
"""


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
        raise NotImplementedError

    def give(self) -> None:
        """An extra attempt brought its first token or ended: its booking is free again.

        Raises:
            InvariantError: nothing was booked.
        """
        raise NotImplementedError
