from datetime import UTC
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsegate.control.ledger import Entry
from pulsegate.core.booking import UsageKind
from pulsegate.core.spending import By, EntryKind, spending_of
from pulsegate.ledger import reading, summing
from pulsegate.ledger.lines import ENTRIES, encoded
from pulsegate.ledger.repairing import InUseError, repair
from pulsegate.ledger.segments import torn_file
from pulsegate.ledger.summing import total_of
from pulsegate.ledger.verifying import verify
from support.ledgers import NOON, entry, writer


def sums_of(path, **how):
    return spending_of(total_of(path, UTC, **how).groups.items())


def test_sums_are_exact_and_what_must_not_be_mixed_in_stands_apart(tmp_path):
    path = tmp_path / "l.jsonl"
    lines = [
        entry(1, cost=Decimal("0.1"), client="a"),
        entry(1, attempt=2, cost=Decimal("0.2"), client="a", usage=UsageKind.ESTIMATED),
        entry(2, provider="zhipu", model="glm", cost=None, currency=None, price_version=None),
        entry(3, provider=None, model="qwen", cost=None, currency=None, price_version=None),
        entry(4, provider=None, model="qwen", cost=Decimal("0.05")),
        entry(5, kind=EntryKind.PROBE, cost=Decimal("0.7")),
        entry(6, currency="USD", cost=Decimal(9)),
    ]
    path.write_bytes(b"".join(map(encoded, lines)))
    found = sums_of(path)
    assert (found.paid.cny, found.paid.calls, found.paid.attempts, found.paid.unpriced) == (Decimal("0.3"), 3, 4, 2)
    assert (found.self_hosted.cny, found.self_hosted.calls, found.self_hosted.unpriced) == (Decimal("0.05"), 2, 0)
    assert (found.probes.cny, found.probes.attempts) == (Decimal("0.7"), 1)
    assert {name: sums.cny for name, sums in found.by[By.PROVIDER].items()} == {
        "deepseek": Decimal("0.3"),
        "zhipu": Decimal(0),
        "self-hosted": Decimal("0.05"),
    }
    assert {name: sums.calls for name, sums in found.by[By.CLIENT].items()} == {"a": 1, "-": 4}


def test_days_are_those_of_the_zone_and_older_lines_are_left_out(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_bytes(b"".join(encoded(entry(n, ts=NOON + n * 43200)) for n in range(4)))
    assert {day: s.calls for day, s in sums_of(path).by[By.DAY].items()} == {
        "2026-12-01": 1,
        "2026-12-02": 2,
        "2026-12-03": 1,
    }
    assert sums_of(path, since_s=NOON + 86400).paid.calls == 2


@pytest.mark.parametrize("processes", [1, 2])
def test_a_file_that_is_read_in_spans_gives_each_line_once(tmp_path, monkeypatch, processes):
    monkeypatch.setattr(summing, "SPAN_BYTES", 1000)
    monkeypatch.setattr(reading, "CHUNK_BYTES", 300)
    path = tmp_path / "l.jsonl"
    path.write_bytes(b"".join(encoded(entry(n, cost=Decimal(n))) for n in range(50)))
    found = sums_of(path, processes=processes)
    assert (found.paid.calls, found.paid.cny) == (50, Decimal(sum(range(50))))


WHOLE = [encoded(entry(n)) for n in range(3)]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 500)), max_size=8))
def test_no_whole_line_is_lost_to_a_torn_one_before_it(written):
    """Torn lines are those that lack their end; the next writer's line is glued to them."""
    data, whole = b"", 0
    for number, length in written:
        line = WHOLE[number]
        data += line[:length]
        whole += length >= len(line) - 1
    records, _ = reading.decoded(data, ENTRIES) if data else ([], [])
    assert len(records) == whole
    assert all(isinstance(record, Entry) for record in records)


def test_verify_names_what_is_wrong(tmp_path):
    path = tmp_path / "l.jsonl"
    free = entry(2, cost=Decimal(0))
    gift = entry(3, cost=Decimal(0), price_version="config: 0/0/0 CNY/M")
    path.write_bytes(encoded(entry(1)) * 2 + encoded(free) + encoded(gift) + b'{"ts":1,"op":' + encoded(entry(4))[:-1])
    found = verify(path)
    assert (found.lines, found.torn, found.unended, found.twice, found.free) == (5, 1, 1, 1, 1)
    assert not found.is_sound
    assert len(found.examples) == 3


def test_repair_keeps_every_record_byte_for_byte_and_sets_fragments_aside(tmp_path):
    path = tmp_path / "l.jsonl"
    one, two = encoded(entry(1)), encoded(entry(2))
    path.write_bytes(one + b'{"ts":1,"op":"ha' + two + b"nonsense\n\n" + one[:-9])
    (done,) = repair(path, NOON)
    assert (done.kept, done.recovered, done.set_aside) == (1, 1, 3)
    assert path.read_bytes() == one + two
    assert torn_file(path).read_text().count("\n") == 3
    assert repair(path, NOON) == []
    assert verify(path).is_sound


def test_a_file_that_is_written_to_is_not_rewritten(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_bytes(b"nonsense\n")
    book = writer(path)
    with pytest.raises(InUseError):
        repair(path, NOON)
    book.close()
    assert repair(path, NOON)[0].set_aside == 1
