"""How often providers are pinged, on virtual time."""

import asyncio

from pulsegate.control.outlook import Outlook
from pulsegate.control.pinging import Pinging
from pulsegate.core.fleet import EndpointSpec, ProviderSpec
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.provider_fault import ProviderFault
from support.virtual_time import VirtualClock, VirtualTimeLoop


def spec(name: str, interval_s: float = 0.0, *, configured: bool = True) -> ProviderSpec:
    key = EndpointSpec(id=EndpointId(f"{name}#1"), pool=PoolName(name), url="https://h/v1")
    return ProviderSpec(name=name, keys=(key,), configured=configured, ping_interval_s=interval_s)


def play(specs: list[ProviderSpec], asks: list[tuple[float, int]], until_s: float, takes_s: float = 1.0):
    """Who was pinged when, and when each of those who asked was told; ``asks``: when, and how many at once."""
    loop = VirtualTimeLoop()
    clock = VirtualClock(loop)
    pings: list[tuple[float, str]] = []
    told: list[float] = []

    async def ping(key: EndpointSpec, deadline_s: float) -> ProviderFault | None:
        assert deadline_s == 2.0
        pings.append((loop.time(), str(key.pool)))
        await asyncio.sleep(takes_s)
        return None

    async def ask(pinging: Pinging, at: float) -> None:
        await asyncio.sleep(at)
        await pinging.fresh()
        told.append(loop.time())

    async def main() -> None:
        outlook = Outlook()
        outlook.configure((), specs, ())
        pinging = Pinging(outlook, ping, clock)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(pinging.run())
            for at, count in asks:
                for _ in range(count):
                    group.create_task(ask(pinging, at))
            await asyncio.sleep(until_s)
            running.cancel()

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    return pings, told


def test_nobody_asks_and_nothing_is_due():
    assert play([spec("a")], [], 1000.0) == ([], [])


def test_now_and_then():
    pings, _ = play([spec("a", 60.0), spec("b", 100.0), spec("c", 60.0, configured=False)], [], 210.0)
    assert [at for at, name in pings if name == "a"] == [0.0, 60.0, 120.0, 180.0]
    assert len([at for at, name in pings if name == "b"]) == 3
    assert not [at for at, name in pings if name == "c"]


def test_who_asks_at_once_shares_one_round_and_so_does_who_comes_within_it_or_soon_after():
    pings, told = play([spec("a"), spec("b")], [(10.0, 500), (10.5, 500), (14.0, 500)], 30.0)
    assert pings == [(10.0, "a"), (10.0, "b")]
    assert told == [11.0] * 1000 + [14.0] * 500


def test_after_five_seconds_there_is_another_round():
    pings, told = play([spec("a")], [(10.0, 1), (15.9, 1), (16.0, 1)], 30.0)
    assert [at for at, _ in pings] == [10.0, 16.0]
    assert told == [11.0, 15.9, 17.0]
