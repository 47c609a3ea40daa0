"""With 5,000 endpoints no answer of the admin API may hold up the probes."""

import asyncio
import time
from collections.abc import AsyncGenerator

import pytest

from pulsegate.control.desk import Desk
from pulsegate.core.fleet import EndpointSpec
from pulsegate.export.metrics import Metrics
from pulsegate.export.scrape import page
from pulsegate.status.app import admin_app
from pulsegate.status.server import base_url, listen, serving
from pulsegate.status.stream import EventHub
from support.http_client import Answer, request
from support.samples import fleet, pool, spec, status

ENDPOINTS = 5_000
LONGEST_TURN_S = 0.05


class BigDesk(Desk):
    """A desk with many endpoints and no prober."""

    def __init__(self) -> None:
        self._specs: dict[str, EndpointSpec] = {
            f"10.0.{n // 250}.{n % 250}:8000": spec(f"10.0.{n // 250}.{n % 250}:8000", pool=f"m{n // 100}")
            for n in range(ENDPOINTS)
        }

    def ids(self):
        return tuple(self._specs)

    def spec(self, endpoint):
        return self._specs.get(endpoint)

    def status(self, endpoint):
        return status(self._specs[endpoint])

    def statuses(self):
        return (status(one) for one in self._specs.values())

    def owner(self, _endpoint):
        return None

    def wall_of(self, at):
        return at


class StillClock:
    def now(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 0.0

    def boot(self) -> float:
        return 0.0

    def sleep(self, seconds: float):
        return asyncio.sleep(seconds)


@pytest.fixture
async def url() -> AsyncGenerator[str]:
    desk, metrics, sock = BigDesk(), Metrics("0"), listen("127.0.0.1", 0, "admin.listen")
    metrics.watching(fleet(*(pool(name=f"m{n}") for n in range(50))))
    app = admin_app(desk, EventHub(StillClock()), lambda: page(metrics, desk.statuses()))
    async with serving(app, sock):
        yield base_url(sock)


async def longest_turn(url: str, path: str) -> tuple[float, Answer]:
    """The most CPU that this thread spent in one turn of the loop meanwhile: others on the machine do not count."""
    answer = asyncio.ensure_future(request(url, path, timeout_s=50))  # noqa: TID251 - watched from beside it
    longest_s, last = 0.0, time.thread_time()
    while not answer.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest_s, last = max(longest_s, now - last), now
    return longest_s, await answer


async def test_the_list_comes_in_small_pieces_of_work(url: str) -> None:
    longest_s, answer = await longest_turn(url, "/api/endpoints")
    assert len(answer.json["endpoints"]) == ENDPOINTS
    assert longest_s < LONGEST_TURN_S


async def test_the_metrics_come_in_small_pieces_of_work(url: str) -> None:
    longest_s, answer = await longest_turn(url, "/metrics")
    assert answer.body.count(b"pulsegate_endpoint_weight{") == ENDPOINTS
    assert longest_s < LONGEST_TURN_S
