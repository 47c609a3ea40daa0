"""Resolving and choosing among addresses, with a resolver that the test owns."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pulsegate.core.probe import FaultClass
from pulsegate.engines.exchange import Exchange
from pulsegate.engines.wire import Wire, parse_target
from support import raw_server as script
from support.raw_server import RawServer, raw_server
from support.wire_listener import GENERATE, Ear, ask, spec_of, wire_to

CLOSING = script.Send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nTOKEN")
ONE = (script.Request(), CLOSING)
NOBODY = "127.0.0.2"  # loopback too, and nothing listens there


class OwnResolver(asyncio.SelectorEventLoop):
    """A loop that resolves names as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.answer: list[str] | Exception = []
        self.delay_s = 0.0
        self.asked = 0

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        assert host == "engine.test"
        self.asked += 1
        await asyncio.sleep(self.delay_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in self.answer
        ]


Scene = Callable[[OwnResolver, RawServer, Wire], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, OwnResolver)
        async with raw_server(ONE) as server:
            wire = wire_to(f"http://engine.test:{server.port}")
            await scene(loop, server, wire)
            await wire.close()

    with asyncio.Runner(loop_factory=OwnResolver) as runner:
        runner.run(main())


def kind_of(got: Exchange) -> FaultClass | None:
    return got.fault.kind if got.fault else None


def test_names_are_resolved_anew_for_each_connection() -> None:
    async def scene(loop: OwnResolver, server: RawServer, wire: Wire) -> None:
        loop.answer = ["127.0.0.1"]
        assert (await ask(wire)).whole
        loop.answer = [NOBODY]
        assert kind_of(await ask(wire)) is FaultClass.REFUSED
        loop.answer = ["127.0.0.1"]
        assert (await ask(wire)).whole
        assert loop.asked == 3

    play(scene)


def test_a_resolver_that_fails_or_stands_still_does_not_hide_a_living_endpoint() -> None:
    async def scene(loop: OwnResolver, server: RawServer, wire: Wire) -> None:
        loop.answer = ["127.0.0.1"]
        assert (await ask(wire)).whole
        loop.answer = socket.gaierror(socket.EAI_AGAIN, "try again")
        assert (await ask(wire)).whole
        loop.delay_s = 5.0
        got = await ask(wire)
        assert got.whole
        assert got.phases.dns_s is not None
        assert 0.09 <= got.phases.dns_s < 2

    play(scene)


def test_a_name_that_was_never_resolved() -> None:
    async def scene(loop: OwnResolver, server: RawServer, wire: Wire) -> None:
        loop.answer = socket.gaierror(socket.EAI_NONAME, "name unknown")
        got = await ask(wire)
        assert kind_of(got) is FaultClass.UNREACHABLE
        assert not got.deadline_hit
        loop.answer = []
        assert kind_of(await ask(wire)) is FaultClass.UNREACHABLE
        loop.delay_s = 5.0
        got = await ask(wire, deadline_s=0.05)
        assert kind_of(got) is FaultClass.UNREACHABLE
        assert got.deadline_hit

    play(scene)


def test_the_next_address_is_tried_and_the_good_one_remembered() -> None:
    async def scene(loop: OwnResolver, server: RawServer, wire: Wire) -> None:
        loop.answer = [NOBODY, "127.0.0.1"]
        assert (await ask(wire)).whole
        assert wire._dialler._known == ("127.0.0.1", NOBODY)
        assert (await ask(wire)).whole
        assert wire._dialler._known == ("127.0.0.1", NOBODY)

    play(scene)


def test_refused_says_more_than_unreachable() -> None:
    async def scene(loop: OwnResolver, server: RawServer, wire: Wire) -> None:
        for order in ([NOBODY, "255.255.255.255"], ["255.255.255.255", NOBODY]):
            loop.answer = order
            assert kind_of(await ask(wire)) is FaultClass.REFUSED

    play(scene)


def test_families_take_turns_and_not_too_many_are_tried() -> None:
    async def scene(loop: OwnResolver, server: RawServer, wire: Wire) -> None:
        loop.answer = ["::2", "::3", "::4", "127.0.0.1", "127.0.0.3"]
        await ask(wire, deadline_s=0.2)
        assert set(wire._dialler._known) == {"::2", "127.0.0.1", "::3", "127.0.0.3"}

    play(scene)


async def test_stamps_are_read_from_the_clock_that_is_given() -> None:
    ticks = iter(range(1000, 2000))
    async with raw_server(ONE) as server:
        target = parse_target(spec_of(f"http://127.0.0.1:{server.port}"))
        wire = Wire(target, now=lambda: float(next(ticks)))
        got = await wire.exchange(GENERATE, Ear(), deadline_s=100.0)
        await wire.close()
    assert got.whole
    phases = got.phases
    for at_s in (phases.connect_s, phases.send_s, phases.first_byte_s, phases.end_s):
        assert at_s is not None
        assert at_s >= 1.0
        assert at_s.is_integer()


@pytest.mark.parametrize("name", ["xn--zz", "1.2.3.4.5", "a" * 63 + ".invalid"])
async def test_odd_names_are_a_fault_not_an_exception(name: str) -> None:
    assert kind_of(await ask(wire_to(f"http://{name}:1"), deadline_s=1)) is not None
