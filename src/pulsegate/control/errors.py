"""Errors that are nobody's fault but ours; defined in the core, which can find them too."""

from pulsegate.core.errors import InvariantError

__all__ = ["InvariantError"]
