"""Several real processes write one ledger, are killed in the middle, and rotate it under one another."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from pulsegate.ledger.repairing import repair
from pulsegate.ledger.segments import rotated
from pulsegate.ledger.verifying import verify
from support.ledgers import writer

WRITE = """
import sys
from pathlib import Path
from support.ledgers import entry, writer
name, count, rotate = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
book = writer(Path(sys.argv[1]), rotate_bytes=rotate or None)
number = 0
while count < 0 or number < count:
    assert book.book(entry(0, op=f"{name}-{number}", request_id="x" * (number % 9000)))
    number += 1
    if number % 50 == 0:
        book.tend()
    if number % 500 == 0:
        print(number, flush=True)
book.close()
"""
TESTS = Path(__file__).parents[1]


def writing(path: Path, name: str, count: int, rotate: int = 0) -> subprocess.Popen[str]:
    program = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n{WRITE}"
    command = [sys.executable, "-c", program, str(path), name, str(count), str(rotate)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own program


def test_no_line_is_lost_or_glued_while_everybody_rotates(tmp_path):
    path = tmp_path / "l.jsonl"
    writers = [writing(path, f"w{number}", 1500, 200_000) for number in range(4)]
    for one in writers:
        one.communicate()
        assert one.returncode == 0
    found = verify(path)
    assert (found.lines, found.torn, found.twice, found.unended) == (6000, 0, 0, 0)
    assert len(rotated(path)) > 3


def test_processes_that_are_killed_leave_whole_lines_once_repaired(tmp_path):
    path = tmp_path / "l.jsonl"
    told = 0
    for life in range(4):
        one = writing(path, f"life{life}", -1)
        assert one.stdout is not None
        told += int(one.stdout.readline())
        time.sleep(0.01 * life)
        one.send_signal(signal.SIGKILL)
        told += 500 * len(one.communicate()[0].split())
    writer(path).close()  # whoever comes next mends the end
    repair(path, 0.0)
    found = verify(path)
    assert found.lines >= told
    assert (found.torn, found.twice, found.unended) == (0, 0, 0)
