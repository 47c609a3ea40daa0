"""Many requests at once over pools that come and go: what holds whatever happens, in whatever order."""

import random
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import assert_never

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pulsegate.core.rescue import Action, Answer, Cancel, FailureKind, Park, Relay, Rescue, RescuePolicy, Start
from pulsegate.core.retry_budget import RetryBudget
from pulsegate.core.routing import Lane, Seat
from support.seating import Room

KINDS = sorted(set(FailureKind) - {FailureKind.EJECTED, FailureKind.DEADLINE})
FAILURES = st.sampled_from(KINDS)
INVARIANTS = [
    "nobody_is_forgotten",
    "who_waits_for_the_budget_is_told_when_it_has_room",
    "answered_once_at_most",
    "two_attempts_at_most_and_the_second_is_a_hedge",
    "attempts_are_limited",
    "bookings_belong_to_extra_attempts_under_way",
    "seats_hold_what_is_under_way",
]
INDEX = st.integers(0, 10**6)


@dataclass(eq=False)
class Client:
    """One request as the data plane sees it."""

    rescue: Rescue
    policy: RescuePolicy
    lane: Lane
    ends_at: float
    under_way: dict[int, Seat] = field(default_factory=dict)
    tried: list[Seat] = field(default_factory=list)
    unconnected: int = 0
    over: bool = False
    relays: int = 0
    answers: int = 0
    parks: int = 0


