"""The whole metrics page."""

import asyncio
from collections.abc import Iterable

from pulsegate.core.status import EndpointStatus
from pulsegate.export.endpoint_series import EndpointSeries
from pulsegate.export.metrics import Metrics


async def page(metrics: Metrics, statuses: Iterable[EndpointStatus]) -> bytes:
    """Pools' series, then endpoints'. Rendering the former takes long with many pools, so it runs in a thread."""
    pools = await asyncio.to_thread(metrics.render)
    series = EndpointSeries()
    await series.add_all(statuses)
    return pools + series.text()
