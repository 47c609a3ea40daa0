"""The stretch of time that a cost limit holds for: a day or a month of some time zone, or all time."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum


class Window(StrEnum):
    """When the cost limit begins anew."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """One window: its name (``2026-12-01``, ``2026-12``, ``total``), and from when until when it lasts.

    Seconds since the epoch; None: without beginning or end.
    """

    name: str
    start_s: float | None
    end_s: float | None

    def holds(self, day: str) -> bool:
        """Whether this day (``2026-12-01``, of the window's own time zone) lies in it."""
        return self.name == "total" or day.startswith(self.name)


def period_of(window: Window, zone: tzinfo, wall_s: float) -> Period:
    """The window that this time lies in."""
    if window is Window.TOTAL:
        return Period(name="total", start_s=None, end_s=None)
    # Midnights are made from dates: a day is not 24 hours long when the clocks change.
    first = datetime.fromtimestamp(wall_s, tz=UTC).astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if window is Window.DAY:
        start, following = first.replace(fold=0), first + timedelta(days=1)
        name = start.date().isoformat()
    else:
        start = first.replace(day=1, fold=0)
        following = (start + timedelta(days=31)).replace(day=1)
        name = f"{start:%Y-%m}"
    return Period(name=name, start_s=start.timestamp(), end_s=following.replace(fold=0).timestamp())
