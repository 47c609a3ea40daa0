"""An event loop whose clock jumps: a day of probing runs in seconds, and every time in it is exact.

When nothing is ready, real loops wait for the next timer; this one moves its clock there. Nothing waits for sockets:
a test that needs one uses a real loop.
"""

import asyncio
import gc
import heapq
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Everything waits and no timer is set: real time would hang here for ever."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a clock that starts at 0.0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        super().__init__()

    def time(self) -> float:
        return self._virtual_now

    def stall(self, seconds: float) -> None:
        """Let time pass while the caller holds the loop, as blocking code or a stopped process would."""
        self._virtual_now += seconds

    def _run_once(self) -> None:
        """One turn, as asyncio's own makes it, but without looking at sockets and without waiting."""
        ready, timers = self._ready, self._scheduled  # type: ignore[attr-defined]
        while timers and timers[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise DeadlockError("nothing is ready and no timer is set")
            self._virtual_now = max(self._virtual_now, timers[0]._when)
        while timers and timers[0]._when <= self._virtual_now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()


class VirtualClock:
    """The ``Clock`` port on a virtual loop; wall time is the epoch ``WALL_START`` plus virtual time."""

    WALL_START = 1_750_000_000.0

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._slept_s = 0.0

    def now(self) -> float:
        return self._loop.time()

    def wall(self) -> float:
        return self.WALL_START + self.boot()

    def boot(self) -> float:
        return self._loop.time() + self._slept_s

    def suspend(self, seconds: float) -> None:
        """The machine sleeps: monotonic time stands still, boot and wall time go on."""
        self._slept_s += seconds

    def sleep(self, seconds: float) -> Awaitable[None]:
        return asyncio.sleep(seconds)


def run_virtual(main: Callable[[VirtualTimeLoop], Coroutine[Any, Any, T]]) -> T:
    """Run ``main(loop)`` to its end on a fresh virtual loop."""
    gc.disable()  # a day makes a lot of history and no cycles; looking for them would take half of the time
    try:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, VirtualTimeLoop)
            return runner.run(main(loop))
    finally:
        gc.enable()
