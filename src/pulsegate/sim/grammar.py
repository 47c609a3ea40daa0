"""Reads scripts."""

from collections.abc import Mapping

from pulsegate.sim.script import Script


class ScriptError(Exception):
    """A script cannot be read; says where and why."""


def read_script(source: Mapping[str, object] | str) -> Script:
    """TBD."""
    raise ScriptError("not yet")
