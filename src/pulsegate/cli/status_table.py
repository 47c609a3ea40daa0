"""The table of endpoints for terminals, wide and narrow."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import log

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pulsegate.control.ready_document import ReadyDocument
from pulsegate.status.shapes import Coordination, Endpoint

STYLES = {
    "healthy": "green",
    "degraded": "yellow",
    "unhealthy": "bold red",
    "misconfigured": "magenta",
    "warming": "blue",
    "draining": "cyan",
}
_WORST_FIRST = ("unhealthy", "misconfigured", "degraded", "warming", "draining", "healthy")
_READINESS_STYLES = {"ready": "bold green", "degraded": "bold yellow", "not_ready": "bold red"}
_BARS = "▁▂▃▄▅▆▇█"
_LOWEST_MS, _HIGHEST_MS = 10.0, 1000.0  # the bars' scale is logarithmic and the same for all endpoints
_FAILED = "×"  # noqa: RUF001 - the sign for a probe without a token
_MIN_ID = 8
_RIGHT = frozenset({"TTFT", "SINCE", "WT", "INFL"})

# From which width of the terminal on a column is shown.
_WIDTH_REASON = 44
_WIDTH_TTFT = 52
_WIDTH_SINCE = 62
_WIDTH_WEIGHT = 70
_WIDTH_BARS = 78
_WIDTH_INFLIGHT = 90
_WIDTH_POOL = 112
_BARS_SHOWN = ((142, 30), (100, 16), (0, 10))  # (from which width of the terminal, how many)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One probe of the past: its time to the first token (None: no token came), and whether that was in time."""

    ttft_ms: float | None
    fast: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One endpoint and its last probes, newest last; without them no bars are shown."""

    endpoint: Endpoint
    beats: tuple[Beat, ...] = ()


def table(
    rows: Sequence[Row], readiness: ReadyDocument | None, *, now: float, width: int, height: int | None = None
) -> Group:
    """The whole picture. ``now`` is seconds since the epoch; ``height`` limits the lines: the worst rows are kept."""
    shown = fitting([row.endpoint for row in rows], height)
    kept = [rows[index] for index in shown]
    left_out = [row for index, row in enumerate(rows) if index not in set(shown)] if len(kept) < len(rows) else []
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", expand=False)
    pools = len({row.endpoint.model for row in rows})
    columns = _columns(width, show_pool=pools > 1, show_bars=any(row.beats for row in rows))
    widths = _widths(columns, width, [row.endpoint for row in kept])
    for name in columns:
        justify = "right" if name in _RIGHT else "left"
        grid.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=widths[name])
    for row in kept:
        cells = _cells(row, now, width)
        grid.add_row(*(cells[name] for name in columns))
    return Group(_summary(rows, readiness), grid, *([_left_out(left_out)] if left_out else []))


def _widths(columns: Sequence[str], width: int, endpoints: Sequence[Endpoint]) -> dict[str, int]:
    """The id takes what the others leave, so that a narrow terminal cuts ids and not figures."""
    widths = {
        "STATE": _longest("STATE", (endpoint.state for endpoint in endpoints)),
        "REASON": _longest("REASON", (endpoint.reason for endpoint in endpoints)),
        "POOL": min(14, _longest("POOL", (endpoint.model for endpoint in endpoints))),
        "TTFT": 8,
        "SINCE": 5,
        "WT": 3,
        "INFL": 4,
        "PROBES": _bars_shown(width),
    }
    rest = width - sum(widths[name] + 1 for name in columns if name != "ENDPOINT") - 1
    widths["ENDPOINT"] = max(_MIN_ID, min(rest, _longest("ENDPOINT", (endpoint.id for endpoint in endpoints))))
    return widths


def _longest(title: str, words: Iterable[str]) -> int:
    return max([len(title), *(len(word) for word in words)])


def _columns(width: int, *, show_pool: bool, show_bars: bool) -> list[str]:
    wanted = (
        ("ENDPOINT", True),
        ("POOL", show_pool and width >= _WIDTH_POOL),
        ("STATE", True),
        ("REASON", width >= _WIDTH_REASON),
        ("SINCE", width >= _WIDTH_SINCE),
        ("WT", width >= _WIDTH_WEIGHT),
        ("TTFT", width >= _WIDTH_TTFT),
        ("PROBES", show_bars and width >= _WIDTH_BARS),
        ("INFL", width >= _WIDTH_INFLIGHT),
    )
    return [name for name, shown in wanted if shown]


def _cells(row: Row, now: float, width: int) -> dict[str, Text]:
    endpoint = row.endpoint
    style = STYLES.get(endpoint.state, "")
    return {
        "ENDPOINT": Text(endpoint.id),
        "POOL": Text(endpoint.model, style="dim"),
        "STATE": Text(endpoint.state, style=style),
        "REASON": Text("" if endpoint.reason == "ok" else endpoint.reason, style=style),
        "SINCE": Text(age(now - datetime.fromisoformat(endpoint.since).timestamp()), style="dim"),
        "WT": Text(str(endpoint.weight)),
        "TTFT": Text("-" if endpoint.ttft_ms is None else f"{endpoint.ttft_ms:.0f} ms"),
        "PROBES": bars(row.beats[-_bars_shown(width) :]),
        "INFL": Text(str(endpoint.inflight)),
    }


def _bars_shown(width: int) -> int:
    return next(number for least, number in _BARS_SHOWN if width >= least)


def bars(beats: Sequence[Beat]) -> Text:
    """A bar per probe, higher for slower; a cross where no token came."""
    text = Text()
    for beat in beats:
        if beat.ttft_ms is None:
            text.append(_FAILED, style="bold red")
        else:
            text.append(_bar(beat.ttft_ms), style="green" if beat.fast else "yellow")
    return text


def _bar(ttft_ms: float) -> str:
    share = log(max(ttft_ms, _LOWEST_MS) / _LOWEST_MS) / log(_HIGHEST_MS / _LOWEST_MS)
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]


def age(seconds: float) -> str:
    """``7s``, ``12m``, ``3h``, ``2d``."""
    whole = max(0, int(seconds))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= 2 * size or (unit == "m" and whole >= size):
            return f"{whole // size}{unit}"
    return f"{whole}s"


def fitting(endpoints: Sequence[Endpoint], height: int | None) -> list[int]:
    """Which of them to show in so many lines, by index, in their order: the worst, if not all."""
    everyone = list(range(len(endpoints)))
    if height is None or len(endpoints) <= height:
        return everyone
    rank = {state: number for number, state in enumerate(_WORST_FIRST)}
    worst_first = sorted(everyone, key=lambda index: rank.get(endpoints[index].state, 0))
    return sorted(worst_first[: max(0, height - 1)])  # one line says how many are left out


def _left_out(rows: Sequence[Row]) -> Text:
    return Text.assemble((f"... and {len(rows):,} more: ", "dim"), _counts(rows))


def _summary(rows: Sequence[Row], readiness: ReadyDocument | None) -> Text:
    text = Text()
    if readiness is not None:
        text.append(readiness.status.replace("_", " "), style=_READINESS_STYLES.get(readiness.status, "bold"))
        if readiness.reasons:
            text.append(f" ({'; '.join(readiness.reasons)})", style="dim")
        text.append(": ")
    text.append(_counts(rows) if rows else Text("no endpoints"))
    return text


def _counts(rows: Sequence[Row]) -> Text:
    counted = Counter(row.endpoint.state for row in rows)
    known = [state for state in reversed(_WORST_FIRST) if counted[state]]
    return Text(", ").join(Text(f"{counted[state]:,} {state}", style=STYLES[state]) for state in known)


def gateways(coordination: Coordination, endpoints: Sequence[Endpoint]) -> Table:
    """Who shares the probes: each gateway with how many endpoints it probes."""
    held = Counter(endpoint.owner for endpoint in endpoints)
    title = f"{coordination.state}, mode {coordination.mode}, epoch {coordination.epoch}"
    grid = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", title=title, title_justify="left")
    grid.add_column("GATEWAY", overflow="ellipsis")
    grid.add_column("PROBES", justify="right")
    for member in coordination.members:
        grid.add_row(f"{member} (this one)" if member == coordination.member else member, str(held[member]))
    if coordination.detail:
        grid.caption = Text(coordination.detail, style="bold red")
    return grid
