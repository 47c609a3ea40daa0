"""What owns sockets at protocol level is tested on both event loops: asyncio's and uvloop."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.path.name.startswith(("test_wire", "test_gateway", "test_coordination_contract")):
        factories["uvloop"] = uvloop.new_event_loop
    return factories
