import json
import resource
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulsegate.ledger.segments import rotated, torn_file
from pulsegate.ledger.syncing import Fsync
from pulsegate.ledger.verifying import verify
from pulsegate.ledger.writer import MAX_WAITING_BYTES
from support.ledgers import NOON, WallClock, entry, writer

DAY_S = 86400.0
FIELDS = [
    *("ts", "op", "attempt", "request_id", "kind", "client", "provider", "model", "endpoint", "status"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "cost", "currency", "price_version", "usage"),
    *("ttft_ms", "duration_ms"),
]


def ops(path):
    return [json.loads(line)["op"] for line in path.read_text().splitlines() if line]


def test_one_line_holds_exactly_the_documented_fields(tmp_path):
    book = writer(tmp_path / "l.jsonl")
    assert book.book(entry())
    line = (tmp_path / "l.jsonl").read_text()
    assert line.endswith("}\n")
    assert list(json.loads(line)) == FIELDS
    assert '"cost":0.001,' in line
    book.close()


def test_lines_are_there_before_anything_else_happens(tmp_path):
    book = writer(tmp_path / "l.jsonl", fsync=Fsync.INTERVAL, fsync_interval_s=3600.0)
    book.book(entry(1))
    book.book(entry(2))
    assert ops(tmp_path / "l.jsonl") == ["op1", "op2"]
    book.close()


def test_a_torn_line_is_mended_before_the_next_and_set_aside(tmp_path):
    path = tmp_path / "l.jsonl"
    path.write_bytes(b'{"ts":1,"op":"half')
    book = writer(path)
    book.book(entry(1))
    assert path.read_bytes().splitlines()[0] == b'{"ts":1,"op":"half'
    assert verify(path).lines == 1
    assert book.torn_bytes == 18
    aside = json.loads(torn_file(path).read_text())
    assert aside == {"ts": NOON, "file": "l.jsonl", "fragment": '{"ts":1,"op":"half'}
    book.close()


def test_a_line_that_lacks_only_its_end_is_a_record_again(tmp_path):
    path = tmp_path / "l.jsonl"
    first = writer(path)
    first.book(entry(1))
    first.close()
    path.write_bytes(path.read_bytes()[:-1])
    book = writer(path)
    book.book(entry(2))
    assert ops(path) == ["op1", "op2"]
    assert not torn_file(path).exists()
    assert book.torn_bytes == 0
    book.close()


def test_a_large_file_is_rotated_away_and_others_follow(tmp_path):
    path, clock = tmp_path / "l.jsonl", WallClock()
    one, other = (writer(path, clock, rotate_bytes=1000) for _ in range(2))
    for number in range(3):
        one.book(entry(number))
    one.tend()
    other.book(entry(3))  # has not noticed yet: goes to the old file, and is not lost
    other.tend()
    other.book(entry(4))
    one.book(entry(5))
    (old,) = rotated(path)
    assert old.name == "l.20261201T120000000000.jsonl"
    assert ops(old) == ["op0", "op1", "op2", "op3"]
    assert ops(path) == ["op4", "op5"]
    one.close()
    other.close()


def test_a_new_day_begins_a_new_file(tmp_path):
    path, clock = tmp_path / "l.jsonl", WallClock()
    book = writer(path, clock, day_of=lambda wall_s: str(wall_s // DAY_S))
    book.book(entry(1, ts=NOON))
    book.tend()
    assert not rotated(path)
    clock.wall_s += DAY_S
    book.tend()
    book.tend()
    book.book(entry(2, ts=clock.wall_s))
    assert [ops(old) for old in rotated(path)] == [["op1"]]
    assert ops(path) == ["op2"]
    book.close()


def test_a_ledger_whose_directory_is_gone_says_so_and_goes_on_when_it_is_back(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    book = writer(home / "l.jsonl")
    assert book.trouble is None
    shutil.rmtree(home)
    book.tend()
    assert book.trouble == f"{home}/l.jsonl cannot be opened: No such file or directory"
    assert not book.book(entry(1))
    home.mkdir()
    book.tend()
    assert book.trouble is None
    assert ops(home / "l.jsonl") == ["op1"]
    book.close()


def test_a_full_disk_keeps_lines_waiting_and_loses_the_rest_loudly(tmp_path):
    path = tmp_path / "l.jsonl"
    path.symlink_to("/dev/full")
    book = writer(path)
    assert not book.book(entry(1))
    assert book.trouble == f"{path} cannot be written: No space left on device"
    big = entry(2, request_id="x" * (MAX_WAITING_BYTES // 2))
    for _ in range(3):
        book.book(big)
    assert book.trouble == f"{path} cannot be written: No space left on device; 2 lines lost"
    path.unlink()
    book.tend()
    assert ops(path) == ["op1", "op2"]
    book.close()


@contextmanager
def files_no_larger_than(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("missing", [1, 2, 100])
def test_a_line_that_the_disk_takes_in_part_is_written_again_as_a_whole(tmp_path, missing):
    path = tmp_path / "l.jsonl"
    book = writer(path)
    book.book(entry(1))
    length = path.stat().st_size
    with files_no_larger_than(2 * length - missing):
        is_whole = book.book(entry(2))
        assert is_whole is (missing == 1)
        assert book.trouble == f"{path} cannot be written: the disk took a part of a line"
        assert not book.book(entry(3))
    book.tend()
    assert book.trouble is None
    found = verify(path)
    assert (found.lines, found.torn, found.twice) == (3, 0 if missing == 1 else 1, 0)
    book.close()


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("fsync", [Fsync.INTERVAL, Fsync.ALWAYS])
def test_what_was_written_is_synced_and_no_descriptor_stays_open(tmp_path, fsync):
    before = open_files()
    book = writer(tmp_path / "l.jsonl", fsync=fsync, fsync_interval_s=0.001, rotate_bytes=1)
    for number in range(3):
        book.book(entry(number))
        book.tend()
    book.close()
    assert book._syncer.count >= 3
    assert open_files() == before
