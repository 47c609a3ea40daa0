import asyncio
from collections.abc import AsyncIterator

import msgspec

from pulsegate.core.events import Alerted, AlertKind, SnapshotChanged, Transitioned
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.status.stream import QUEUE_FRAMES, EventHub
from support.virtual_time import VirtualClock, VirtualTimeLoop, run_virtual


def went(number: int) -> Transitioned:
    return Transitioned(
        at=0.0,
        endpoint=EndpointId(f"e{number}"),
        pool=PoolName("m"),
        incarnation=Incarnation(1),
        old=State.HEALTHY,
        new=State.UNHEALTHY,
        old_reason=Reason.OK,
        reason=Reason.HUNG,
        detail="",
    )


def fields(frame: bytes) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in frame.decode().strip().split("\n"))


async def opened(hub: EventHub, last_seen: int | None = None) -> AsyncIterator[bytes]:
    stream = hub.stream(last_seen)
    assert await anext(stream) == b"retry: 2000\n\n"
    return stream


def test_a_listener_hears_of_transitions_and_alerts_and_of_nothing_else() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        hub = EventHub(VirtualClock(loop))
        stream = await opened(hub)
        hub.saw(went(1))
        assert fields(await anext(stream)) == {
            "id": "1",
            "event": "transition",
            "data": '{"at":"2025-06-15T15:06:40.000+00:00","endpoint":"e1","pool":"m","incarnation":1,"old":"healthy",'
            '"new":"unhealthy","old_reason":"ok","reason":"hung","detail":""}',
        }
        hub.saw(SnapshotChanged())
        hub.saw(Alerted(at=0.0, kind=AlertKind.POOL_DOWN, pool=PoolName("m"), endpoint=None, detail="two\nlines"))
        seen = fields(await anext(stream))
        assert (seen["id"], seen["event"]) == ("2", "alert")
        assert msgspec.json.decode(seen["data"])["detail"] == "two\nlines"

    run_virtual(main)


def test_a_quiet_stream_is_kept_alive() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        stream = await opened(EventHub(VirtualClock(loop)))
        assert await anext(stream) == b": keep-alive\n\n"
        assert loop.time() == 15.0

    run_virtual(main)


def test_a_slow_reader_is_dropped_and_the_others_are_not() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        hub = EventHub(VirtualClock(loop))
        slow, quick = await opened(hub), await opened(hub)
        slow_reads = asyncio.ensure_future(anext(slow))  # noqa: TID251 - registers it as a listener
        await asyncio.sleep(0)
        heard = 0
        for number in range(QUEUE_FRAMES + 10):
            hub.saw(went(number))
            heard += (await anext(quick)).count(b"event: ")
        assert heard == QUEUE_FRAMES + 10
        assert (hub.listeners, hub.dropped) == (1, 1)
        rest = await slow_reads
        assert [piece async for piece in slow] == []
        assert rest.count(b"event: ") == QUEUE_FRAMES

    run_virtual(main)


def test_who_comes_back_gets_what_was_missed() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        hub = EventHub(VirtualClock(loop))
        for number in range(1, 6):
            hub.saw(went(number))
        missed = await anext(await opened(hub, last_seen=3))
        assert [fields(frame)["id"] for frame in missed.split(b"\n\n") if frame] == ["4", "5"]
        from_another_life = await anext(await opened(hub, last_seen=999))
        assert from_another_life.count(b"event: ") == 5

    run_virtual(main)


def test_closing_ends_every_stream_after_what_is_queued() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        hub = EventHub(VirtualClock(loop))
        stream = await opened(hub)
        hub.saw(went(1))
        hub.close()
        assert len([piece async for piece in stream]) == 1
        assert hub.listeners == 0
        assert [piece async for piece in hub.stream()] == []

    run_virtual(main)


def test_a_listener_that_leaves_is_forgotten() -> None:
    async def main(loop: VirtualTimeLoop) -> None:
        hub = EventHub(VirtualClock(loop))
        stream = await opened(hub)
        assert hub.listeners == 1
        await stream.aclose()
        assert hub.listeners == 0

    run_virtual(main)
