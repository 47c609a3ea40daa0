"""Reads durations as people write them: ``20ms``, ``1.5s``, ``2m``, ``1h`` or a plain number of seconds."""

import re

_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h)?\s*")


def seconds(value: object) -> float:
    """``value`` in seconds.

    Raises:
        ValueError: it is not a duration.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0:
            raise ValueError(f"{value} is negative; a duration is not")
        return float(value)
    found = _TEXT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is not a duration; write it as 20ms, 1.5s, 2m or a number of seconds")
    number, unit = found.groups()
    return float(number) * _UNITS_S[unit or "s"]
