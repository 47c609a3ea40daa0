"""An event loop whose clock jumps: a day of probing runs in seconds, and every time in it is exact.

When nothing is ready, real loops wait for the next timer; this one moves its clock there. Nothing waits for sockets:
a test that needs one uses a real loop.
"""

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(RuntimeError):
    """Everything waits and no timer is set: real time would hang here for ever."""


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.jump: Callable[[float], None] = lambda _seconds: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise DeadlockError("nothing is ready and no timer is set")
        if timeout > 0:
            self.jump(timeout)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on a clock that starts at 0.0 and jumps from timer to timer."""

    def __init__(self) -> None:
        self._virtual_now = 0.0
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.jump = self._jump

    def time(self) -> float:
        return self._virtual_now

    def stall(self, seconds: float) -> None:
        """Let time pass while the caller holds the loop, as blocking code or a stopped process would."""
        self._virtual_now += seconds

    def _jump(self, seconds: float) -> None:
        # Land exactly on the timer: adding a difference would leave times like 2.9999999999999996.
        self._virtual_now = self._scheduled[0]._when if self._scheduled else self._virtual_now + seconds  # type: ignore[attr-defined]


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
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualTimeLoop)
        return runner.run(main(loop))
