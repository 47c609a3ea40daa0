"""The files of one ledger: the one that is written to, those that were rotated away, and what lies beside them.

``ledger.jsonl`` is written to. ``ledger.20261201T012028123456.jsonl`` was rotated away at that time (UTC), so that
names sort by time. ``ledger.jsonl.torn`` holds what was set aside, ``ledger.jsonl.lock`` is locked by whoever rotates
or mends, ``ledger.jsonl.checkpoint`` spares the gate from reading everything at start.
"""

import fcntl
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

MODE = 0o640
_STAMP = "%Y%m%dT%H%M%S%f"
_LATE_LINES_S = 3600.0  # who has not noticed a rotation yet writes on; and clocks are put right


def rotated_name(ledger: Path, wall_s: float) -> Path:
    """What the ledger is called once it is rotated away at that time: a name that is free, whatever clocks do."""
    at = datetime.fromtimestamp(wall_s, tz=UTC)
    while True:
        path = ledger.with_name(f"{ledger.stem}.{at.strftime(_STAMP)}{ledger.suffix}")
        if not path.exists():
            return path
        at += timedelta(microseconds=1)


def rotated(ledger: Path) -> list[Path]:
    """The segments that were rotated away, the oldest first.

    Raises:
        OSError: the directory cannot be read.
    """
    pattern = re.compile(rf"{re.escape(ledger.stem)}\.\d{{8}}T\d{{12}}{re.escape(ledger.suffix)}")
    return sorted(path for path in ledger.parent.iterdir() if pattern.fullmatch(path.name))


def segments(ledger: Path, since_s: float | None = None) -> list[Path]:
    """All files of the ledger that are there, the oldest first; without those that hold nothing since that time.

    Raises:
        OSError: the directory cannot be read.
    """
    old = rotated(ledger)
    if since_s is not None:
        old = [path for path in old if _rotated_at(path) + _LATE_LINES_S >= since_s]
    return [*old, *([ledger] if ledger.exists() else [])]


def _rotated_at(path: Path) -> float:
    """Seconds since the epoch."""
    stamp = path.stem.rpartition(".")[2]
    return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC).timestamp()


def torn_file(ledger: Path) -> Path:
    """Where fragments of lines are kept."""
    return ledger.with_name(f"{ledger.name}.torn")


def checkpoint_file(ledger: Path) -> Path:
    """Where sums are kept between two starts."""
    return ledger.with_name(f"{ledger.name}.checkpoint")


@contextmanager
def sole(ledger: Path) -> Generator[bool]:
    """Rotating and mending are done by one process at a time: False when another one is at it.

    Raises:
        OSError: the lock file cannot be opened.
    """
    lock = os.open(ledger.with_name(f"{ledger.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)
