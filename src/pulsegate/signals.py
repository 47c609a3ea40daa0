"""What the operator says to the control process by signals."""

import asyncio
import signal


class Signals:
    """SIGTERM or SIGINT once, twice; the third ends the process by default. SIGHUP any number of times.

    Attributes:
        why: the name of the signal that set ``stop``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen from now on."""
        self.stop, self.hurry, self.hang_up = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.why = ""
        self._loop = loop
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, self.hang_up.set)

    def _stop(self, number: signal.Signals) -> None:
        if not self.stop.is_set():
            self.why = number.name
            self.stop.set()
            return
        self.hurry.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            self._loop.remove_signal_handler(each)
