"""Several gateways over one fleet when things come to pass at the wrong moment, on virtual time."""

import asyncio

from pulsegate.core.events import TrafficSeen
from pulsegate.core.fleet import ProbePolicy
from pulsegate.core.health import State
from pulsegate.core.ids import EndpointId
from pulsegate.core.probe import Fault, FaultClass
from pulsegate.core.sharding import Mode, Posts, deal
from support.fake_engine import CUDA, FAST, SILENT, Answer
from support.replicas import Replica, Replicas, World, play
from support.samples import fleet, pool, spec

NAMES = [f"e{number:02}" for number in range(8)]
INTERVAL_S = 3.0
POLICY = ProbePolicy(deep_interval_s=0.0)
FLEET = fleet(pool(*map(spec, NAMES), probe=POLICY))
E = "e05"
STARTING = Answer(after_s=0.01, fault=Fault(kind=FaultClass.STARTING, detail="loading"))


async def started(replicas: Replicas, count: int = 3, *, for_s: float = 30.0) -> None:
    for number in range(1, count + 1):
        await replicas.start(f"g{number}")
    await asyncio.sleep(for_s)


def posts_of(replicas: Replicas) -> Posts:
    return deal(FLEET, replicas.meeting.view.members, Mode.SHARD)[EndpointId(E)]


def owner_of(replicas: Replicas) -> Replica:
    return replicas.all[posts_of(replicas).owner]


def witness_of(replicas: Replicas) -> Replica:
    return replicas.all[str(posts_of(replicas).witness)]


def test_an_endpoint_that_became_another_server_is_still_probed() -> None:
    world = World()
    moved = fleet(pool(*(spec(one, url="http://other.test:1" if one == E else None) for one in NAMES), probe=POLICY))

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        for replica in replicas.all.values():
            replica.prober.change(moved)
        changed_at = replicas.loop.time()
        await asyncio.sleep(20)
        asked = [member for at, member, one in world.probes if one == E and at > changed_at]
        assert set(asked) == {owner_of(replicas).name}
        assert {replica.state(E)[0] for replica in replicas.all.values()} == {State.HEALTHY}

    play(FLEET, act, world=world)


def test_what_others_say_of_the_server_that_was_there_before_is_not_believed() -> None:
    world = World()
    moved = fleet(pool(*(spec(one, url="http://other.test:1" if one == E else None) for one in NAMES), probe=POLICY))

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        ahead = next(one for one in replicas.all.values() if one.name not in posts_of(replicas))
        world.unreachable.add((str(ahead.name), E))  # the new server is not there yet
        ahead.prober.change(moved)
        changed_at = replicas.loop.time()
        await asyncio.sleep(60)
        assert ahead.became(E, State.HEALTHY, changed_at) is None
        assert ahead.view(E).weight == 0
        assert all(one.state(E)[0] is State.HEALTHY for one in replicas.all.values() if one is not ahead)
        world.unreachable.clear()
        await asyncio.sleep(60)
        assert ahead.state(E)[0] is State.HEALTHY

    play(FLEET, act, world=world)


def test_a_restart_that_only_the_witness_saw_does_not_silence_the_owner() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        owner, witness = owner_of(replicas), witness_of(replicas)
        world.unreachable.add((str(owner.name), E))
        world.scripts[E] = lambda _at: STARTING
        await asyncio.sleep(15)
        world.scripts.pop(E)
        await asyncio.sleep(20)
        status = witness.board.status(EndpointId(E))
        assert status is not None
        assert status.incarnation == 2
        world.unreachable.clear()
        await asyncio.sleep(60)
        assert {one.state(E)[0] for one in replicas.all.values()} == {State.HEALTHY}
        world.scripts[E] = lambda _at: CUDA
        await asyncio.sleep(10)
        assert {one.state(E)[0] for one in replicas.all.values()} == {State.UNHEALTHY}

    play(FLEET, act, world=world)


def test_what_its_owner_alone_avoids_stays_in_use_when_the_witness_leaves() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        await started(replicas, 5)
        owner, witness = owner_of(replicas), witness_of(replicas)
        world.unreachable.add((str(owner.name), E))
        await asyncio.sleep(40)
        left_at = replicas.loop.time()
        await replicas.kill(str(witness.name), noticed_after_s=0.0)
        await asyncio.sleep(30)
        for replica in replicas.all.values():
            if replica is not owner and replica.fellowship.owner(EndpointId(E)) == owner.name:
                assert replica.became(E, State.UNHEALTHY, left_at) is None, replica.name
                assert replica.view(E).weight == 100, replica.name
        assert owner_of(replicas) is owner

    play(FLEET, act, world=world)


def test_what_was_said_before_the_backend_was_lost_is_not_believed_after() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        world.scripts[E] = lambda _at: CUDA
        await asyncio.sleep(20)
        assert {one.state(E)[0] for one in replicas.all.values()} == {State.UNHEALTHY}
        owner = owner_of(replicas)
        replicas.lose_backend()
        world.scripts.pop(E)
        await asyncio.sleep(120)
        assert {one.state(E)[0] for one in replicas.all.values()} == {State.HEALTHY}
        for number, replica in enumerate((owner, *(one for one in replicas.all.values() if one is not owner))):
            replicas.loop.call_later(0.3 * number, replicas.meeting.enter, replica.name, replica.fellowship)
        back_at = replicas.loop.time()
        await asyncio.sleep(20)
        for replica in replicas.all.values():
            assert replica.became(E, State.UNHEALTHY, back_at) is None, replica.name
            assert replica.view(E).weight == 100, replica.name

    play(FLEET, act, world=world)


