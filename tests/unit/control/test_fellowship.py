"""Several gateways over one fleet, on virtual time."""

import asyncio

from pulsegate.core.events import TrafficSeen
from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId
from pulsegate.core.sharding import Mode
from support.fake_engine import CUDA, FAST, SILENT
from support.replicas import Replicas, World, play
from support.samples import fleet, pool, spec

NAMES = [f"e{number:02}" for number in range(24)]
INTERVAL_S = 3.0
FLEET = fleet(pool(*map(spec, NAMES), probe=ProbePolicy(deep_interval_s=0.0)))


def frozen_from(at: float):
    return lambda now: SILENT if now >= at else FAST


def test_replicas_together_probe_each_endpoint_once_an_interval() -> None:
    for mode in Mode:
        world = World()

        async def act(replicas: Replicas) -> None:
            for name in ("g1", "g2", "g3"):
                await replicas.start(name)
            await asyncio.sleep(120)

        play(FLEET, act, world=world, mode=mode)
        mean = world.count(30, 120) / len(NAMES) / (90 / INTERVAL_S)
        assert 0.95 <= mean <= 1.05, mode
        assert world.most_per(INTERVAL_S * 0.9, 30, 120) == 1, mode
        shares = world.by_member(30, 120)
        assert len(shares) == (1 if mode is Mode.LEADER else 3), mode


def test_all_replicas_know_what_one_of_them_found() -> None:
    world = World(scripts={"e05": lambda now: CUDA if now >= 40 else FAST})

    async def act(replicas: Replicas) -> None:
        for name in ("g1", "g2", "g3"):
            await replicas.start(name)
        await asyncio.sleep(39)
        for replica in replicas.all.values():
            assert [replica.state(name)[0] for name in NAMES] == [State.HEALTHY] * len(NAMES)
        await asyncio.sleep(21)
        found = [replica.became("e05", State.UNHEALTHY, 40) for replica in replicas.all.values()]
        assert None not in found
        assert max(found) - min(found) < 0.05
        assert {replica.state("e05") for replica in replicas.all.values()} == {(State.UNHEALTHY, Reason.CUDA)}
        assert all(replica.view("e05").ejected for replica in replicas.all.values())

    play(FLEET, act, world=world)


def test_a_newcomer_knows_everything_before_its_first_probe() -> None:
    async def act(replicas: Replicas) -> None:
        await replicas.start("g1")
        await replicas.start("g2")
        await asyncio.sleep(30)
        late = await replicas.start("g3")
        await asyncio.sleep(0.01)
        assert {late.state(name)[0] for name in NAMES} == {State.HEALTHY}
        assert {late.view(name).weight for name in NAMES} == {100}

    play(FLEET, act)


def test_a_frozen_endpoint_is_out_everywhere_once_a_second_replica_has_confirmed_it() -> None:
    world = World(scripts={"e05": frozen_from(40)})

    async def act(replicas: Replicas) -> None:
        for name in ("g1", "g2", "g3", "g4"):
            await replicas.start(name)
        await asyncio.sleep(60)
        found = {name: replica.became("e05", State.UNHEALTHY, 40) for name, replica in replicas.all.items()}
        assert None not in found.values()
        times = sorted(found.values())
        assert times[0] <= 40 + INTERVAL_S + 2.5
        assert 0.7 <= times[2] - times[0] <= 1.5, "the third waits for the second, who needs one timeout"
        assert times[3] - times[2] < 0.05
        probed_by = {member for at, member, endpoint in world.probes if endpoint == "e05" and at > 45}
        assert len(probed_by) == 2, "the owner and its witness, nobody else"

    play(FLEET, act, world=world)


def test_what_only_its_owner_cannot_reach_only_its_owner_avoids() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        for name in ("g1", "g2", "g3"):
            await replicas.start(name)
        await asyncio.sleep(40)
        owner = next(iter(replicas.all.values())).fellowship.owner(EndpointId("e05"))
        world.unreachable.add((str(owner), "e05"))
        await asyncio.sleep(30)
        for name, replica in replicas.all.items():
            assert replica.state("e05")[0] is (State.UNHEALTHY if name == owner else State.HEALTHY), name
            assert replica.view("e05").ejected is (name == owner)
        world.unreachable.clear()
        await asyncio.sleep(60)
        assert {replica.state("e05")[0] for replica in replicas.all.values()} == {State.HEALTHY}
        since = replicas.loop.time()
        await asyncio.sleep(30)
        assert {member for at, member, one in world.probes if one == "e05" and at > since} == {owner}

    play(FLEET, act, world=world)


