"""Whether kept connections are worth having with one server: learned from silence.

Some middlemen forget a connection without closing it: what is sent on it is never answered, while the same request on
a new connection is answered at once (LLMKube issue 459). An engine that hangs is silent on both.
"""

from typing import Final

STRIKES: Final = 2
"""So many times in a row silent on a kept and then answered on a new connection: once may be an engine that woke up."""


class Reuse:
    """Remembers what became of kept connections; once it has given them up it does so for good."""

    __slots__ = ("_silent_path", "_strikes")

    def __init__(self) -> None:
        self._silent_path: str | None = None
        self._strikes = 0

    @property
    def pays(self) -> bool:
        """Whether to keep a connection for the next request."""
        return self._strikes < STRIKES

    def kept(self, path: str, *, silent: bool) -> None:
        """An exchange over a kept connection ended; ``silent``: at its deadline, without a byte."""
        self._silent_path = path if silent else None
        if not silent:
            self._strikes = 0

    def fresh(self, path: str, *, silent: bool) -> None:
        """An exchange over a new connection ended. Other pages prove nothing: they may be answered by another part."""
        if path != self._silent_path:
            return
        self._silent_path = None
        self._strikes = 0 if silent else self._strikes + 1
