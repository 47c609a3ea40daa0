"""Errors that are nobody's fault but ours."""


class InvariantError(RuntimeError):
    """Something happened that the code says cannot happen: a bug in Pulsegate, to be reported."""
