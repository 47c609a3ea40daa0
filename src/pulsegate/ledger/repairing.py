"""Rewrites the files of a ledger that hold torn lines: records stay byte for byte, fragments are set aside.

Only for files that no process writes to. The end of the file that is written to is mended by whoever opens it.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from pulsegate.ledger.lines import ENTRIES, is_whole, pieces
from pulsegate.ledger.mending import set_aside
from pulsegate.ledger.reading import chunks, decoded
from pulsegate.ledger.segments import segments


class InUseError(Exception):
    """A process writes to this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """One file that was rewritten: records kept, fragments set aside, records got out of broken lines."""

    file: str
    kept: int
    set_aside: int
    recovered: int


def repair(ledger: Path, wall_s: float) -> list[Repaired]:
    """Mend every file that needs it.

    Raises:
        InUseError: a file that needs it is written to; nothing was changed in it.
        OSError: a file cannot be read or written.
    """
    return [done for path in segments(ledger) if (done := _repair_file(ledger, path, wall_s)) is not None]


def _repair_file(ledger: Path, path: Path, wall_s: float) -> Repaired | None:
    if _is_sound(path):
        return None
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        try:
            flock(fd, LOCK_EX | LOCK_NB)
        except BlockingIOError as exc:
            raise InUseError(f"{path} is written to by a running process; stop it first") from exc
        return _rewrite(ledger, path, wall_s)
    finally:
        os.close(fd)


def _is_sound(path: Path) -> bool:
    last = b"\n"
    for chunk in chunks(path):
        if decoded(chunk.data, ENTRIES)[1]:
            return False
        last = chunk.data[-1:]
    return last == b"\n"


def _rewrite(ledger: Path, path: Path, wall_s: float) -> Repaired:
    kept = recovered = 0
    fragments: list[bytes] = []
    new = path.with_name(f"{path.name}.repairing")
    try:
        with new.open("wb") as out:
            for chunk in chunks(path):
                for line in chunk.data.split(b"\n"):
                    if not line:
                        continue
                    if is_whole(line):
                        out.write(line + b"\n")
                        kept += 1
                        continue
                    for piece in pieces(line):
                        if is_whole(piece):
                            out.write(piece + b"\n")
                            recovered += 1
                        else:
                            fragments.append(piece)
            out.flush()
            os.fsync(out.fileno())
        if fragments:
            set_aside(ledger, path.name, fragments, wall_s)
        new.chmod(path.stat().st_mode & 0o777)
        new.replace(path)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise
    return Repaired(file=path.name, kept=kept, set_aside=len(fragments), recovered=recovered)
