"""What every way to the others must do, whatever it is made of."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from pulsegate.control.coordination import Coordinator, View, Words
from pulsegate.coordination.memory import Meeting, MemoryCoordinator
from pulsegate.coordination.redis import RedisCoordinator
from pulsegate.core.coordination import CoordinationSpec
from pulsegate.core.ids import MemberId
from support.members import Joined, taking_part
from support.redis_server import RedisServer


class Backend(Protocol):
    """Opens coordinators that meet when they are of one fleet."""

    def __call__(self, member: str, fleet: str = "one") -> Coordinator: ...


def _memory() -> Backend:
    meetings: dict[str, Meeting] = {}

    def coordinator(member: str, fleet: str = "one") -> Coordinator:
        return MemoryCoordinator(meetings.setdefault(fleet, Meeting()), MemberId(member))

    return coordinator


def _redis(server: RedisServer) -> Backend:
    def coordinator(member: str, fleet: str = "one") -> Coordinator:
        spec = CoordinationSpec(redis=server.spec, fleet=fleet, heartbeat_s=0.2, member_timeout_s=5.0)
        return RedisCoordinator(server.spec, spec, MemberId(member), random.Random(member))

    return coordinator


@pytest.fixture(params=["memory", "redis"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    if request.param == "memory":
        yield _memory()
        return
    server = RedisServer(tmp_path)
    await server.start()
    try:
        yield _redis(server)
    finally:
        server.stop()


async def test_members_are_known_in_the_order_in_which_they_came(backend: Backend) -> None:
    async with taking_part(backend("b")) as b, taking_part(backend("a")) as a, taking_part(backend("c")) as c:
        for ear in (b, a, c):
            await ear.until_members("b", "a", "c")
        assert len({ear.view.epoch for ear in (b, a, c)}) == 1
        views = [b.joins[0].view, *(item for item in b.heard_of if isinstance(item, View))]
        assert [view.members for view in views] == [("b",), ("b", "a"), ("b", "a", "c")]
        assert [view.epoch for view in views] == sorted({view.epoch for view in views})


async def test_everybody_but_the_author_hears_words_in_their_order(backend: Backend) -> None:
    author = backend("a")
    async with taking_part(author) as own, taking_part(backend("b")) as b, taking_part(backend("c")) as c:
        await own.until_members("a", "b", "c")
        epoch = own.view.epoch
        for number in range(300):
            author.tell(Words(MemberId("a"), epoch, {"x": b"%d" % number}, (b"p%d" % number,)))
        for ear in (b, c):
            await ear.until(lambda ear: len(ear.passing) == 300)
            assert ear.passing == [b"p%d" % number for number in range(300)]
            assert ear.words[-1].kept == {"x": b"299"}
            assert {(words.author, words.epoch) for words in ear.words} == {("a", epoch)}
        assert own.words == []


async def test_a_newcomer_gets_the_latest_value_of_each_key(backend: Backend) -> None:
    a, b = backend("a"), backend("b")
    async with taking_part(a) as heard_a, taking_part(b) as heard_b:
        await heard_a.until_members("a", "b")
        epoch = heard_a.view.epoch
        a.tell(Words(MemberId("a"), epoch, {"x": b"old", "y": b"\x00\xff"}, (b"gone",)))
        await heard_b.until(lambda ear: ear.words)
        b.tell(Words(MemberId("b"), epoch, {"x": b"new"}))
        await heard_a.until(lambda ear: ear.words)
        async with taking_part(backend("c")) as newcomer:
            assert newcomer.heard_of[0] == Joined(newcomer.view, frozenset({b"new", b"\x00\xff"}))
            assert newcomer.passing == []


async def test_what_a_member_said_stays_when_it_leaves(backend: Backend) -> None:
    leaving = backend("leaving")
    async with taking_part(backend("a")) as stays:
        async with taking_part(leaving) as ear:
            leaving.tell(Words(MemberId("leaving"), ear.view.epoch, {"x": b"1"}))
            await stays.until(lambda ear: ear.words)
        await stays.until_members("a")
        async with taking_part(backend("b")) as newcomer:
            assert newcomer.joins[0].picture == {b"1"}


async def test_who_leaves_is_missed_at_once_and_comes_back_as_the_last(backend: Backend) -> None:
    async with taking_part(backend("a")) as a, taking_part(backend("b")):
        await a.until_members("a", "b")
        epochs = [a.view.epoch]
        async with taking_part(backend("c")):
            await a.until_members("a", "b", "c")
            epochs.append(a.view.epoch)
        await a.until_members("a", "b")
        epochs.append(a.view.epoch)
        async with taking_part(backend("c")) as again:
            assert again.view.members == ("a", "b", "c")
            epochs.append(again.view.epoch)
        assert epochs == sorted(set(epochs))
        assert a.partings == []


async def test_words_after_leaving_are_not_heard(backend: Backend) -> None:
    gone = backend("gone")
    async with taking_part(backend("a")) as stays:
        async with taking_part(gone) as ear:
            epoch = ear.view.epoch
            await stays.until_members("a", "gone")
        await stays.until_members("a")
        gone.tell(Words(MemberId("gone"), epoch, {"x": b"late"}))
        async with taking_part(backend("b")) as newcomer:
            assert newcomer.joins[0].picture == frozenset()
        assert stays.words == []


async def test_fleets_do_not_hear_one_another(backend: Backend) -> None:
    here, there = backend("a", fleet="here"), backend("a", fleet="there")
    async with taking_part(here) as heard_here, taking_part(there) as heard_there:
        here.tell(Words(MemberId("a"), heard_here.view.epoch, {"x": b"1"}, (b"p",)))
        async with taking_part(backend("b", fleet="here")), taking_part(backend("b", fleet="there")) as other:
            assert other.joins[0].picture == frozenset()
            await heard_there.until_members("a", "b")
        assert heard_there.words == []


async def test_values_may_be_large(backend: Backend) -> None:
    large = random.Random(1).randbytes(3 * 2**20)
    author = backend("a")
    async with taking_part(author) as own, taking_part(backend("b")) as b:
        await own.until_members("a", "b")
        author.tell(Words(MemberId("a"), own.view.epoch, {"x": large, "y": b"small"}, (large,)))
        await b.until(lambda ear: ear.passing and len({key for words in ear.words for key in words.kept}) == 2)
        assert b.passing == [large]
        async with taking_part(backend("c")) as newcomer:
            assert newcomer.joins[0].picture == {large, b"small"}
        assert own.partings == []
        assert b.partings == []
