"""What a new configuration does to endpoints that stay, change, come and go."""

import asyncio
from dataclasses import replace

import pytest

from pulsegate.core.fleet import EndpointSpec, ProbePolicy
from pulsegate.core.health import State
from support.fake_engine import SILENT, FakeEngine, FakeFactory
from support.samples import fleet, pool, spec
from support.watching import Scene, for_seconds, watch

POLICY = ProbePolicy(jitter=0.0, deep_interval_s=0.0)


def watched(*specs: EndpointSpec):
    return fleet(pool(*specs, probe=POLICY))


def test_an_endpoint_that_stays_keeps_its_engine_and_its_state() -> None:
    async def play(scene: Scene) -> None:
        await asyncio.sleep(20)
        scene.prober.change(watched(spec("a"), spec("new")))
        assert scene.state("a")[0] is State.HEALTHY
        assert scene.state("new")[0] is State.WARMING
        await asyncio.sleep(20)

    factory = FakeFactory()
    scene = watch(watched(spec("a"), spec("gone")), factory, play)
    assert [len(factory.opened[name]) for name in ("a", "gone", "new")] == [1, 1, 1]
    assert factory.last("gone").closed
    assert scene.state("new")[0] is State.HEALTHY
    assert list(scene.prober.specs) == ["a", "new"]
    assert max(factory.last("gone").began) < 20


def test_an_endpoint_whose_address_changed_is_another_one() -> None:
    async def play(scene: Scene) -> None:
        await asyncio.sleep(20)
        scene.prober.change(watched(replace(spec("a"), url="http://elsewhere.test:1")))
        await asyncio.sleep(20)

    factory = FakeFactory()
    scene = watch(watched(spec("a")), factory, play)
    old, new = factory.opened["a"]
    assert old.closed
    assert max(old.began) < 20 <= min(new.began)
    assert scene.state("a")[0] is State.HEALTHY


def test_a_probe_in_flight_of_a_removed_endpoint_is_cancelled_and_its_engine_closed() -> None:
    async def play(scene: Scene) -> None:
        await asyncio.sleep(0.1)
        assert factory.last("a").in_flight == 1
        scene.prober.change(watched(spec("b")))
        await asyncio.sleep(0.01)
        assert factory.last("a").in_flight == 0
        assert factory.last("a").closed

    factory = FakeFactory(lambda _spec: FakeEngine(lambda _at: SILENT))
    scene = watch(watched(spec("a"), spec("b")), factory, play)
    assert scene.diary.crashes == []


def test_an_endpoint_that_cannot_be_opened_leaves_everything_as_it_was() -> None:
    def make(one: EndpointSpec) -> FakeEngine:
        if one.id == "bad":
            raise ValueError("not an address")
        return FakeEngine()

    async def play(scene: Scene) -> None:
        await asyncio.sleep(20)
        with pytest.raises(ValueError, match="not an address"):
            scene.prober.change(watched(spec("b"), spec("bad")))
        await asyncio.sleep(20)

    factory = FakeFactory(make)
    scene = watch(watched(spec("a")), factory, play)
    assert list(scene.prober.specs) == ["a"]
    assert max(factory.last("a").began) > 30
    assert "b" not in factory.opened or factory.last("b").began == []


def test_stopping_closes_every_engine_also_in_the_middle_of_a_probe() -> None:
    factory = FakeFactory(lambda _spec: FakeEngine(lambda _at: SILENT))
    watch(watched(*(spec(f"e{number}") for number in range(5))), factory, for_seconds(1.0))
    assert all(engine.closed and engine.in_flight == 0 for one in factory.opened.values() for engine in one)
