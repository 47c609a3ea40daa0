"""Adds up whole ledgers: a million lines in about two seconds, in hardly any memory.

Large files are cut into spans that several processes add up side by side.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from pulsegate.core.booking import UsageKind
from pulsegate.core.money import Currency
from pulsegate.core.spending import EntryKind, Group, Sums
from pulsegate.ledger.lines import ROWS, Row
from pulsegate.ledger.reading import chunks, decoded
from pulsegate.ledger.segments import segments

SPAN_BYTES: Final = 32 * 1024 * 1024
MAX_PROCESSES: Final = 4
_QUARTER_S: Final = 900  # every time zone is off by whole quarters of an hour
_REPORTED: Final = UsageKind.REPORTED.value
_CNY: Final = Currency.CNY.value
_NOTHING: Final = Decimal()


@dataclass(slots=True)
class Total:
    """What some stretch of a ledger adds up to. ``torn`` counts fragments that are no lines."""

    groups: dict[Group, Sums] = field(default_factory=dict[Group, Sums])
    lines: int = 0
    torn: int = 0

    def add(self, other: "Total") -> None:
        """Take in another stretch."""
        for group, sums in other.groups.items():
            self.groups.setdefault(group, Sums()).add(sums)
        self.lines += other.lines
        self.torn += other.torn


class Days:
    """Names the day of a time. Remembers each quarter of an hour, because calendars are slow."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._known: dict[int, str] = {}

    def __call__(self, wall_s: float) -> str:
        """``2026-12-01``."""
        quarter = int(wall_s // _QUARTER_S)
        day = self._known.get(quarter)
        if day is None:
            at = datetime.fromtimestamp(quarter * _QUARTER_S, tz=UTC).astimezone(self._zone)
            day = self._known[quarter] = at.date().isoformat()
        return day


class _Span(NamedTuple):
    path: Path
    start: int
    stop: int


def total_of(
    ledger: Path,
    zone: tzinfo,
    since_s: float | None = None,
    *,
    stops: Mapping[int, int] | None = None,
    processes: int | None = None,
) -> Total:
    """Everything that was booked, or since that time.

    Args:
        ledger: its path.
        zone: where days begin.
        since_s: seconds since the epoch; None: from the beginning.
        stops: how much of each file to read, by inode; None: all that is there.
        processes: how many may work at it; None: as many as there are processors, up to four.

    Raises:
        OSError: a file cannot be read.
    """
    spans = [span for path in segments(ledger, since_s) for span in _spans(path, stops)]
    workers = min(processes or os.cpu_count() or 1, MAX_PROCESSES, len(spans))
    work = partial(_span_total, zone=zone, since_s=since_s)
    total = Total()
    if workers <= 1:
        for span in spans:
            total.add(work(span))
        return total
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        for part in pool.map(work, spans):
            total.add(part)
    return total


def _spans(path: Path, stops: Mapping[int, int] | None) -> list[_Span]:
    status = path.stat()
    size = status.st_size if stops is None else stops.get(status.st_ino, 0)
    return [_Span(path, start, min(start + SPAN_BYTES, size)) for start in range(0, size, SPAN_BYTES)]


def _span_total(span: _Span, *, zone: tzinfo, since_s: float | None) -> Total:
    total, days = Total(), Days(zone)
    for chunk in chunks(span.path, _line_start(span), span.stop):
        rows, broken = decoded(chunk.data, ROWS)
        if since_s is not None:
            rows = [row for row in rows if row.ts >= since_s]
        add_rows(total.groups, rows, days)
        total.lines += len(rows)
        total.torn += len(broken)
    return total


def _line_start(span: _Span) -> int:
    """Where the first line begins that is the span's own: the one that it begins within is the span's before."""
    if span.start == 0:
        return 0
    with span.path.open("rb") as file:
        file.seek(span.start - 1)
        return span.start - 1 + len(file.readline())


def add_rows(groups: dict[Group, Sums], rows: list[Row], day_of: Callable[[float], str]) -> None:
    """Add lines to their groups. Rows are sorted into groups first and added up by C code: twice as fast."""
    times = [row.ts for row in rows]
    if not times:
        return
    first, last = day_of(min(times)), day_of(max(times))
    by_key: dict[tuple[str, str | None, str, str | None, str], list[Row]] = {}
    if first == last:
        for row in rows:
            by_key.setdefault((row.kind, row.provider, row.model, row.client, first), []).append(row)
    else:
        for row in rows:
            by_key.setdefault((row.kind, row.provider, row.model, row.client, day_of(row.ts)), []).append(row)
    for (kind, provider, model, client, day), members in by_key.items():
        group = Group(EntryKind(kind), provider, model, client, day)
        _add_members(groups.setdefault(group, Sums()), members, owes=provider is not None)


def _add_members(sums: Sums, rows: list[Row], *, owes: bool) -> None:
    """``owes``: attempts without a price are unpriced; self-hosted ones may have none."""
    costs = [row.cost for row in rows if row.cost is not None and row.currency == _CNY]
    sums.cny += sum(costs, _NOTHING)
    sums.calls += [row.attempt for row in rows].count(1)
    sums.attempts += len(rows)
    sums.unpriced += len(rows) - len(costs) if owes else 0
    sums.estimated += len(rows) - [row.usage for row in rows].count(_REPORTED)
    sums.prompt_tokens += sum([row.prompt_tokens or 0 for row in rows])
    sums.cached_tokens += sum([row.cached_tokens or 0 for row in rows])
    sums.completion_tokens += sum([row.completion_tokens or 0 for row in rows])
