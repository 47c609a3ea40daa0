"""What a member has heard: in order, and without a hole that nobody notices. No I/O here."""

from collections.abc import Sequence
from typing import NamedTuple

from pulsegate.control.coordination import Listener, View
from pulsegate.coordination.redis_line import Gone
from pulsegate.coordination.redis_scripts import Message
from pulsegate.core.ids import MemberId

GIVEN_UP = "given up by the others: not heard of for too long"


class Known(NamedTuple):
    """How far somebody has heard; what an earlier life knew helps a server that forgot."""

    epoch: int = 0
    revision: int = 0


class Transcript:
    """Passes on to the listener what it must hear, once there is a picture to begin with.

    Each message has the revision that it made. One that is missing means that something was lost; then
    ``needs_picture``, and what comes waits until there is one.
    """

    def __init__(self, member: MemberId, listener: Listener, known: Known) -> None:
        self._member = member
        self._listener = listener
        self._waiting: list[Message] = []
        self._view = View(known.epoch, ())
        self._revision = known.revision
        self.needs_picture = True
        self.has_begun = False

    @property
    def known(self) -> Known:
        """How far this member has heard."""
        return Known(self._view.epoch, self._revision)

    def start(self, view: View, revision: int, picture: Sequence[bytes]) -> None:
        """Everything that was kept at that revision. What was heard meanwhile follows."""
        waiting, self._waiting = self._waiting, []
        self._view, self._revision = view, revision
        self.needs_picture, self.has_begun = False, True
        self._listener.joined(view, picture)
        for message in waiting:
            self.message(message)

    def message(self, message: Message) -> None:
        """One from the channel.

        Raises:
            Gone: the others say that this member is none.
        """
        if self.needs_picture:
            self._waiting.append(message)
        elif message.view is not None:
            self.members(message.view)
        elif message.words is not None and message.revision > self._revision:
            if message.revision != self._revision + 1:
                self.needs_picture = True
                self._waiting.append(message)
                return
            self._revision = message.revision
            if message.words.author != self._member:
                self._listener.heard(message.words)

    def members(self, view: View) -> None:
        """Who takes part, as somebody says; of two ways on which that comes one may be later.

        Raises:
            Gone: not this member.
        """
        if view.epoch < self._view.epoch or view == self._view:
            return
        if self._member not in view.members:
            raise Gone(GIVEN_UP)
        self._view = view
        self._listener.members_changed(view)

    def expect(self, revision: int) -> None:
        """Everything up to there must have come by now."""
        if revision > self._revision:
            self.needs_picture = True
