"""What is told of hosted providers: by a worker of its own places, and to whoever asks about readiness."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.provider_fault import ProviderFault


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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPing:
    """What a token-free ping with one key came to. ``fault`` None: it was answered well; ``at``: monotonic seconds."""

    provider: str
    key: str
    fault: ProviderFault | None
    at: float


_SILENT: Final = frozenset({ProviderFault.OUTAGE, ProviderFault.BUSY})


def status_of(name: str, *, configured: bool, seen: Iterable[ProviderSeen], pings: Iterable[KeyPing]) -> ProviderStatus:
    """What is known of one provider, from everybody who has seen it."""
    if not configured:
        reason = "it has no key"
        return ProviderStatus(name=name, configured=False, state=ProviderState.DOWN, reason=reason, checked_at=None)
    told, pinged = tuple(seen), tuple(pings)
    answers = [one.answered_at for one in told if one.answered_at is not None]
    answers += [ping.at for ping in pinged if ping.fault not in _SILENT]
    checks = [*answers, *(ping.at for ping in pinged)]
    state, reason = _state([place for one in told for place in one.places], heard=bool(answers))
    if pinged and all(ping.fault in _SILENT and ping.at > max(answers, default=0.0) for ping in pinged):
        state, reason = ProviderState.DOWN, "it does not answer pings"
    elif state in (ProviderState.UP, ProviderState.UNKNOWN):
        refused = [ping for ping in pinged if ping.fault in (ProviderFault.AUTH, ProviderFault.BILLING)]
        if refused and _ping_is_news(refused, told):
            whole = len(refused) == len(pinged)
            state = ProviderState.DOWN if whole else ProviderState.DEGRADED
            reason = ", ".join(dict.fromkeys(ping.fault.value for ping in refused if ping.fault is not None))
    checked_at = max(checks, default=None)
    return ProviderStatus(name=name, configured=True, state=state, reason=reason, checked_at=checked_at)


def resting_keys(seen: Iterable[ProviderSeen]) -> Counter[Reason]:
    """How many keys of one provider no worker may ask anything with now, by why."""
    places: dict[str, list[PlaceSeen]] = {}
    for place in (place for one in seen for place in one.places):
        places.setdefault(place.key, []).append(place)
    return Counter(known[0].reason for known in places.values() if not any(place.weight for place in known))


def _ping_is_news(pings: Iterable[KeyPing], seen: Iterable[ProviderSeen]) -> bool:
    """Whether these pings are younger than what users' requests have met."""
    met = max((one.answered_at for one in seen if one.answered_at is not None), default=0.0)
    return any(ping.at > met for ping in pings)


def _state(places: Iterable[PlaceSeen], *, heard: bool) -> tuple[ProviderState, str]:
    """What places amount to, and why."""
    known = tuple(places)
    ill = [place for place in known if place.state is not State.HEALTHY]
    reason = ", ".join(dict.fromkeys(place.reason.value for place in ill))
    if ill and not any(place.weight for place in known):
        return ProviderState.DOWN, reason
    if ill:
        return ProviderState.DEGRADED, reason
    return (ProviderState.UP if heard else ProviderState.UNKNOWN), ""
