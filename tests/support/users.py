"""Users who ask a gateway all the time, and what they met."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from support.gateways import CHAT, Client, Reply
from support.service import chat

_REUSES = 20  # of a connection, before its user opens a new one


@dataclass
class Tally:
    """What users met."""

    good: int = 0
    bad: list[str] = field(default_factory=list)

    def note(self, reply: Reply) -> None:
        if reply.status == 200 and reply.whole and (reply.headers["content-type"] == "application/json" or reply.text):
            self.good += 1
        else:
            self.bad.append(f"{reply.status} whole={reply.whole} {reply.body[-200:]!r}")


@asynccontextmanager
async def users(port: int, count: int = 8) -> AsyncIterator[Tally]:
    """That many users ask all the time, half of them for streams; every fourth opens a connection for each request."""
    tally, over = Tally(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            uses = 1 if number % 4 == 0 else _REUSES
            group.create_task(_use(port, tally, over, stream=number % 2 == 0, uses=uses))
        try:
            yield tally
        finally:
            over.set()


async def _use(port: int, tally: Tally, over: asyncio.Event, *, stream: bool, uses: int) -> None:
    while not over.is_set():
        try:
            async with Client(port) as client:
                await _ask_on(client, tally, over, stream=stream, uses=uses)
        except (OSError, TimeoutError) as exc:
            tally.bad.append(repr(exc))
            await asyncio.sleep(0.05)


async def _ask_on(client: Client, tally: Tally, over: asyncio.Event, *, stream: bool, uses: int) -> None:
    for _ in range(uses):
        reply = await client.ask(chat(stream=stream), path=CHAT)
        tally.note(reply)
        if over.is_set() or not reply.whole or reply.headers.get("connection") == "close":
            return
