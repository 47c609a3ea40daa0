"""The prober doubts itself first: when most endpoints cannot be connected to at once, the network is suspect.

Decides only whether it is; what is then not enforced is ``ejection.py``.
"""

from collections.abc import Iterable

from pulsegate.core.ids import EndpointId

MIN_ENDPOINTS = 4
"""With fewer, "more than half" says nothing about the network."""


class NetworkWatch:
    """Who failed to connect when. Only endpoints that were reached before count: the others may still be starting."""

    __slots__ = ("_failed", "_reached", "_spent", "suspect_since")

    def __init__(self) -> None:
        self._reached: set[EndpointId] = set()
        self._failed: dict[EndpointId, float] = {}
        self._spent = False
        self.suspect_since: float | None = None

    def connected(self, endpoint: EndpointId) -> None:
        """Something came back, be it an error."""
        self._reached.add(endpoint)
        self._failed.pop(endpoint, None)

    def failed(self, endpoint: EndpointId, at: float) -> None:
        """No connection came about."""
        if endpoint in self._reached:
            self._failed[endpoint] = at

    def keep_only(self, endpoints: Iterable[EndpointId]) -> None:
        """The configuration changed: forget all others."""
        kept = set(endpoints)
        self._reached &= kept
        self._failed = {endpoint: at for endpoint, at in self._failed.items() if endpoint in kept}

    @property
    def quiet(self) -> bool:
        """Nobody failed and nothing is suspected: there is nothing to look at."""
        return not self._failed and self.suspect_since is None and not self._spent

    def look(self, at: float, window_s: float, windows: int) -> bool | None:
        """True: became suspect now; False: is no longer; None: as before.

        A suspicion that lasted ``windows`` windows is spent: what is then still down is down. It can rise again only
        after the share has fallen in between.
        """
        most = self._most_failed(at, window_s)
        if self.suspect_since is None:
            self._spent = self._spent and most
            if most and not self._spent and windows > 0:
                self.suspect_since = at
                return True
            return None
        expired = at - self.suspect_since >= windows * window_s - 1e-9
        if most and not expired:
            return None
        self._spent = most
        self.suspect_since = None
        return False

    def _most_failed(self, at: float, window_s: float) -> bool:
        reached = len(self._reached)
        if reached < MIN_ENDPOINTS or 2 * len(self._failed) <= reached:
            return False
        lately = sum(1 for failed_at in self._failed.values() if at - failed_at <= window_s)
        return 2 * lately > reached
