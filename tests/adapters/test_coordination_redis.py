"""A Redis that goes away, comes back, forgets, hangs or refuses; and members that hang."""

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from pulsegate.control.coordination import Words
from pulsegate.coordination.redis import RedisCoordinator
from pulsegate.coordination.redis_line import Gone, open_line
from pulsegate.coordination.redis_scripts import Fleet
from pulsegate.core.coordination import CoordinationSpec, RedisAddress, RedisSpec
from pulsegate.core.ids import MemberId
from support.members import Ear, Joined, Parted, taking_part
from support.redis_server import RedisServer
from support.tcp_proxy import tcp_proxy

KEPT, STATE = "{pulsegate:default}:kept", "{pulsegate:default}:state"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    server = RedisServer(tmp_path)
    await server.start()
    try:
        yield server
    finally:
        server.stop()


def coordinator(member: str, redis: RedisSpec, heartbeat_s: float = 0.1, timeout_s: float = 5.0) -> RedisCoordinator:
    spec = CoordinationSpec(redis=redis, heartbeat_s=heartbeat_s, member_timeout_s=timeout_s)
    return RedisCoordinator(redis, spec, MemberId(member), random.Random(member))


def words(member: str, ear: Ear, value: bytes) -> Words:
    return Words(MemberId(member), ear.view.epoch, {"x": value}, (value,))


async def test_a_server_that_is_killed_and_started_anew_is_joined_again_with_an_empty_picture(
    server: RedisServer,
) -> None:
    a, b = coordinator("a", server.spec), coordinator("b", server.spec)
    async with taking_part(a) as heard_a, taking_part(b) as heard_b:
        await heard_a.until_members("a", "b")
        a.tell(words("a", heard_a, b"before"))
        await heard_b.until(lambda ear: ear.words)
        epoch = heard_a.view.epoch
        server.kill()
        for ear in (heard_a, heard_b):
            await ear.until(lambda ear: ear.partings)
        a.tell(words("a", heard_a, b"while parted"))
        await asyncio.sleep(1.5)
        await server.start()
        for ear in (heard_a, heard_b):
            await ear.until(lambda ear: len(ear.joins) == 2)
            assert ear.joins[1].picture == frozenset()
            assert ear.joins[1].view.epoch > epoch
            assert len(ear.partings) == 1
        await heard_a.until(lambda ear: set(ear.view.members) == {"a", "b"})
        a.tell(words("a", heard_a, b"after"))
        await heard_b.until(lambda ear: b"after" in ear.passing)
        assert heard_b.passing == [b"before", b"after"]


async def test_a_server_that_hangs_is_parted_from_and_joined_again(server: RedisServer) -> None:
    a = coordinator("a", server.spec)
    async with taking_part(a) as heard:
        a.tell(words("a", heard, b"kept"))
        async with taking_part(coordinator("b", server.spec)):
            pass
        server.freeze()
        try:
            loop = asyncio.get_running_loop()
            frozen_at = loop.time()
            await heard.until(lambda ear: ear.partings)
            assert loop.time() - frozen_at < 2.0
            await asyncio.sleep(2.0)
        finally:
            server.thaw()
        await heard.until(lambda ear: len(ear.joins) == 2)
        assert heard.joins[1].picture == {b"kept"}
        assert [why.why for why in heard.partings] == [f"redis at 127.0.0.1:{server.port}: no answer within 1 s"]


@pytest.mark.parametrize("frozen", [0, 1], ids=["asking", "listening"])
async def test_a_connection_that_is_half_open_is_noticed_within_two_seconds(server: RedisServer, frozen: int) -> None:
    async with tcp_proxy(server.port) as proxy:
        through = RedisSpec(addresses=(RedisAddress("127.0.0.1", proxy.port),))
        async with taking_part(coordinator("a", through, heartbeat_s=1.0)) as heard:
            loop = asyncio.get_running_loop()
            proxy.frozen.add(frozen)
            frozen_at = loop.time()
            await heard.until(lambda ear: ear.partings)
            assert loop.time() - frozen_at < 2.5
            await heard.until(lambda ear: len(ear.joins) == 2)