def test_a_replica_that_dies_is_replaced_within_two_intervals() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        for name in ("g1", "g2", "g3"):
            await replicas.start(name)
        await asyncio.sleep(40)
        dead = replicas.all["g2"].fellowship
        orphans = [one for one in NAMES if dead.owner(EndpointId(one)) == "g2"]
        assert orphans
        await replicas.kill("g2", noticed_after_s=3.0)
        died_at = replicas.loop.time()
        await asyncio.sleep(30)
        for one in orphans:
            again = min(at for at, _, endpoint in world.probes if endpoint == one and at > died_at)
            assert again - died_at <= 2 * INTERVAL_S
        assert world.most_per(INTERVAL_S * 0.9, died_at + 10, died_at + 30) == 1
        states = {replica.state(one)[0] for replica in replicas.all.values() for one in NAMES}
        assert states == {State.HEALTHY}

    play(FLEET, act, world=world)


def test_joins_and_leaves_never_probe_anybody_more_than_twice_an_interval() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        for name in ("g1", "g2"):
            await replicas.start(name)
        await asyncio.sleep(30)
        for number in range(3, 9):
            await replicas.start(f"g{number}")
            await asyncio.sleep(2)
        for number in range(2, 7):
            await replicas.kill(f"g{number}", noticed_after_s=3.0)
            await asyncio.sleep(4)

    play(FLEET, act, world=world)
    assert world.most_per(INTERVAL_S * 0.9, 30, 62) <= 2
    assert world.count(30, 62) / len(NAMES) / (32 / INTERVAL_S) <= 1.1


def test_without_the_backend_all_probe_and_the_total_stays_the_same() -> None:
    world = World(scripts={"e05": frozen_from(120)})

    async def act(replicas: Replicas) -> None:
        for name in ("g1", "g2", "g3", "g4"):
            await replicas.start(name)
        await asyncio.sleep(40)
        replicas.lose_backend()
        assert {replica.state(one)[0] for replica in replicas.all.values() for one in NAMES} == {State.HEALTHY}
        await asyncio.sleep(80)
        before, during = world.count(10, 40) / 30, world.count(60, 120) / 60
        assert abs(during - before) <= 0.1 * before
        assert all(share > 0.2 * during * 60 / 4 for share in world.by_member(60, 120).values())
        await asyncio.sleep(60)
        assert {replica.state("e05")[0] for replica in replicas.all.values()} == {State.UNHEALTHY}
        replicas.find_backend()
        back_at = replicas.loop.time()
        await asyncio.sleep(60)
        assert world.most_per(INTERVAL_S * 0.9, back_at, back_at + 10) <= 3
        assert world.count(back_at, back_at + INTERVAL_S) <= 1.25 * before * INTERVAL_S, "no storm"
        after = world.count(back_at + 10, back_at + 60) / 50
        assert abs(after - before) <= 0.1 * before

    play(FLEET, act, world=world)


def test_users_failures_at_another_gateways_endpoint_make_its_owner_ask_at_once() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        for name in ("g1", "g2"):
            await replicas.start(name)
        await asyncio.sleep(40)
        g1 = replicas.all["g1"]
        foreign = next(one for one in NAMES if g1.fellowship.owner(EndpointId(one)) == "g2")
        for offset_s in (0.0, 1.1, 2.3):
            await asyncio.sleep(offset_s)
            now = replicas.loop.time()
            g1.fellowship.told(TrafficSeen(at=now, endpoint=EndpointId(foreign), failures=1))
            await asyncio.sleep(0.6)
            asked = [member for at, member, one in world.probes if one == foreign and now <= at <= now + 0.6]
            assert asked == ["g2"]

    play(FLEET, act, world=world)


def test_words_of_another_version_are_reported_and_change_nothing() -> None:
    async def act(replicas: Replicas) -> None:
        g1 = await replicas.start("g1")
        await asyncio.sleep(20)
        from pulsegate.control.coordination import Words  # noqa: PLC0415

        g1.fellowship.heard(Words("g9", 99, {"owner|e01": b"\x93\x01\x02\x03"}, (b"junk",)))  # type: ignore[arg-type]
        assert len(g1.news.misread) == 2
        assert g1.state("e01")[0] is State.HEALTHY

    play(FLEET, act)
