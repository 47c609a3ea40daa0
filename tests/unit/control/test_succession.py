"""Names of addresses, and what is said between a successor and orphans, within one process."""

import asyncio
import socket
from dataclasses import replace

import pytest

from pulsegate.control.succession import QUIET_S, Quiet, Succession, name_of, succeeded
from pulsegate.core.figures import RouteFigures, nothing


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


async def test_a_name_has_one_holder() -> None:
    with listening() as listener:
        address = listener.getsockname()
        with Succession.of(address):
            with pytest.raises(OSError, match="in use"):
                Succession.of(address)
            with Succession.of((address[0], address[1] - 1)):
                pass
        Succession.of(address).close()


async def test_an_orphan_hands_its_socket_over_and_waits_until_its_successor_serves() -> None:
    with listening() as listener:
        address = listener.getsockname()
        async with asyncio.TaskGroup() as group:
            orphan = group.create_task(succeeded(listener))
            with Succession.of(address) as succession:
                inherited = await succession.inherited(5)
                assert inherited is not None
                with inherited:
                    assert inherited.getsockname() == address
                    assert inherited.fileno() != listener.fileno()
                    await asyncio.sleep(0)
                    assert not orphan.done()
                    succession.serving()
                    await orphan


async def test_one_that_comes_later_may_go_at_once() -> None:
    with listening() as listener, Succession.of(listener.getsockname()) as succession:
        succession.serving()
        async with asyncio.timeout(5):
            await succeeded(listener)


async def test_a_successor_that_gives_up_leaves_the_orphan_to_the_next() -> None:
    with listening() as listener:
        address = listener.getsockname()
        async with asyncio.TaskGroup() as group:
            orphan = group.create_task(succeeded(listener))
            with Succession.of(address) as first:
                inherited = await first.inherited(5)
                assert inherited is not None
                inherited.close()
            assert not orphan.done()
            with Succession.of(address) as second:
                second.serving()
                async with asyncio.timeout(5):
                    await orphan


async def test_where_nobody_was_left_behind_nothing_is_inherited() -> None:
    with listening() as listener, Succession.of(listener.getsockname()) as succession:
        assert await succession.inherited(0.01) is None


async def test_who_talks_nonsense_or_nothing_is_let_go() -> None:
    with listening() as listener, Succession.of(listener.getsockname()) as succession:
        for said in (b"", b"hello"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
                other.connect(name_of(listener.getsockname()))
                other.sendall(said)
        assert await succession.inherited(0.05) is None


def test_quiet_counts_from_the_last_request() -> None:
    def asked(count: int, *, in_flight: int = 0):
        route = RouteFigures(route="m", requests={200: count}, replays={})
        return replace(nothing(), routes=[route], in_flight=in_flight)

    quiet = Quiet()
    assert quiet.seconds(asked(3), 100.0) == 0
    assert quiet.seconds(asked(3), 110.0) == 10
    assert quiet.seconds(asked(4), 120.0) == 0
    assert quiet.seconds(asked(4, in_flight=1), 180.0) == 0, "a long stream is no quiet"
    assert quiet.seconds(asked(4), 180.0 + QUIET_S) == QUIET_S
