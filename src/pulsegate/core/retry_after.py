"""What a server means by ``Retry-After``: seconds, or a date (RFC 9110, section 10.2.3)."""

from email.utils import parsedate_to_datetime
from typing import Final

MAX_RETRY_AFTER_S: Final = 3600.0


def seconds_asked(value: str, date: str) -> float | None:
    """How long it asks to be left alone, in seconds, at most an hour; None: it does not say.

    A date is measured against the answer's own ``Date``: the server's clock, not ours, decides.

    Args:
        value: of ``Retry-After``, empty for none.
        date: of ``Date``, empty for none.
    """
    value = value.strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(date)).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if seconds == seconds else None  # noqa: PLR0124 - "nan" is no time
