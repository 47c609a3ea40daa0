"""A member in a process of its own, to be frozen: tells a number every 20 ms, and writes a line for what it hears of.

``python -m support.member_process PORT MEMBER HEARTBEAT_S MEMBER_TIMEOUT_S``
"""

import asyncio
import random
import sys
from collections.abc import Sequence

from pulsegate.control.coordination import View, Words
from pulsegate.coordination.redis import RedisCoordinator
from pulsegate.core.coordination import CoordinationSpec, RedisAddress, RedisSpec
from pulsegate.core.ids import MemberId


class Writer:
    """Implements ``Listener``. ``epoch`` is the latest that it knows, also while parted."""

    epoch = 0

    def joined(self, view: View, picture: Sequence[bytes]) -> None:  # noqa: ARG002 - the port says so
        self._note("joined", view)

    def members_changed(self, view: View) -> None:
        self._note("members", view)

    def heard(self, words: Words) -> None:
        pass

    def parted(self, why: str) -> None:
        print("parted", why, flush=True)  # noqa: T201 - how this process speaks

    def _note(self, what: str, view: View) -> None:
        self.epoch = view.epoch
        print(what, view.epoch, *view.members, flush=True)  # noqa: T201 - as above


async def main(port: int, member: MemberId, heartbeat_s: float, member_timeout_s: float) -> None:
    redis = RedisSpec(addresses=(RedisAddress("127.0.0.1", port),))
    spec = CoordinationSpec(redis=redis, heartbeat_s=heartbeat_s, member_timeout_s=member_timeout_s)
    coordinator, writer = RedisCoordinator(redis, spec, member, random.Random(1)), Writer()
    async with asyncio.TaskGroup() as group:
        group.create_task(coordinator.run(writer))
        number = 0
        while True:
            coordinator.tell(Words(member, writer.epoch, {"number": b"%d" % number}, (b"%d" % number,)))
            number += 1
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), MemberId(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
