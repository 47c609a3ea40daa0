from datetime import UTC
from decimal import Decimal

import pytest

from pulsegate.control.link import LEDGER_CODE, LIMIT_CODE, Admission, Forgone, LedgerState, MayPay, Paid
from pulsegate.control.treasury import Treasury
from pulsegate.core.cost_gate import CostPolicy, Gate
from pulsegate.core.spending import EntryKind
from pulsegate.ledger.segments import checkpoint_file
from pulsegate.ledger.tailing import Tail
from support.ledgers import NOON, WallClock, entry, writer

D = Decimal


class Told:
    """A ``MoneyObserver`` that remembers."""

    def __init__(self):
        self.gates, self.problems = [], []

    def gate_moved(self, standing):
        self.gates.append(standing.gate)

    def ledger_troubled(self, problem):
        self.problems.append(problem)


class House:
    """A treasury over a real ledger file, and a worker's pen."""

    def __init__(self, path, limit="20", *, refuses=True):
        self.path, self.clock, self.told = path, WallClock(), Told()
        self.pen = writer(path, self.clock)
        self.treasury = Treasury(
            Tail(path, UTC),
            writer(path, self.clock),
            CostPolicy(zone=UTC, limit_cny=D(limit)),
            refuses=refuses,
            observer=self.told,
            clock=self.clock,
        )

    def ask(self, number, cny, worker=1):
        return self.treasury.heard(worker, MayPay(number, "deepseek", None, D(cny)))

    def pay(self, number, cny, worker=1):
        self.pen.book(entry(number, op=f"{worker}-{number}", cost=D(cny)))
        assert self.treasury.heard(worker, Paid(number, f"{worker}-{number}", 1, D(cny))) is None

    @property
    def spent(self):
        return self.treasury.standings[0].spent_cny


@pytest.fixture
def path(tmp_path):
    return tmp_path / "l.jsonl"


async def test_what_the_ledger_holds_counts_from_the_start(path):
    writer(path).book(entry(0, cost=D(19)))
    house = House(path)
    await house.treasury.start()
    assert house.ask(1, "1") == Admission(1)
    refused = house.ask(2, "0.5")
    assert (refused.code, refused.reopens_in_s) == (LIMIT_CODE, 43200.0)
    assert refused.problem == "The cost limit, 20 CNY, is reached; 0.00 CNY are not enough for this request."
    assert house.told.gates == [Gate.WARNING]


async def test_an_attempt_counts_once_before_and_after_its_line_is_read(path):
    house = House(path)
    await house.treasury.start()
    house.ask(1, "5")
    house.pay(1, "2")
    assert house.spent == 2
    await house.treasury._look()
    assert house.spent == 2
    _, spending = house.treasury.spending()
    assert (spending.paid.cny, spending.paid.calls) == (2, 1)


async def test_lines_of_workers_that_nobody_told_of_count_too(path):
    house = House(path)
    await house.treasury.start()
    house.pen.book(entry(9, cost=D(3)))
    await house.treasury._look()
    assert house.spent == 3


async def test_a_dead_worker_holds_nothing_and_what_it_spent_stays(path):
    house = House(path)
    await house.treasury.start()
    house.ask(1, "15")
    house.pen.book(entry(1, op="1-1", cost=D(2)))  # and then it died, before it could tell
    house.treasury.gone(1)
    await house.treasury._look()
    assert house.spent == 2
    assert house.ask(2, "18", worker=2) == Admission(2)


async def test_a_forgone_attempt_costs_nothing(path):
    house = House(path)
    await house.treasury.start()
    house.ask(1, "20")
    house.treasury.heard(1, Forgone(1))
    assert house.ask(2, "20") == Admission(2)
    assert house.treasury.allowance() == 0


async def test_a_ledger_that_a_worker_cannot_write_stops_paid_calls(path):
    house = House(path)
    await house.treasury.start()
    house.treasury.heard(1, LedgerState("l.jsonl cannot be written: No space left on device"))
    assert house.ask(1, "1").code == LEDGER_CODE
    house.treasury.heard(1, LedgerState(None))
    assert house.ask(2, "1") == Admission(2)
    assert house.told.problems == ["l.jsonl cannot be written: No space left on device", None]


async def test_continuing_without_a_ledger_still_counts_what_is_told(path):
    house = House(path, refuses=False)
    await house.treasury.start()
    house.treasury.heard(1, LedgerState("full"))
    house.ask(1, "20")
    house.treasury.heard(1, Paid(1, "op", 1, D(20)))
    assert house.ask(2, "1").code == LIMIT_CODE
    assert house.told.gates == [Gate.CLOSED]


async def test_our_own_lines_are_written_and_stand_apart(path):
    house = House(path)
    await house.treasury.start()
    house.treasury.book(entry(1, kind=EntryKind.PROBE, cost=D("0.1")))
    await house.treasury._look()
    _, spending = house.treasury.spending()
    assert (house.spent, spending.probes.cny) == (0, D("0.1"))


async def test_the_checkpoint_makes_the_next_start_read_only_what_came_later(path):
    house = House(path)
    await house.treasury.start()
    house.pen.book(entry(1, cost=D(3)))
    await house.treasury._look()
    house.treasury._close()
    house.pen.book(entry(2, cost=D(4)))
    tail = Tail(path, UTC)
    tail.start()
    assert tail.total.lines == 1
    tail.take(tail.news())
    assert sum(sums.cny for sums in tail.groups.values()) == 7


@pytest.mark.parametrize(
    "spoilt", ["{", '{"version":1,"zone":"UTC","positions":{"1":5},"lines":1,"torn":0,"groups":[]}']
)
async def test_a_checkpoint_that_does_not_fit_is_ignored(path, spoilt):
    writer(path).book(entry(1, cost=D(3)))
    checkpoint_file(path).write_text(spoilt)
    tail = Tail(path, UTC)
    tail.start()
    assert (tail.total.lines, tail.news()) == (1, [])
    assert Tail(path, UTC).resume()  # there is a better one already


async def test_the_tail_follows_rotations_and_waits_for_the_end_of_a_line(path):
    pen = writer(path, rotate_bytes=1000)
    tail = Tail(path, UTC)
    tail.start()
    seen = []
    for number in range(20):
        pen.book(entry(number, ts=NOON))
        if number % 3 == 0:
            pen.tend()
        if number % 4 == 0:
            seen += [row.op for row in tail.news()]
    with path.open("ab") as file:
        file.write(b'{"ts":1')
    seen += [row.op for row in tail.news()]
    assert seen == [f"op{number}" for number in range(20)]
    assert tail.total.torn == 0
