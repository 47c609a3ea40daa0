from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.window import Period, Window, period_of

SHANGHAI, BERLIN = ZoneInfo("Asia/Shanghai"), ZoneInfo("Europe/Berlin")


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


DAYS = [
    (UTC, "2026-12-01T23:59:59+00:00", "2026-12-01", "2026-12-01T00:00+00:00", "2026-12-02T00:00+00:00"),
    (SHANGHAI, "2026-12-01T16:00:00+00:00", "2026-12-02", "2026-12-02T00:00+08:00", "2026-12-03T00:00+08:00"),
    (BERLIN, "2026-10-25T12:00:00+01:00", "2026-10-25", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
    (BERLIN, "2026-10-25T02:30:00+01:00", "2026-10-25", "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
]
MONTHS = [
    (UTC, "2026-12-31T23:00:00+00:00", "2026-12", "2026-12-01T00:00+00:00", "2027-01-01T00:00+00:00"),
    (BERLIN, "2026-02-28T23:30:00+00:00", "2026-03", "2026-03-01T00:00+01:00", "2026-04-01T00:00+02:00"),
]


@pytest.mark.parametrize(
    ("window", "case"), [*((Window.DAY, day) for day in DAYS), *((Window.MONTH, month) for month in MONTHS)]
)
def test_windows_begin_at_midnight_of_their_zone(window, case):
    zone, when, name, start, end = case
    assert period_of(window, zone, at(when)) == Period(name=name, start_s=at(start), end_s=at(end))


def test_all_time_has_no_bounds():
    assert period_of(Window.TOTAL, UTC, 0.0) == Period(name="total", start_s=None, end_s=None)


@given(
    st.integers(0, 4_000_000_000), st.sampled_from([Window.DAY, Window.MONTH]), st.sampled_from([UTC, SHANGHAI, BERLIN])
)
def test_every_time_lies_in_its_window_and_windows_follow_one_another(when, window, zone):
    period = period_of(window, zone, float(when))
    assert period.start_s is not None
    assert period.end_s is not None
    assert period.start_s <= when < period.end_s
    following = period_of(window, zone, period.end_s)
    assert following.start_s == period.end_s
