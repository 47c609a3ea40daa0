"""Which endpoint, and what of it, a path names.

Ids hold ``:``, ``#`` and, for Unix sockets, ``/``; a client should percent-encode them, and one that left ``/`` as it
is is understood all the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote

ACTIONS = frozenset({"verdict", "drain", "undrain"})
MAX_ID_CHARS = 512


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint id and, after it, an action; "" is the endpoint itself."""

    id: str
    action: str


def targets(raw: bytes) -> tuple[Target, ...]:
    """What the path behind ``/api/endpoints/`` can mean, likeliest first; () if it cannot be an id at all."""
    try:
        parts = [unquote(part, errors="strict") for part in raw.decode("ascii").split("/")]
    except UnicodeDecodeError:
        return ()
    readings = [Target("/".join(parts), "")]
    if len(parts) > 1 and parts[-1] in ACTIONS:
        readings.insert(0, Target("/".join(parts[:-1]), parts[-1]))
    return tuple(reading for reading in readings if _can_be_id(reading.id))


def resolve(raw: bytes, known: Callable[[str], bool]) -> Target | None:
    """The reading whose id is known; None if there is none."""
    return next((reading for reading in targets(raw) if known(reading.id)), None)


def _can_be_id(text: str) -> bool:
    return 0 < len(text) <= MAX_ID_CHARS and text.isprintable()
