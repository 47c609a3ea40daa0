"""The control process alone, without workers: ``python -m support.control_process CONFIG``.

Prints one line of JSON with the address of its admin API and runs until it is told to end.
"""

import asyncio
import io
import json
import signal
import sys
from pathlib import Path
from random import Random

import uvloop

from pulsegate.app import GC_THRESHOLD, Parts, run_control
from pulsegate.config.loading import parse
from pulsegate.control.clock import SystemClock
from pulsegate.control.collector import calm_collector
from pulsegate.export.logs import LogFormat, open_log


async def run(path: Path) -> None:
    config, clock = parse(path.read_bytes(), path, {}), SystemClock()  # noqa: ASYNC240 - nothing runs yet
    parts = Parts(log=open_log(clock, LogFormat.JSON, io.StringIO()), clock=clock, rng=Random(1))
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    async with run_control(config, parts) as control:
        sys.stdout.write(json.dumps({"admin": control.url}) + "\n")
        sys.stdout.flush()
        calm_collector(GC_THRESHOLD)
        await over.wait()


if __name__ == "__main__":
    uvloop.run(run(Path(sys.argv[1])))
