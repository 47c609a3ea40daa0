"""The clocks of this process. Nothing else in Pulsegate reads a clock; everyone is handed times or this object."""

import asyncio
import sys
import time
from collections.abc import Awaitable
from datetime import UTC, datetime

from pulsegate.control.ports import Clock


class SystemClock:
    """The machine's clocks, as the ``Clock`` port."""

    __slots__ = ()

    # Monotonic seconds, on the time line of ``loop.time()``. The function itself, without a frame of ours around it:
    # the data plane looks at it for every chunk that it relays.
    now = staticmethod(time.monotonic)  # noqa: TID251 - this is the one place

    def wall(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()  # noqa: TID251 - this is the one place

    def boot(self) -> float:
        """Seconds since boot, counting those that the machine slept.

        Linux stops CLOCK_MONOTONIC while the machine is suspended; CLOCK_BOOTTIME goes on, and that is how a prober
        finds out that it was away. Elsewhere the monotonic clock has to do.
        """
        if sys.platform == "linux":
            return time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.monotonic()  # noqa: TID251 - this is the one place

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Come back after that long."""
        return asyncio.sleep(seconds)

    def __repr__(self) -> str:
        return "SystemClock()"


def wall_time_of(clock: Clock, at: float) -> float:
    """When ``at`` (monotonic seconds) was, in seconds since the epoch, by what the wall clock says now."""
    return clock.wall() - (clock.now() - at)


def iso8601(wall_s: float) -> str:
    """Seconds since the epoch as ISO 8601 in UTC, with milliseconds and offset: ``2025-06-15T15:06:40.000+00:00``."""
    return datetime.fromtimestamp(wall_s, tz=UTC).isoformat(timespec="milliseconds")
