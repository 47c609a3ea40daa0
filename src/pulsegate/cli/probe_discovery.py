"""Finds out what answers before the first probe of ``pulsegate probe``, on a connection of its own.

A prober in service does this within its first probe. Here the first probe is looked at closely: its phases shall begin
with a new connection, and the time for looking around shall not come out of its deadline.
"""

import asyncio
from dataclasses import replace
from typing import Final

from pulsegate.core.fleet import EndpointSpec, EngineName
from pulsegate.engines.discovery import Discovery, discover
from pulsegate.engines.page import Page, fetch_page
from pulsegate.engines.wire import Wire, parse_target

LOOK_S: Final = 3.0
"""For all pages together."""


async def look_around(spec: EndpointSpec) -> tuple[EndpointSpec, Discovery | None]:
    """The spec with engine and model filled in; the same one, and None, if the server could not be asked."""
    if spec.engine is not EngineName.AUTO:
        return spec, None
    loop = asyncio.get_running_loop()
    until = loop.time() + LOOK_S
    secrets = tuple(value for _, value in spec.headers) + ((spec.api_key,) if spec.api_key else ())
    wire = Wire(parse_target(spec))

    async def fetch(path: str, *, method: str = "GET") -> Page:
        return await fetch_page(wire, path, deadline_s=until - loop.time(), method=method, secrets=secrets)

    try:
        found = await discover(fetch)
    finally:
        await wire.close()
    if not isinstance(found, Discovery):
        return spec, None
    if spec.model is not None:
        found = replace(found, model=spec.model)
    return replace(spec, engine=found.engine, model=found.model), found
