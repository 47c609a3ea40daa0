"""Simulated inference servers that speak every dialect and can fail in every way that real ones do."""

from pulsegate.sim.engine import Counters, EngineConfig, Phase, SimEngine
from pulsegate.sim.grammar import ScriptError, read_script
from pulsegate.sim.load import Load, Spread
from pulsegate.sim.script import Script
from pulsegate.sim.server import SimServer

__all__ = [
    "Counters",
    "EngineConfig",
    "Load",
    "Phase",
    "Script",
    "ScriptError",
    "SimEngine",
    "SimServer",
    "Spread",
    "read_script",
]
