"""What is told of hosted providers: by a worker of its own places, and to whoever asks about readiness."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceSeen:
    """One key at one model as one worker knows it. ``since``: monotonic seconds, None if it has always served."""

    endpoint: EndpointId
    pool: PoolName
    key: str
    state: State
    reason: Reason
    weight: int
    since: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSeen:
    """One provider as one worker knows it. ``answered_at``: when it last answered anything; None: never."""

    name: str
    places: tuple[PlaceSeen, ...]
    answered_at: float | None


class ProviderState(StrEnum):
    """What a provider is good for."""

    UP = "up"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"  # nobody has asked it for anything yet


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """A provider for readiness. ``checked_at``: monotonic seconds of what is known, None if nothing is.

    ``reason``: why it is not ``up``, "" if it is.
    """

    name: str
    configured: bool
    state: ProviderState
    reason: str
    checked_at: float | None


def state_of(places: Iterable[PlaceSeen], answered_at: float | None) -> tuple[ProviderState, str]:
    """What the places of one provider amount to, and why."""
    known = tuple(places)
    ill = [place for place in known if place.state is not State.HEALTHY]
    reason = ", ".join(dict.fromkeys(place.reason.value for place in ill))
    if ill and not any(place.weight for place in known):
        return ProviderState.DOWN, reason
    if ill:
        return ProviderState.DEGRADED, reason
    return (ProviderState.UNKNOWN if answered_at is None else ProviderState.UP), ""
