"""The whole metrics page."""

import asyncio
from collections.abc import Iterable, Mapping

from pulsegate.core.health import Reason
from pulsegate.core.provider_status import ProviderStatus
from pulsegate.core.status import EndpointStatus
from pulsegate.export.endpoint_series import EndpointSeries
from pulsegate.export.metrics import Metrics
from pulsegate.export.provider_series import provider_series


async def page(
    metrics: Metrics,
    statuses: Iterable[EndpointStatus],
    providers: Iterable[tuple[ProviderStatus, Mapping[Reason, int]]] = (),
) -> bytes:
    """Pools' series, then endpoints' and providers'. Rendering pools' takes long with many, so it runs in a thread."""
    pools = await asyncio.to_thread(metrics.render)
    series = EndpointSeries()
    await series.add_all(statuses)
    return pools + series.text() + provider_series(providers)