async def test_a_lost_message_is_noticed_by_the_next_heartbeat(server: RedisServer) -> None:
    async with taking_part(coordinator("a", server.spec)) as heard:
        server.ask("HSET", KEPT, "x", "said, and not heard")
        server.ask("HINCRBY", STATE, "revision", "1")
        await heard.until(lambda ear: len(ear.joins) == 2)
        assert heard.joins[1] == Joined(heard.joins[0].view, frozenset({b"said, and not heard"}))
        assert heard.partings == []


async def test_a_lost_message_is_noticed_by_the_one_that_follows(server: RedisServer) -> None:
    a, b = coordinator("a", server.spec, heartbeat_s=60.0, timeout_s=200.0), coordinator("b", server.spec)
    async with taking_part(a) as heard_a, taking_part(b) as heard_b:
        await heard_a.until_members("a", "b")
        server.ask("HSET", KEPT, "y", "said, and not heard")
        server.ask("HINCRBY", STATE, "revision", "1")
        b.tell(words("b", heard_b, b"next"))
        await heard_a.until(lambda ear: len(ear.joins) == 2)
        assert heard_a.joins[1].picture == {b"said, and not heard", b"next"}


async def test_a_server_that_forgets_everything_does_not_go_back_to_old_epochs(server: RedisServer) -> None:
    a, b = coordinator("a", server.spec), coordinator("b", server.spec)
    async with taking_part(a) as heard_a, taking_part(b) as heard_b:
        await heard_a.until_members("a", "b")
        epoch = heard_a.view.epoch
        server.ask("FLUSHALL")
        for ear in (heard_a, heard_b):
            await ear.until(lambda ear: ear.view.epoch > epoch and set(ear.view.members) == {"a", "b"})
        assert heard_a.view == heard_b.view


async def test_words_of_a_member_that_was_given_up_are_refused(server: RedisServer) -> None:
    async with (
        taking_part(coordinator("a", server.spec)) as heard,
        open_line(server.spec.addresses[0], server.spec) as line,
    ):
        slow = Fleet("default", MemberId("slow"), member_timeout_s=0.3)
        first = await slow.beat(line, epoch=0, revision=0, with_picture=False)
        old = Words(MemberId("slow"), first.view.epoch, {"x": b"1"})
        assert await slow.tell(line, old)
        await heard.until_members("a")
        assert not await slow.tell(line, old)
        again = await slow.beat(line, epoch=0, revision=0, with_picture=False)
        assert again.admitted > first.admitted
        assert again.view.members == ("a", "slow")
        assert not await slow.tell(line, old), "it is a member again, and these words are from before"
        assert await slow.tell(line, old._replace(epoch=again.view.epoch, kept={"x": b"2"}))
        await heard.until(lambda ear: len(ear.words) == 2)
        assert [said.kept for said in heard.words] == [{"x": b"1"}, {"x": b"2"}]


async def test_a_member_is_given_up_though_nobody_else_is_there_to_notice(server: RedisServer) -> None:
    async with open_line(server.spec.addresses[0], server.spec) as line:
        alone = Fleet("default", MemberId("alone"), member_timeout_s=0.2)
        beat = await alone.beat(line, epoch=0, revision=0, with_picture=False)
        await asyncio.sleep(0.3)
        assert not await alone.tell(line, Words(MemberId("alone"), beat.view.epoch, {"x": b"1"}))


async def test_a_member_that_hangs_cannot_say_what_it_knew_before(server: RedisServer) -> None:
    command = ["-m", "support.member_process", str(server.port), "hangs", "0.1", "0.6"]
    async with taking_part(coordinator("a", server.spec)) as heard:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": ":".join(sys.path)}
        )
        try:
            await heard.until_members("a", "hangs")
            await heard.until(lambda ear: len(ear.words) > 5)
            process.send_signal(signal.SIGSTOP)
            await heard.until_members("a")
            given_up = heard.view.epoch
            until_then = len(heard.words)
            await asyncio.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            await heard.until_members("a", "hangs")
            await heard.until(lambda ear: len(ear.words) > until_then + 5)
        finally:
            process.kill()
            said, _ = await process.communicate()
    assert min(later.epoch for later in heard.words[until_then:]) > given_up
    what = [line.split()[0] for line in said.decode().splitlines()]
    assert what[what.index("parted") :][:2] == ["parted", "joined"]
    assert what.count("parted") == 1


