"""From a configuration to this gateway's place among others that watch the same fleet."""

import os
import re
import socket
from collections.abc import Callable
from random import Random

from pulsegate.control.coordination import Coordinator
from pulsegate.control.fellowship import Fellowship, Tie
from pulsegate.control.ports import Clock, FellowshipObserver, Timers
from pulsegate.core.board import Board
from pulsegate.core.coordination import CoordinationSpec
from pulsegate.core.ids import MemberId

OpenCoordinator = Callable[[CoordinationSpec, MemberId], Coordinator]
"""Opens the way to the others; connects to nothing before it is run."""

_HOST_CHARS = 40


def member_id(rng: Random) -> MemberId:
    """A name for this run of this gateway that people recognise and nobody else has."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:_HOST_CHARS] or "gateway"
    return MemberId(f"{host}-{os.getpid()}-{rng.getrandbits(32):08x}")


def open_fellowship(
    spec: CoordinationSpec,
    open_coordinator: OpenCoordinator,
    *,
    board: Board,
    clock: Clock,
    timers: Timers,
    rng: Random,
    observer: FellowshipObserver,
) -> Fellowship:
    """This gateway among the others of ``spec``; it takes part while it is run."""
    me = member_id(rng)
    return Fellowship(
        me, spec.mode, open_coordinator(spec, me), board=board, clock=clock, timers=timers, observer=observer
    )


def apart(fellowship: Fellowship) -> str:
    """Why the others cannot be reached; empty when they can."""
    company = fellowship.company
    return company.why if company.tie is Tie.PARTED else ""
