"""Carries the latest routing table to whoever follows it inside this process.

A follower that is slow misses versions in between, never the latest: tables are whole, so skipping is safe.
"""

import asyncio

from pulsegate.core.snapshot import Snapshot

EMPTY = Snapshot(version=0, pools=())


class LatestSnapshot:
    """A ``Publisher`` that keeps the latest snapshot and wakes those who wait for a newer one."""

    def __init__(self) -> None:
        self._latest = EMPTY
        self._changed = asyncio.Event()

    @property
    def latest(self) -> Snapshot:
        """The newest routing table."""
        return self._latest

    def offer(self, snapshot: Snapshot) -> None:
        """Take over this snapshot."""
        self._latest = snapshot
        self._changed.set()
        self._changed = asyncio.Event()

    async def newer_than(self, version: int) -> Snapshot:
        """The latest snapshot, as soon as its version is above ``version``."""
        while self._latest.version <= version:
            await self._changed.wait()
        return self._latest
