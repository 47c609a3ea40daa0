"""Which TCP connections to a port are open on this machine, read from the kernel."""

import asyncio
from collections import Counter
from pathlib import Path

_STATES = {1: "established", 2: "syn_sent", 4: "fin_wait1", 5: "fin_wait2", 6: "time_wait", 8: "close_wait"}


def connections_to(port: int) -> Counter[str]:
    """How many client sockets to ``port`` there are, by state. TIME_WAIT is left out: it holds nothing of ours."""
    found: Counter[str] = Counter()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, _, remote, state, *_ = line.split()
            if int(remote.rpartition(":")[2], 16) == port:
                found[_STATES.get(int(state, 16), state)] += 1
    del found["time_wait"]
    return found


async def settled(port: int, *, above: int = 0, within_s: float = 5.0) -> int:
    """How many are still there once there are no more than ``above``, or after that time: goodbyes take a moment."""
    for _ in range(int(within_s / 0.1)):
        if connections_to(port).total() <= above:
            break
        await asyncio.sleep(0.1)
    return connections_to(port).total()
