"""Pings a hosted provider: its list of models, with one key. No token is asked for."""

from collections.abc import Mapping
from typing import Final

from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.probe import FaultClass
from pulsegate.core.provider_fault import ProviderFault
from pulsegate.engines.page import fetch_page
from pulsegate.engines.wire import Wire, parse_target

_FAULTS: Final[Mapping[FaultClass, ProviderFault]] = {
    FaultClass.AUTH: ProviderFault.AUTH,
    FaultClass.BILLING: ProviderFault.BILLING,
    FaultClass.NOT_FOUND: ProviderFault.NOT_FOUND,
    FaultClass.BAD_REQUEST: ProviderFault.NOT_FOUND,
    FaultClass.OVERLOAD: ProviderFault.BUSY,
}
_LONG_LIST_BYTES: Final = 8 * 1024 * 1024  # OpenRouter lists hundreds of models


async def ping_provider(key: EndpointSpec, deadline_s: float) -> ProviderFault | None:
    """What is wrong with that key or behind it, None if nothing is. NOT_FOUND: it answers, but has no list.

    Raises:
        ValueError: the address cannot be read.
    """
    target = parse_target(key)
    base = key.url.partition("://")[2].partition("/")[2]
    path = "/v1/models" if not base or base == "v1" or base.endswith("/v1") else "/models"
    wire = Wire(target)
    try:
        page = await fetch_page(
            wire, path, deadline_s=deadline_s, secrets=(key.api_key or "",), max_bytes=_LONG_LIST_BYTES
        )
    finally:
        await wire.close()
    if page.ok:
        return None
    return ProviderFault.OUTAGE if page.fault is None else _FAULTS.get(page.fault.kind, ProviderFault.OUTAGE)