def test_tokens_from_before_it_froze_do_not_make_a_frozen_endpoint_busy() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        await started(replicas, 2)
        owner = owner_of(replicas)
        other = next(one for one in replicas.all.values() if one is not owner)
        status = owner.board.status(EndpointId(E))
        assert status is not None
        assert status.next_probe_at is not None
        froze_at = status.next_probe_at - 0.05
        world.scripts[E] = lambda at: SILENT if at >= froze_at else FAST
        await asyncio.sleep(froze_at - replicas.loop.time())
        other.fellowship.told(TrafficSeen(at=froze_at, endpoint=EndpointId(E), tokens=5, inflight=1))
        await asyncio.sleep(30)
        found = owner.became(E, State.UNHEALTHY, froze_at)
        assert found is not None
        assert found - froze_at <= 2.0

    play(FLEET, act, world=world)


def test_an_endpoint_that_only_one_gateway_knows_is_probed_by_it() -> None:
    world = World()
    names = [f"e{number:02}" for number in range(16)]
    larger = fleet(pool(*map(spec, names), probe=POLICY))

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        ahead = replicas.all["g1"]
        ahead.prober.change(larger)
        await asyncio.sleep(60)
        assert {ahead.state(name)[0] for name in names} == {State.HEALTHY}
        await asyncio.sleep(30)
        assert all(world.count_of(name, 70, 120) <= 2 * 50 / INTERVAL_S for name in names)
        for replica in replicas.all.values():
            replica.prober.change(larger)
        changed_at = replicas.loop.time()
        await asyncio.sleep(60)
        for replica in replicas.all.values():
            assert {replica.state(name)[0] for name in names} == {State.HEALTHY}
        assert world.most_per(INTERVAL_S * 0.9, changed_at + 10, changed_at + 60) == 1

    play(FLEET, act, world=world)


def test_who_gets_a_new_configuration_last_knows_at_once_what_the_others_know() -> None:
    names = [f"e{number:02}" for number in range(16)]
    larger = fleet(pool(*map(spec, names), probe=POLICY))

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        for name in ("g1", "g2"):
            replicas.all[name].prober.change(larger)
        await asyncio.sleep(62)
        last = replicas.all["g3"]
        last.prober.change(larger)
        await asyncio.sleep(0.01)
        assert {last.state(name)[0] for name in names} == {State.HEALTHY}

    play(FLEET, act)


def test_a_witness_stands_in_for_an_owner_that_says_nothing() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        owner, witness = owner_of(replicas), witness_of(replicas)
        pass_on = replicas.meeting.pass_on
        replicas.meeting.pass_on = lambda words: words.author == owner.name or pass_on(words)  # type: ignore[method-assign]
        await asyncio.sleep(45)
        quiet_at = replicas.loop.time()
        world.scripts[E] = lambda _at: CUDA
        await asyncio.sleep(10)
        assert {one.state(E)[0] for one in replicas.all.values()} == {State.UNHEALTHY}
        asked = {member for at, member, one in world.probes if one == E and at > quiet_at}
        assert asked == {owner.name, witness.name}
        world.scripts.pop(E)
        replicas.meeting.pass_on = pass_on  # type: ignore[method-assign]
        await asyncio.sleep(60)
        back_at = replicas.loop.time()
        await asyncio.sleep(20)
        assert {one.state(E)[0] for one in replicas.all.values()} == {State.HEALTHY}
        assert {member for at, member, one in world.probes if one == E and at > back_at} == {owner.name}

    play(FLEET, act, world=world)


def test_who_comes_back_first_waits_for_the_others_even_if_it_must_hear_everything_twice() -> None:
    async def act(replicas: Replicas) -> None:
        await started(replicas)
        replicas.lose_backend()
        await asyncio.sleep(10)
        first = replicas.all["g1"]
        replicas.meeting.enter(first.name, first.fellowship)
        first.fellowship.joined(replicas.meeting.view, ())
        assert first.fellowship.company.owned == len(NAMES)
        assert first.news.said[-1].startswith("joined")

    play(FLEET, act)


def test_nobody_owns_anything_before_the_others_were_heard() -> None:
    async def act(replicas: Replicas) -> None:
        replicas.meeting.enter = lambda _member, _listener: None  # type: ignore[method-assign]
        alone = await replicas.start("g1")
        await asyncio.sleep(1)
        assert alone.fellowship.owner(EndpointId(E)) is None

    play(FLEET, act)


def test_the_owner_hears_what_users_of_the_witness_meet() -> None:
    world = World()

    async def act(replicas: Replicas) -> None:
        await started(replicas)
        owner, witness = owner_of(replicas), witness_of(replicas)
        world.unreachable.add((str(owner.name), E))
        await asyncio.sleep(60)
        now = replicas.loop.time()
        witness.fellowship.told(TrafficSeen(at=now, endpoint=EndpointId(E), failures=1))
        await asyncio.sleep(0.6)
        assert owner.name in {member for at, member, one in world.probes if one == E and at >= now}

    play(FLEET, act, world=world)