async def test_a_server_that_is_not_there_is_told_of_once(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    async with taking_part(coordinator("a", server.spec), wait=False) as heard:
        await heard.until(lambda ear: ear.partings)
        await asyncio.sleep(1.5)
        assert len(heard.heard_of) == 1
        assert f"127.0.0.1:{server.port}" in heard.partings[0].why
        await server.start()
        try:
            await heard.until(lambda ear: ear.joins)
            assert heard.joins[0].view.members == ("a",)
        finally:
            server.stop()


async def test_while_there_is_no_server_it_is_not_stormed(tmp_path: Path) -> None:
    async with tcp_proxy(RedisServer(tmp_path).port) as proxy:
        through = RedisSpec(addresses=(RedisAddress("127.0.0.1", proxy.port),))
        async with taking_part(coordinator("a", through), wait=False) as heard:
            await heard.until(lambda ear: ear.partings)
            await asyncio.sleep(3.0)
        assert 2 <= proxy.connections <= 12


async def test_a_wrong_password_is_told_and_not_shown(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, ("--requirepass", "right-secret"))
    await server.start()
    try:
        for spec in (server.spec, replace(server.spec, password="wrong-secret")):
            async with taking_part(coordinator("a", spec), wait=False) as heard:
                await heard.until(lambda ear: ear.partings)
                assert "secret" not in heard.partings[0].why
                assert "refuses" in heard.partings[0].why
        async with taking_part(coordinator("a", replace(server.spec, password="right-secret"))) as heard:
            assert heard.view.members == ("a",)
            assert "right-secret" not in repr(heard.heard_of)
    finally:
        server.stop()


async def test_a_replica_is_not_written_to(server: RedisServer) -> None:
    server.ask("REPLICAOF", "127.0.0.1", "1")
    async with taking_part(coordinator("a", server.spec), wait=False) as heard:
        await heard.until(lambda ear: ear.partings)
        assert heard.joins == []
        server.ask("REPLICAOF", "NO", "ONE")
        await heard.until(lambda ear: ear.joins)
        assert len(heard.partings) == 1


async def test_a_server_without_memory_left_is_parted_from_until_it_has_some(server: RedisServer) -> None:
    async with taking_part(coordinator("a", server.spec)) as heard:
        server.ask("CONFIG", "SET", "maxmemory", "1")
        await heard.until(lambda ear: ear.partings)
        assert "maxmemory" in heard.partings[0].why
        server.ask("CONFIG", "SET", "maxmemory", "0")
        await heard.until(lambda ear: len(ear.joins) == 2)


async def test_scripts_that_the_server_forgot_are_sent_again(server: RedisServer) -> None:
    a = coordinator("a", server.spec)
    async with taking_part(a) as heard_a, taking_part(coordinator("b", server.spec)) as heard_b:
        await heard_a.until_members("a", "b")
        server.ask("SCRIPT", "FLUSH")
        a.tell(words("a", heard_a, b"1"))
        await heard_b.until(lambda ear: ear.words)
        assert not any(isinstance(item, Parted) for ear in (heard_a, heard_b) for item in ear.heard_of)


async def test_what_somebody_else_publishes_is_ignored(server: RedisServer) -> None:
    a = coordinator("a", server.spec)
    async with taking_part(a) as heard_a, taking_part(coordinator("b", server.spec)) as heard_b:
        await heard_a.until_members("a", "b")
        server.ask("PUBLISH", "{pulsegate:default}:words", "nonsense")
        a.tell(words("a", heard_a, b"1"))
        await heard_b.until(lambda ear: ear.words)
        assert len(heard_b.joins) == 1


async def test_what_was_said_does_not_stay_for_good(server: RedisServer) -> None:
    a = coordinator("a", server.spec)
    async with taking_part(a) as heard_a:
        async with taking_part(coordinator("b", server.spec)) as heard_b:
            a.tell(words("a", heard_a, b"1"))
            await heard_b.until(lambda ear: ear.words)
        await asyncio.sleep(0.3)
        assert 3000 < int(server.ask("TTL", KEPT)) <= 3600


async def test_nothing_is_left_open_when_it_cannot_be_used(tmp_path: Path) -> None:
    spec = RedisServer(tmp_path).spec
    with pytest.raises(Gone, match=r"127\.0\.0\.1"):
        async with open_line(spec.addresses[0], spec):
            pass
