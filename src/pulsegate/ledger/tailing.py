"""Follows a ledger as it grows: sums up what is new, whoever wrote it. Remembers in a checkpoint how far it came.

Files are known by their inode, because they are renamed when they are rotated away. The checkpoint is only a short cut:
when it does not fit the files that are there, everything is read anew.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from pathlib import Path

import msgspec

from pulsegate.core.spending import EntryKind, Group, Sums
from pulsegate.core.window import Period
from pulsegate.ledger.lines import ROWS, Row
from pulsegate.ledger.reading import chunks, decoded
from pulsegate.ledger.segments import checkpoint_file, segments
from pulsegate.ledger.summing import Days, Total, add_rows, total_of

_VERSION = 1


class _GroupRow(msgspec.Struct, array_like=True, frozen=True):
    kind: EntryKind
    provider: str | None
    model: str
    client: str | None
    day: str
    cny: Decimal
    calls: int
    attempts: int
    unpriced: int
    estimated: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class _Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of all lines before these places."""

    version: int
    zone: str
    positions: dict[str, int]  # by inode
    lines: int
    torn: int
    groups: list[_GroupRow]


@dataclass(slots=True)
class Tail:
    """One reader of a ledger. Not thread-safe: one call at a time.

    Attributes:
        total: the sums of everything that was read.
    """

    ledger: Path
    zone: tzinfo
    total: Total = field(default_factory=Total)
    _positions: dict[int, int] = field(default_factory=dict[int, int])
    _gone: dict[int, int] = field(default_factory=dict[int, int])
    _is_changed: bool = False

    @property
    def groups(self) -> dict[Group, Sums]:
        """The sums of everything that was taken."""
        return self.total.groups

    def start(self) -> None:
        """Take over the checkpoint, or read everything if there is none that fits.

        Raises:
            OSError: the ledger's directory or a file cannot be read.
        """
        if not self.resume():
            self._positions = {path.stat().st_ino: _whole_lines(path) for path in segments(self.ledger)}
            self.total = total_of(self.ledger, self.zone, stops=self._positions, processes=1)
            self._is_changed = True
            self.save()  # at once: who is killed now need not read it all again

    def news(self) -> list[Row]:
        """The lines that came since the last call; they are not in ``total`` yet: see ``take``.

        Raises:
            OSError: a file cannot be read.
        """
        rows: list[Row] = []
        present: dict[int, int] = {}
        for path in segments(self.ledger):
            with suppress(FileNotFoundError):  # it was rotated away since we looked: its new name comes next time
                status = path.stat()
                at = self._positions.get(status.st_ino, self._gone.get(status.st_ino, 0))
                if status.st_size < at:
                    at = 0  # another file with the number of one that was deleted
                for chunk in chunks(path, at, to_end=False) if status.st_size > at else ():
                    found, broken = decoded(chunk.data, ROWS)
                    rows += found
                    self.total.torn += len(broken)
                    at = chunk.end
                present[status.st_ino] = max(at, present.get(status.st_ino, 0))
        # A file that is renamed while we look may be overlooked once, and is not new the next time.
        self._gone = {inode: at for inode, at in self._positions.items() if inode not in present}
        self._positions = present
        return rows

    def take(self, rows: list[Row]) -> None:
        """Add lines to ``total``."""
        if rows:
            add_rows(self.total.groups, rows, Days(self.zone))
            self.total.lines += len(rows)
            self._is_changed = True

    def save(self) -> None:
        """Write the checkpoint, if there is something new. One that cannot be written costs time at the next start."""
        if not self._is_changed:
            return
        document = _Checkpoint(
            version=_VERSION,
            zone=str(self.zone),
            positions={str(inode): at for inode, at in self._positions.items()},
            lines=self.total.lines,
            torn=self.total.torn,
            groups=list(_rows(self.total.groups)),
        )
        path = checkpoint_file(self.ledger)
        new = path.with_name(f"{path.name}.new")
        with suppress(OSError):
            new.write_bytes(msgspec.json.encode(document))
            new.replace(path)
            self._is_changed = False

    def resume(self) -> bool:
        """Take over the checkpoint; False: there is none that fits."""
        try:
            known = msgspec.json.decode(checkpoint_file(self.ledger).read_bytes(), type=_Checkpoint)
        except (OSError, msgspec.DecodeError):
            return False
        positions = {int(inode): at for inode, at in known.positions.items()}
        if known.version != _VERSION or known.zone != str(self.zone) or not self._fits(positions):
            return False
        self._positions = positions
        groups = {_group(row): _sums(row) for row in known.groups}
        self.total = Total(groups=groups, lines=known.lines, torn=known.torn)
        return True

    def _fits(self, positions: dict[int, int]) -> bool:
        """Whether every file that was read is there, has not become shorter, and has a line that ends there."""
        sizes = {status.st_ino: (path, status.st_size) for path, status in _present(self.ledger)}
        for inode, at in positions.items():
            path, size = sizes.get(inode, (self.ledger, -1))
            if size < at or not _ends_line(path, at):
                return False
        return True


def total_in(ledger: Path, zone: tzinfo, period: Period) -> Total:
    """Everything that was booked in a period: by the checkpoint and what came later; if none fits everything is read.

    ``lines`` may count all there are.

    Raises:
        OSError: a file cannot be read.
    """
    tail = Tail(ledger, zone)
    if not tail.resume():
        return total_of(ledger, zone, period.start_s)
    tail.take(tail.news())
    total = tail.total
    total.groups = {group: sums for group, sums in total.groups.items() if period.holds(group.day)}
    return total


def _present(ledger: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in segments(ledger):
        with suppress(FileNotFoundError):
            yield path, path.stat()


def _ends_line(path: Path, at: int) -> bool:
    if at == 0:
        return True
    with path.open("rb") as file:
        file.seek(at - 1)
        return file.read(1) == b"\n"


def _whole_lines(path: Path) -> int:
    """Where the last whole line ends."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        while at > 0:
            step = min(65536, at)
            file.seek(at - step)
            found = file.read(step).rfind(b"\n")
            if found >= 0:
                return at - step + found + 1
            at -= step
    return 0


def _rows(groups: dict[Group, Sums]) -> Iterator[_GroupRow]:
    for group, sums in groups.items():
        yield _GroupRow(
            *group,
            sums.cny,
            sums.calls,
            sums.attempts,
            sums.unpriced,
            sums.estimated,
            sums.prompt_tokens,
            sums.cached_tokens,
            sums.completion_tokens,
        )


def _group(row: _GroupRow) -> Group:
    return Group(row.kind, row.provider, row.model, row.client, row.day)


def _sums(row: _GroupRow) -> Sums:
    return Sums(
        cny=row.cny,
        calls=row.calls,
        attempts=row.attempts,
        unpriced=row.unpriced,
        estimated=row.estimated,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        completion_tokens=row.completion_tokens,
    )
