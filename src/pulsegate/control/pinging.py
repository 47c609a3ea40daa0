"""Pings providers: now and then, and when somebody asks for it. Whoever asks cannot make it ping more than every 5 s.

One round at a time: who asks while one is under way waits for that one; who asks within 5 s after it gets what it
found. A round asks all keys at once and is over after 2 s.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol

from pulsegate.control.outlook import Outlook
from pulsegate.control.ports import Clock
from pulsegate.core.fleet import EndpointSpec, ProviderSpec
from pulsegate.core.provider_fault import ProviderFault

PING_DEADLINE_S: Final = 2.0
FRESH_S: Final = 5.0
_SPARE_S: Final = 0.5  # beyond the deadline, for whoever waits


class Ping(Protocol):
    """Asks for a provider's list of models, which costs no tokens. Never raises for the provider's faults."""

    async def __call__(self, key: EndpointSpec, deadline_s: float, /) -> ProviderFault | None:
        """What is wrong with that key or behind it; None if nothing is."""
        ...


class Pinging:
    """See the module. Findings go to ``outlook``."""

    def __init__(self, outlook: Outlook, ping: Ping, clock: Clock) -> None:
        self._outlook = outlook
        self._ping = ping
        self._clock = clock
        self._wanted = asyncio.Event()
        self._waiting: list[Callable[[], object]] = []
        self._ended_at: float | None = None
        self._due: dict[str, float] = {}

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await self._pause()
            asked = self._wanted.is_set()
            now = self._clock.now()
            specs = [spec for spec in self._outlook.providers if asked or self._is_due(spec, now)]
            for spec in specs:
                self._due[spec.name] = now + spec.ping_interval_s
            await self._round(specs)
            if asked:
                self._end_round()

    def _end_round(self) -> None:
        """Tell all who wait, also those who came while it was under way."""
        self._ended_at = self._clock.now()
        self._wanted.clear()
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done()

    def when_fresh(self, done: Callable[[], object]) -> None:
        """Call ``done`` when what is known of all providers is at most 5 s old, perhaps at once."""
        if self._ended_at is not None and self._clock.now() - self._ended_at < FRESH_S:
            done()
            return
        self._waiting.append(done)
        self._wanted.set()

    async def fresh(self) -> None:
        """Come back when what is known of all providers is at most 5 s old."""
        over = asyncio.Event()
        self.when_fresh(over.set)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * PING_DEADLINE_S + _SPARE_S):  # a periodic round may come first
                await over.wait()

    def changed(self) -> None:
        """Other providers are configured: look at them at once."""
        self._ended_at = None
        self._due.clear()

    async def _pause(self) -> None:
        now = self._clock.now()
        due = [self._due.get(spec.name, now) for spec in self._outlook.providers if spec.ping_interval_s]
        wait_s = min([max(0.0, at - now) for at in due], default=FRESH_S)
        if wait_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait_s, FRESH_S)):
                    await self._wanted.wait()

    def _is_due(self, spec: ProviderSpec, now: float) -> bool:
        return bool(spec.ping_interval_s) and self._due.get(spec.name, now) <= now

    async def _round(self, specs: list[ProviderSpec]) -> None:
        async with asyncio.TaskGroup() as group:
            for spec in specs:
                for key in spec.keys if spec.configured else ():
                    group.create_task(self._one(spec.name, key))
        if specs:
            self._outlook.tell()

    async def _one(self, provider: str, key: EndpointSpec) -> None:
        fault = await self._ping(key, PING_DEADLINE_S)
        self._outlook.pinged(provider, key.id, fault, self._clock.now())
