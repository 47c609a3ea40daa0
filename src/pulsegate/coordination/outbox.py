"""What a member has yet to say: the latest value of each key, in bounded space."""

from collections import deque
from dataclasses import dataclass, field

from pulsegate.control.coordination import Words
from pulsegate.core.ids import MemberId

MAX_WAITING_BYTES = 64 * 2**20
MAX_CALL_BYTES = 2**20
"""Of several values in one call; a single one may be larger. A server busy with one call keeps everybody waiting."""


@dataclass(slots=True)
class _Saying:
    """What was told in one epoch."""

    epoch: int
    kept: dict[str, bytes] = field(default_factory=dict[str, bytes])
    passing: deque[bytes] = field(default_factory=deque[bytes])


class Outbox:
    """Takes words as they are told, gives them out as they can be sent."""

    def __init__(self, member: MemberId) -> None:
        self._member = member
        self._sayings: deque[_Saying] = deque()
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._sayings)

    @property
    def is_full(self) -> bool:
        """More waits than can be sensible: the backend does not keep up."""
        return self._size > MAX_WAITING_BYTES

    def put(self, words: Words) -> None:
        """Append; a value replaces the one that waits under its key."""
        if not words.kept and not words.passing:
            return
        if not self._sayings or self._sayings[-1].epoch != words.epoch:
            self._sayings.append(_Saying(words.epoch))
        last = self._sayings[-1]
        for key, value in words.kept.items():
            for saying in self._sayings:
                self._size -= len(saying.kept.pop(key, b""))
            last.kept[key] = value
            self._size += len(value)
        last.passing.extend(words.passing)
        self._size += sum(map(len, words.passing))
        self._sayings = deque(saying for saying in self._sayings if saying.kept or saying.passing)

    def take(self) -> Words:
        """The oldest words, as many as go into one call; there must be some."""
        saying = self._sayings[0]
        kept: dict[str, bytes] = {}
        passing: list[bytes] = []
        size = 0
        while saying.kept and size < MAX_CALL_BYTES:
            key = next(iter(saying.kept))
            kept[key] = saying.kept.pop(key)
            size += len(kept[key])
        while saying.passing and size < MAX_CALL_BYTES:
            passing.append(saying.passing.popleft())
            size += len(passing[-1])
        if not saying.kept and not saying.passing:
            self._sayings.popleft()
        self._size -= size
        return Words(self._member, saying.epoch, kept, tuple(passing))
