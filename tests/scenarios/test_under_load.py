"""Load and slowness as a whole pool sees them: users' requests, probes, verdicts and weights act on one another."""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from pulsegate.core.events import TrafficSeen
from pulsegate.core.fleet import EndpointSpec, PoolSpec
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.routing import Lane, Seat, compile_plan, pick, seat_views
from support.core_world import SOUND, World

SLOTS, ITL_S, TTFT_S, TOKENS = 8, 0.02, 0.02, (16, 80)
MEAN_S = TTFT_S + ITL_S * (sum(TOKENS) / 2 - 1)
NAMES = tuple(EndpointId(f"e{n}") for n in range(4))
CAPACITY_PER_S = len(NAMES) * SLOTS / MEAN_S
POOL = PoolName("m")
BEGIN_S, REPORT_S = 5.0, 0.1


@dataclass(slots=True)
class Engine:
    """Slots and a queue before them; ``free_at`` is when each slot is done with all that was given to it."""

    free_at: list[float]
    factor: float = 1.0  # how much longer it computes than a sound one
    ttft_s: float = TTFT_S

    def wait_s(self, now: float) -> float:
        return max(0.0, self.free_at[0] - now)

    def take(self, now: float, tokens: int) -> tuple[float, float]:
        """When the first token comes and when the last."""
        first_at = now + self.wait_s(now) + self.ttft_s * self.factor
        last_at = first_at + ITL_S * self.factor * (tokens - 1)
        heapq.heapreplace(self.free_at, last_at)
        return first_at, last_at


class Crowd:
    """Users before a pool of four, and its board, on made-up time. Without ``health`` all weights are equal."""

    def __init__(self, load: float, seconds: float, *, health: bool = True) -> None:
        specs = tuple(EndpointSpec(id=name, pool=POOL, url=f"http://{name}.test") for name in NAMES)
        self.world = World(PoolSpec(name=POOL, endpoints=specs))
        self.engines = {name: Engine([0.0] * SLOTS) for name in NAMES}
        self.seats = {name: Seat(id=name, pool=POOL, weight=100) for name in NAMES}
        self.waits_s: list[float] = []
        self.picked: list[tuple[float, EndpointId]] = []
        self._health = health
        self._chance = Random(7)
        self._until = BEGIN_S + seconds
        at = BEGIN_S
        while (at := at + self._chance.expovariate(load * CAPACITY_PER_S)) < self._until:
            self.world.at(at, self._request)
        for turn in range(int(self._until / REPORT_S)):
            self.world.at(turn * REPORT_S, self._report)

    def run(self) -> "Crowd":
        self.world.run(self._until)
        return self

    def p99_s(self) -> float:
        return sorted(self.waits_s)[int(0.99 * len(self.waits_s))]

    def shares(self, since: float) -> dict[EndpointId, float]:
        counts = Counter(name for at, name in self.picked if at >= since)
        return {name: counts[name] / counts.total() for name in NAMES}

    def _request(self) -> None:
        pools = {pool.name: pool for pool in self.world.board.snapshot.pools}
        if self._health:
            seat_views(self.seats, pools.values())
        else:
            down = replace(pools[POOL], down=False)
            pools = {POOL: down}
        seat = pick(compile_plan("m", (POOL,), pools, self.seats), Lane.NORMAL, self._chance.random)
        assert isinstance(seat, Seat)
        now = self.world.now
        first_at, last_at = self.engines[seat.id].take(now, self._chance.randint(*TOKENS))
        seat.inflight += 1
        self.waits_s.append(first_at - now)
        self.picked.append((now, seat.id))
        self.world.at(last_at, self._leaving(seat))

    @staticmethod
    def _leaving(seat: Seat) -> Callable[[], None]:
        def leave() -> None:
            seat.inflight -= 1

        return leave

    def _report(self) -> None:
        now = self.world.now
        for name, engine in self.engines.items():
            self.world.set(replace(SOUND, ttft_s=engine.wait_s(now) + engine.ttft_s * engine.factor), name)
            decoding = sum(at > now for at in engine.free_at)
            tokens = round(decoding * REPORT_S / (ITL_S * engine.factor))
            seen = TrafficSeen(at=now, endpoint=name, tokens=tokens, inflight=self.seats[name].inflight)
            if tokens:
                self.world.apply(seen)


@pytest.mark.parametrize("load", [0.7, 0.95, 1.2])
def test_health_does_not_push_load_around(load: float) -> None:
    seconds = 120.0
    plain = Crowd(load, seconds, health=False).run()
    crowd = Crowd(load, seconds).run()
    assert crowd.p99_s() <= 1.1 * plain.p99_s() + 0.05
    assert not any(reason == "slow" for name in NAMES for _, _, reason in crowd.world.states(name))
    assert max(crowd.shares(BEGIN_S).values()) < 0.28


def test_an_engine_that_is_slower_than_its_peers_under_the_same_load_loses_its_traffic() -> None:
    crowd = Crowd(0.5, 240.0)
    crowd.engines[NAMES[0]].ttft_s = 0.4
    crowd.run()
    assert (crowd.world.view("e0").state, crowd.world.view("e0").reason) == ("degraded", "slow")
    assert crowd.shares(BEGIN_S + 90.0)["e0"] < 0.05


def test_an_engine_that_computes_four_times_slower_gets_less_by_its_requests_in_flight_alone() -> None:
    plain, crowd = Crowd(0.7, 240.0, health=False), Crowd(0.7, 240.0)
    for one in (plain, crowd):
        one.engines[NAMES[0]].factor = 4.0
        one.run()
    assert plain.shares(BEGIN_S + 30.0)["e0"] < 0.15
    assert crowd.shares(BEGIN_S + 30.0)["e0"] <= plain.shares(BEGIN_S + 30.0)["e0"]
    assert crowd.p99_s() <= 1.1 * plain.p99_s()
