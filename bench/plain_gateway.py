"""The data plane alone, which is never told anything about health: plain least-request over the configured endpoints.

``python -m bench.plain_gateway FILE``: what ``bench/trial_busy.py`` compares with. Prints one line of JSON when it
listens.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from pulsegate.assembly import setup_of
from pulsegate.config import load
from pulsegate.core.events import TrafficSeen
from pulsegate.core.figures import WorkerFigures
from pulsegate.gateway.server import Gateway


class Nobody:
    """A sink for reports that nobody reads."""

    def traffic(self, seen: Sequence[TrafficSeen]) -> None:
        del seen

    def figures(self, figures: WorkerFigures) -> None:
        del figures


async def main(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        listener.setblocking(False)  # noqa: FBT003 - the socket API
        gateway = Gateway(setup_of(load(config, {}), access_log=None, priced_at=0.0), None, Nobody())
        async with gateway.open(listener):
            print(json.dumps({"gateway": f"http://127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1])))
