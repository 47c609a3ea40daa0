"""A file whose last line has no end: a process died, or the disk was full, in the middle of a write.

The end is given a newline, so that the next line is not glued to it. Nothing is ever cut off: other processes may be
appending at this moment. What is left is a line that no reader takes for a record; it is set aside for people to look
at. A line that lacks nothing but its end is a record again.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from pulsegate.ledger.lines import is_whole
from pulsegate.ledger.segments import MODE, sole, torn_file

_LONGEST_BYTES: Final = 64 * 1024


class Aside(msgspec.Struct, kw_only=True):
    """What was set aside: one JSON line of the file beside the ledger."""

    ts: float
    file: str
    fragment: str


def mend_end(fd: int, ledger: Path, wall_s: float) -> int:
    """Look at the end of an open ledger file and mend it.

    Args:
        fd: open for reading and appending.
        ledger: where the ledger is.
        wall_s: now.

    Returns:
        how many bytes of a torn line were found; 0 when there is none.

    Raises:
        OSError: it cannot be read or written.
    """
    if is_ended(fd):
        return 0
    with sole(ledger) as is_ours:
        if not is_ours or is_ended(fd):
            return 0
        os.write(fd, b"\n")
        size = os.fstat(fd).st_size
        start = max(0, size - _LONGEST_BYTES)
        end = os.pread(fd, size - start, start).rstrip(b"\n")
        fragment = end[end.rfind(b"\n") + 1 :]
        if is_whole(fragment):
            return 0
        set_aside(ledger, ledger.name, [fragment], wall_s)
        return len(fragment)


def is_ended(fd: int) -> bool:
    """Whether the next line begins where the file ends."""
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def set_aside(ledger: Path, file: str, fragments: list[bytes], wall_s: float) -> None:
    """Keep fragments of lines beside the ledger.

    Raises:
        OSError: they cannot be written.
    """
    asides = [Aside(ts=wall_s, file=file, fragment=fragment.decode("utf-8", "replace")) for fragment in fragments]
    fd = os.open(torn_file(ledger), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        os.write(fd, msgspec.json.Encoder().encode_lines(asides))
    finally:
        os.close(fd)
