"""The prober doubts itself first: when most endpoints cannot be connected to at once, the network is suspect.

Decides only whether it is; what is then not enforced is ``ejection.py``.
"""

from collections.abc import Iterable

from pulsegate.core.ids import EndpointId

MIN_ENDPOINTS = 4
"""With fewer, "more than half" says nothing about the network."""

CLEAR_SHARE = 4
"""The suspicion holds while more than one in so many still cannot be connected to."""


class NetworkWatch:
    """Who failed to connect when. Only endpoints that were reached before count: the others may still be starting."""

    __slots__ = ("_failing", "_reached", "suspect_since")

    def __init__(self) -> None:
        self._reached: set[EndpointId] = set()
        self._failing: dict[EndpointId, float] = {}  # since when
        self.suspect_since: float | None = None

    def connected(self, endpoint: EndpointId) -> None:
        """Something came back, be it an error."""
        self._reached.add(endpoint)
        self._failing.pop(endpoint, None)

    def failed(self, endpoint: EndpointId, at: float) -> None:
        """No connection came about."""
        if endpoint in self._reached:
            self._failing.setdefault(endpoint, at)

    def forget(self, endpoint: EndpointId) -> None:
        """Another gateway probes it now, from where the network may be another one."""
        self._reached.discard(endpoint)
        self._failing.pop(endpoint, None)

    def keep_only(self, endpoints: Iterable[EndpointId]) -> None:
        """The configuration changed: forget all others."""
        kept = set(endpoints)
        self._reached &= kept
        self._failing = {endpoint: at for endpoint, at in self._failing.items() if endpoint in kept}

    @property
    def quiet(self) -> bool:
        """Nobody fails and nothing is suspected: there is nothing to look at."""
        return not self._failing and self.suspect_since is None

    @property
    def share(self) -> str:
        """How many of those that were reached before cannot be connected to, for a log line."""
        return f"{len(self._failing)} of {len(self._reached)} endpoints cannot be connected to"

    def look(self, at: float, window_s: float, windows: int) -> bool | None:
        """True: became suspect now; False: is no longer; None: as before.

        It becomes suspect when more than half *began* to fail within one window: endpoints that died one by one are
        dead. It ends when most can be connected to again, or after so many windows: what is then still down is down.
        """
        most = len(self._reached) >= MIN_ENDPOINTS and 2 * len(self._failing) > len(self._reached)
        if self.suspect_since is not None:
            some = CLEAR_SHARE * len(self._failing) > len(self._reached)
            if some and at - self.suspect_since < windows * window_s - 1e-9:
                return None
            self.suspect_since = None
            return False
        if not most or windows < 1:
            return None
        began = sum(1 for since in self._failing.values() if at - since <= window_s)
        if 2 * began <= len(self._reached):
            return None
        self.suspect_since = at
        return True
