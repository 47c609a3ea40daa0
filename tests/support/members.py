"""Members of a fleet in tests: what each of them hears is kept, and can be waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pulsegate.control.coordination import Coordinator, View, Words


@dataclass(frozen=True)
class Joined:
    view: View
    picture: frozenset[bytes]


@dataclass(frozen=True)
class Parted:
    why: str


@dataclass
class Ear:
    """Implements ``Listener``."""

    heard_of: list[Joined | View | Words | Parted] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def joined(self, view: View, picture: Sequence[bytes]) -> None:
        self._note(Joined(view, frozenset(picture)))

    def members_changed(self, view: View) -> None:
        self._note(view)

    def heard(self, words: Words) -> None:
        self._note(words)

    def parted(self, why: str) -> None:
        self._note(Parted(why))

    @property
    def view(self) -> View:
        """The latest."""
        views = (item.view if isinstance(item, Joined) else item for item in reversed(self.heard_of))
        return next((view for view in views if isinstance(view, View)), View(0, ()))

    @property
    def words(self) -> list[Words]:
        return [item for item in self.heard_of if isinstance(item, Words)]

    @property
    def passing(self) -> list[bytes]:
        return [value for words in self.words for value in words.passing]

    @property
    def joins(self) -> list[Joined]:
        return [item for item in self.heard_of if isinstance(item, Joined)]

    @property
    def partings(self) -> list[Parted]:
        return [item for item in self.heard_of if isinstance(item, Parted)]

    async def until(self, is_so: Callable[["Ear"], object], within_s: float = 15.0) -> None:
        async with asyncio.timeout(within_s):
            while not is_so(self):
                self._news.clear()
                await self._news.wait()

    async def until_members(self, *members: str) -> None:
        await self.until(lambda ear: ear.view.members == members)

    def _note(self, item: Joined | View | Words | Parted) -> None:
        self.heard_of.append(item)
        self._news.set()


@asynccontextmanager
async def taking_part(coordinator: Coordinator, *, wait: bool = True) -> AsyncIterator[Ear]:
    """Runs it until the block ends; ``wait``: the block begins when it has joined."""
    ear = Ear()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(coordinator.run(ear))
        try:
            if wait:
                await ear.until(lambda ear: ear.joins)
            yield ear
        finally:
            run.cancel()