class DataPlane(RuleBasedStateMachine):
    """Does what the machines say, and checks that each of it makes sense when it is said."""

    @initialize(
        main=st.sampled_from([1, 2, 3, 4, 5, 6]),
        spare=st.integers(0, 2),
        percent=st.sampled_from([0, 20, 100]),
        floor=st.integers(0, 3),
        seed=st.integers(0, 2**32),
    )
    def open(self, main, spare, percent, floor, seed):
        self.room = Room({"main": [f"m{n}" for n in range(main)], "spare": [f"s{n}" for n in range(spare)]})
        self.budget = RetryBudget(percent=percent, floor=floor)
        self.chance = random.Random(seed).random
        self.now = 0.0
        self.live: list[Client] = []
        self.parked: deque[Client] = deque()

    # what happens

    @rule(
        attempts=st.sampled_from([1, 2, 3, 3, 4]),
        hedge=st.sampled_from([True, True, False]),
        lane=st.sampled_from(Lane),
        affinity=st.none() | st.integers(0, 2**64 - 1),
        attempt_deadline_s=st.sampled_from([1.0, 5.0, 100.0]),
        count=st.integers(1, 6),
    )
    def requests(self, *, attempts, hedge, lane, affinity, attempt_deadline_s, count):
        policy = RescuePolicy(
            attempt_deadline_s=attempt_deadline_s, total_deadline_s=20.0, max_attempts=attempts, hedge=hedge
        )
        for _ in range(count):
            rescue = Rescue(policy, self.room.current_plan, lane, self.budget, self.chance, affinity)
            client = Client(rescue, policy, lane, self.now + 20.0)
            self.live.append(client)
            self.budget.in_flight += 1
            actions = rescue.begin(self.now)
            assert len(actions) == 1
            assert isinstance(actions[0], Start | Answer)
            self.do(client, actions)

    def waiting(self) -> list[tuple[Client, int]]:
        return [(client, attempt) for client in self.live for attempt in client.under_way]

    @precondition(lambda self: self.waiting())
    @rule(index=INDEX)
    def token(self, index):
        client, attempt = self.waiting()[index % len(self.waiting())]
        actions = client.rescue.answered(attempt, self.now)
        assert actions[-1] == Relay(attempt), "the first token always wins"
        self.do(client, actions)

    @precondition(lambda self: self.waiting())
    @rule(index=INDEX, kind=FAILURES, retry_after_s=st.none() | st.floats(0, 100))
    def failure(self, index, kind, retry_after_s):
        client, attempt = self.waiting()[index % len(self.waiting())]
        client.under_way.pop(attempt).inflight -= 1
        client.unconnected += kind in (FailureKind.CONNECT, FailureKind.COST)
        others = bool(client.under_way)
        actions = client.rescue.failed(attempt, kind, self.now, retry_after_s)
        assert not (others and actions), "another attempt is under way"
        self.do(client, actions)

    @precondition(lambda self: self.live)
    @rule(index=INDEX)
    def client_leaves(self, index):
        client = self.live[index % len(self.live)]
        actions = client.rescue.client_gone()
        assert all(isinstance(action, Cancel) for action in actions)
        self.do(client, actions)
        self.end(client)

    @rule(passed_s=st.sampled_from([0.05, 0.3, 0.3, 1.0, 1.0, 5.0, 20.0]))
    def time_passes(self, passed_s):
        self.now += passed_s
        for client in [client for client in self.live if client.rescue.due_at <= self.now]:
            last = self.now >= client.ends_at
            actions = client.rescue.deadline(self.now)
            self.do(client, actions)
            assert client.over or not last, "the total deadline is an end"
            assert client.over or client.rescue.due_at >= self.now, "never asks for what it has just been given"
        self.pump()

    def moved(self, ejected: list[Seat], suspect: list[Seat]) -> None:
        """As the data plane does it: who waits there is told."""
        for client in list(self.live):
            waits_at = set(client.under_way.values())
            for seat in waits_at.intersection(ejected):
                if not client.over:
                    actions = client.rescue.endpoint_ejected(seat, self.now)
                    assert isinstance(actions[0], Cancel)
                    self.do(client, actions)
                    assert seat not in client.under_way.values()
            for seat in waits_at.intersection(suspect):
                if not client.over:
                    before = set(client.under_way)
                    self.do(client, client.rescue.endpoint_suspect(seat, self.now))
                    assert before <= set(client.under_way), "a hedge ends nothing"
        self.pump()

    def name(self, index: int) -> str:
        return list(self.room.seats)[index % len(self.room.seats)]

    @rule(index=INDEX)
    def eject(self, index):
        self.moved(*self.room.eject(self.name(index)))

    @precondition(lambda self: self.waiting())
    @rule(index=INDEX)
    def eject_where_somebody_waits(self, index):
        client, attempt = self.waiting()[index % len(self.waiting())]
        self.moved(*self.room.eject(client.under_way[attempt].id))

    @rule(index=INDEX)
    def suspicion(self, index):
        self.moved(*self.room.change(self.name(index), suspect=True))

    @precondition(lambda self: self.waiting())
    @rule(index=INDEX)
    def suspicion_where_somebody_waits(self, index):
        client, attempt = self.waiting()[index % len(self.waiting())]
        self.moved(*self.room.change(client.under_way[attempt].id, suspect=True))

    @rule(
        index=INDEX,
        weight=st.sampled_from([1, 30, 100]),
        low_only=st.booleans(),
        max_inflight=st.sampled_from([None, None, 0, 1, 3]),
    )
    def admit(self, index, weight, low_only, max_inflight):
        self.moved(
            *self.room.change(
                self.name(index),
                weight=weight,
                low_only=low_only,
                max_inflight=max_inflight,
                ejected=False,
                suspect=False,
            )
        )

    # the data plane

    def pump(self) -> None:
        for _ in range(len(self.parked)):
            client = self.parked.popleft()
            if not client.over:
                self.do(client, client.rescue.budget_freed(self.now))

    def do(self, client: Client, actions: tuple[Action, ...]) -> None:
        for action in actions:
            assert not client.over, "nothing follows Relay or Answer"
            match action:
                case Start(attempt, seat):
                    self.start(client, attempt, seat)
                case Cancel(attempt):
                    client.under_way.pop(attempt).inflight -= 1
                case Relay(attempt):
                    assert list(client.under_way) == [attempt], "the others were cancelled before"
                    client.under_way.pop(attempt).inflight -= 1
                    client.relays += 1
                    self.end(client)
                case Answer():
                    client.answers += 1
                    self.refused(client, action)
                    self.end(client)
                case Park():
                    assert client.rescue.parked
                    assert len(client.under_way) <= client.policy.hedge, "a hedge waits beside the one attempt"
                    assert client not in self.parked
                    self.parked.append(client)
                case _:
                    assert_never(action)

    def start(self, client: Client, attempt: int, seat: Seat) -> None:
        assert attempt == len(client.tried), "numbers go up by one"
        assert seat not in client.tried, "never the same seat twice"
        assert seat.weight > 0
        assert not seat.ejected
        assert not seat.full
        tier = next(tier for tier in self.room.plan.tiers if tier.pool == seat.pool)
        assert seat in (tier.low if attempt else self.lane_of(client, tier.pool))
        seat.inflight += 1
        client.under_way[attempt] = seat
        client.tried.append(seat)

    def lane_of(self, client: Client, pool: str) -> tuple[Seat, ...]:
        tier = next(tier for tier in self.room.plan.tiers if tier.pool == pool)
        return tier.low if client.lane is Lane.LOW else tier.normal

    def refused(self, client: Client, answer: Answer) -> None:
        assert not client.under_way, "nothing that may bring a token is under way"
        assert (answer.retry_after_s is not None) == (answer.status in (429, 503))
        if self.now >= client.ends_at or self.spent(client):
            return
        first = not client.tried
        left = [
            seat
            for tier in self.room.plan.tiers
            for seat in (self.lane_of(client, tier.pool) if first else tier.low)
            if seat not in client.tried and not (first and seat.full)
        ]
        assert not left, "somebody could have served it"

    def spent(self, client: Client) -> bool:
        return len(client.tried) - client.unconnected * 2 / 3 >= client.policy.max_attempts - 1e-9

    def end(self, client: Client) -> None:
        assert not client.under_way, "every attempt has had its one end"
        client.over = True
        self.live.remove(client)
        self.budget.in_flight -= 1
        rescue = client.rescue
        assert rescue.answered(0, self.now) == rescue.failed(0, FailureKind.CLOSED, self.now) == ()
        assert rescue.deadline(self.now + 1000) == rescue.budget_freed(self.now) == rescue.client_gone() == ()
        assert not rescue.parked

    # what always holds

    @invariant()
    def nobody_is_forgotten(self):
        for client in getattr(self, "live", []):
            assert client.rescue.due_at <= client.ends_at, "somebody looks after it in time"
            assert client.under_way or client.rescue.due_at <= self.now + 0.25

    @invariant()
    def who_waits_for_the_budget_is_told_when_it_has_room(self):
        assert all(client in self.parked for client in getattr(self, "live", []) if client.rescue.parked)

    @invariant()
    def answered_once_at_most(self):
        assert all(client.relays + client.answers == 0 for client in getattr(self, "live", []))

    @invariant()
    def two_attempts_at_most_and_the_second_is_a_hedge(self):
        for client in getattr(self, "live", []):
            assert len(client.under_way) <= (2 if client.policy.hedge else 1)

    @invariant()
    def attempts_are_limited(self):
        for client in getattr(self, "live", []):
            assert len(client.tried) == client.rescue.attempts
            assert len(client.tried) - client.unconnected <= client.policy.max_attempts

    @invariant()
    def bookings_belong_to_extra_attempts_under_way(self):
        if hasattr(self, "budget"):
            extra = sum(attempt > 0 for client in self.live for attempt in client.under_way)
            assert 0 <= self.budget.used <= extra

    @invariant()
    def seats_hold_what_is_under_way(self):
        if hasattr(self, "room"):
            held = sum(seat.inflight for seat in self.room.seats.values())
            assert held == len(self.waiting())

    def teardown(self):
        for client in list(getattr(self, "live", [])):
            self.do(client, client.rescue.client_gone())
            self.end(client)
        if hasattr(self, "budget"):
            assert (self.budget.used, self.budget.in_flight) == (0, 0)
            assert all(seat.inflight == 0 for seat in self.room.seats.values())


