"""Replicas in one process: the backend of a gateway that is alone, and of tests that play several."""

import asyncio
from collections.abc import Callable

from pulsegate.control.coordination import Listener, View, Words
from pulsegate.core.ids import MemberId


class Meeting:
    """Where the members meet: keeps who takes part and what was said."""

    def __init__(self) -> None:
        self._epoch = 0
        self._present: dict[MemberId, Listener] = {}
        self._kept: dict[str, bytes] = {}

    @property
    def view(self) -> View:
        """Who takes part now."""
        return View(self._epoch, tuple(self._present))

    def enter(self, member: MemberId, listener: Listener) -> None:
        """One more."""
        self._present[member] = listener
        self._epoch += 1
        view = self.view
        listener.joined(view, tuple(self._kept.values()))
        self._each(member, lambda other: other.members_changed(view))

    def leave(self, member: MemberId) -> None:
        """One less; what it said stays, until somebody else says otherwise."""
        if self._present.pop(member, None) is not None:
            self._epoch += 1
            view = self.view
            self._each(member, lambda other: other.members_changed(view))

    def forget(self) -> None:
        """What was said is lost, as with a backend that was started anew."""
        self._kept.clear()

    def pass_on(self, words: Words) -> bool:
        """Whether the author still takes part; if so all others hear it."""
        if words.author not in self._present:
            return False
        self._kept.update(words.kept)
        self._each(words.author, lambda other: other.heard(words))
        return True

    def _each(self, but: MemberId, call: Callable[[Listener], None]) -> None:
        for member, listener in tuple(self._present.items()):
            if member != but:
                call(listener)


class MemoryCoordinator:
    """Implements ``Coordinator`` for one member of a ``Meeting``."""

    def __init__(self, meeting: Meeting, member: MemberId) -> None:
        self._meeting = meeting
        self._member = member
        self._listener: Listener | None = None

    async def run(self, listener: Listener) -> None:
        """Take part until cancelled."""
        self._listener = listener
        self._meeting.enter(self._member, listener)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._meeting.leave(self._member)

    def tell(self, words: Words) -> None:
        """Tell the others at the loop's next turn, as over a network."""
        asyncio.get_running_loop().call_soon(self._pass_on, words)

    def _pass_on(self, words: Words) -> None:
        if not self._meeting.pass_on(words) and self._listener is not None:
            self._listener.parted("given up by the others")
