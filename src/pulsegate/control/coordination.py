"""Several gateways, one probe: the port through which replicas find one another and tell each other verdicts.

A backend knows who takes part and carries bytes; adapters live in ``coordination/``. Who probes what, and whose word
counts, is decided in the core.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from pulsegate.core.ids import MemberId


class View(NamedTuple):
    """Who takes part.

    ``epoch`` grows with every change of the members, and is the fencing token: replicas that know the same epoch know
    the same members. ``members`` are in the order in which they were admitted, the longest-standing first.
    """

    epoch: int
    members: tuple[MemberId, ...]


class Words(NamedTuple):
    """What one replica tells all others at one moment, ``epoch`` being that of the view in which it spoke.

    ``kept``: the backend keeps the latest value of each key, whoever told it, for those who come later.
    ``passing``: told once, to those who are there.
    """

    author: MemberId
    epoch: int
    kept: Mapping[str, bytes]
    passing: tuple[bytes, ...] = ()


class Listener(Protocol):
    """Who is told. Called from the event loop, never from within a call to the coordinator; must not block."""

    def joined(self, view: View, picture: Sequence[bytes]) -> None:
        """This replica takes part (again). ``picture``: all values that are kept, before anything else is told."""
        ...

    def members_changed(self, view: View) -> None:
        """Others came or went."""
        ...

    def heard(self, words: Words) -> None:
        """Another replica spoke. Words come in the order in which it spoke; none is lost without a ``joined``."""
        ...

    def parted(self, why: str) -> None:
        """The backend cannot be reached, or has given us up. Told once; ``joined`` ends it."""
        ...


class Coordinator(Protocol):
    """One replica's way to the others."""

    async def run(self, listener: Listener) -> None:
        """Take part until cancelled, then leave properly. Never raises for what the backend does: see ``parted``."""
        ...

    def tell(self, words: Words) -> None:
        """Tell the others, soon. Dropped while parted; refused by the backend if it has given the author up."""
        ...