TestDataPlane = DataPlane.TestCase
TestDataPlane.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def step(plane: DataPlane, chance: random.Random) -> None:
    """One thing that happens, with the weights of a bad day."""
    index = chance.randrange(10**6)
    match chance.choices(range(8), [10, 12, 5, 1, 8, 2, 3, 4])[0]:
        case 0:
            plane.requests(
                attempts=3,
                hedge=chance.random() < 0.8,
                lane=chance.choice(list(Lane)),
                affinity=chance.choice([None, index]),
                attempt_deadline_s=chance.choice([2.0, 10.0]),
                count=chance.randint(1, 4),
            )
        case 1 if plane.waiting():
            plane.token(index)
        case 2 if plane.waiting():
            plane.failure(index, chance.choice(KINDS), chance.choice([None, 2.5]))
        case 3 if plane.live:
            plane.client_leaves(index)
        case 5:
            plane.eject(index)
        case 6 if plane.waiting():
            plane.suspicion_where_somebody_waits(index)
        case 7:
            plane.admit(
                index,
                weight=chance.choice([10, 30, 100]),
                low_only=chance.random() < 0.2,
                max_inflight=chance.choice([None, None, 4]),
            )
        case _:
            plane.time_passes(chance.choice([0.05, 0.3, 1.0]))


@pytest.mark.parametrize("seed", range(8))
def test_a_bad_day(seed):
    """Long and crowded, where hypothesis looks for short and odd."""
    plane, chance = DataPlane(), random.Random(seed)
    plane.open(main=5, spare=seed % 3, percent=20, floor=2, seed=seed)
    seen: Counter[str] = Counter()
    for _ in range(1_500):
        step(plane, chance)
        for client in plane.live:
            seen[f"cause {client.rescue.cause}"] += 1
            seen["hedge parked"] += bool(client.under_way and client.rescue.parked)
            seen["replay parked"] += bool(not client.under_way and client.rescue.parked)
            seen["waits for a place"] += bool(not client.under_way and not client.rescue.parked)
        for name in INVARIANTS:
            getattr(plane, name)()
    plane.teardown()
    assert seen["hedge parked"]
    assert seen["replay parked"]
    assert seen["cause suspect"]
    assert seen["cause ejected"]
    assert seen["cause deadline"]
    assert seen["cause connect"]
