"""The series of hosted providers that are read when they are scraped: how they are, and how many of their keys rest."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from pulsegate.core.health import Reason
from pulsegate.core.provider_status import ProviderState, ProviderStatus

_WHY: Final = (Reason.BILLING, Reason.AUTH, Reason.NOT_FOUND, Reason.RATE_LIMITED, Reason.BUSY, Reason.ERROR)


def provider_series(providers: Iterable[tuple[ProviderStatus, Mapping[Reason, int]]]) -> bytes:
    """All of them as Prometheus text. Nothing is kept: a provider's series vanish with it."""
    registry = CollectorRegistry()
    states = Gauge(
        "pulsegate_provider_state",
        "1 for the state that the provider is in, 0 for the others.",
        ["provider", "state"],
        registry=registry,
    )
    resting = Gauge(
        "pulsegate_provider_keys_resting",
        "Keys that no worker asks anything with now, by why.",
        ["provider", "reason"],
        registry=registry,
    )
    for status, keys in providers:
        for state in ProviderState:
            states.labels(status.name, state.value).set(state is status.state)
        for reason in _WHY:
            resting.labels(status.name, reason.value).set(keys.get(reason, 0))
    return generate_latest(registry)
