"""What comes just as a worker begins to drain is answered, on the event loop that workers run on."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from pulsegate.gateway.server import Gateway
from support.gateways import MODEL, pool, setup_of

BODY = b'{"model":"%b"}' % MODEL.encode()
ASKED = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
ANSWERED = b"HTTP/1.1 503 "  # nobody listens behind the gateway: it has to try, and says so


class Scene:
    """A gateway; ``waiting`` accepts what it leaves alone, as other workers would."""

    def __init__(self) -> None:
        self.gateway = Gateway(setup_of(pool(1)), None)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.waiting = self.listener.dup()
        self.client = socket.socket()

    def connect(self) -> None:
        self.client.connect(self.waiting.getsockname())


def answer(acts: Callable[[Scene], Awaitable[None]]) -> bytes:
    """What the client got in the end; that it is left to others, when the gateway has not accepted it."""
    scene = Scene()

    async def main() -> None:
        async with scene.gateway.open(scene.listener):
            await acts(scene)

    with scene.waiting, scene.client:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())
        scene.waiting.settimeout(0)
        try:
            other, _ = scene.waiting.accept()
        except BlockingIOError:
            scene.client.settimeout(5)
            return scene.client.recv(65536)
        other.close()
        return ANSWERED


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_was_accepted_only_just_is_served(turns: int) -> None:
    async def acts(scene: Scene) -> None:
        scene.connect()
        scene.client.sendall(ASKED)
        for _ in range(turns):
            await asyncio.sleep(0)
        await scene.gateway.drain(2)

    assert answer(acts).startswith(ANSWERED)


def test_what_came_while_the_worker_stood_still_is_read_before_its_connection_is_closed() -> None:
    async def acts(scene: Scene) -> None:
        scene.connect()
        await asyncio.sleep(0.05)
        bell, rope = socket.socketpair()

        def stand_still() -> None:
            """Between two looks at the sockets, until the last call is over."""
            bell.recv(1)
            scene.client.sendall(ASKED)
            time.sleep(0.6)

        with bell, rope:
            asyncio.get_running_loop().add_reader(bell, stand_still)
            rope.send(b".")
            await scene.gateway.drain(5)

    assert answer(acts).startswith(ANSWERED)
