"""The ways to a Redis: a socket, TLS, users with few permissions, Sentinels, a cluster."""

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from pulsegate.control.coordination import Words
from pulsegate.coordination.redis import RedisCoordinator
from pulsegate.core.coordination import CoordinationSpec, RedisAddress, RedisKind, RedisSpec
from pulsegate.core.fleet import TlsSpec
from pulsegate.core.ids import MemberId
from support.certificates import Authority
from support.members import taking_part
from support.redis_server import RedisServer, free_port

PAGE = Path(__file__).parents[2] / "docs" / "coordination.md"


@asynccontextmanager
async def running(server: RedisServer) -> AsyncIterator[RedisServer]:
    await server.start()
    try:
        yield server
    finally:
        server.stop()


def coordinator(member: str, redis: RedisSpec) -> RedisCoordinator:
    spec = CoordinationSpec(redis=redis, heartbeat_s=0.1, member_timeout_s=5.0)
    return RedisCoordinator(redis, spec, MemberId(member), random.Random(member))


async def meet(redis: RedisSpec) -> None:
    """Two members of which one hears the other."""
    a = coordinator("a", redis)
    async with taking_part(a) as heard_a, taking_part(coordinator("b", redis)) as heard_b:
        await heard_a.until_members("a", "b")
        a.tell(Words(MemberId("a"), heard_a.view.epoch, {"x": b"1"}))
        await heard_b.until(lambda ear: ear.words)
        await asyncio.sleep(0.3)
        assert heard_a.partings == []


async def why_not(redis: RedisSpec) -> str:
    async with taking_part(coordinator("a", redis), wait=False) as heard:
        await heard.until(lambda ear: ear.heard_of)
        assert heard.joins == []
        return heard.partings[0].why


async def test_over_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "redis.sock")
    async with running(RedisServer(tmp_path, ("--unixsocket", path))):
        await meet(RedisSpec(unix_path=path))
    assert await why_not(RedisSpec(unix_path=path)) != ""


async def test_in_another_database(tmp_path: Path) -> None:
    async with running(RedisServer(tmp_path)) as server:
        await meet(replace(server.spec, db=3))
        assert "out of range" in await why_not(replace(server.spec, db=300))


async def test_with_no_more_permissions_than_documented(tmp_path: Path) -> None:
    rule = re.search(r"^ACL (SETUSER pulsegate .*)$", PAGE.read_text(), re.MULTILINE)
    assert rule is not None
    async with running(RedisServer(tmp_path)) as server:
        server.ask("ACL", *rule[1].replace("PASSWORD", "secret-word").split())
        server.ask("ACL", "SETUSER", "other", "on", ">secret-word", "~{other:*", "+@all")
        await meet(replace(server.spec, username="pulsegate", password="secret-word"))
        assert server.ask("ACL", "LOG") == ""
        why = await why_not(replace(server.spec, username="other", password="secret-word"))
        assert "permission" in why
        assert "secret-word" not in why


async def test_over_tls_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    server_pair, client_pair = authority.issue("server"), authority.issue("client")
    port = free_port()
    settings = ("--tls-port", str(port), "--tls-ca-cert-file", str(authority.ca_file))
    settings += ("--tls-cert-file", str(server_pair.cert_file), "--tls-key-file", str(server_pair.key_file))
    async with running(RedisServer(tmp_path, settings)) as server:
        tls = TlsSpec(
            ca_file=str(authority.ca_file), cert_file=str(client_pair.cert_file), key_file=str(client_pair.key_file)
        )
        over_tls = replace(server.spec, addresses=(RedisAddress("127.0.0.1", port),), tls=tls)
        await meet(over_tls)
        assert "certificate" in await why_not(replace(over_tls, tls=replace(tls, ca_file=str(stranger.ca_file))))
        assert await why_not(replace(over_tls, tls=TlsSpec(ca_file=str(authority.ca_file)))) != ""
        missing = replace(over_tls, tls=TlsSpec(ca_file=str(tmp_path / "none.pem")))
        assert "No such file" in await why_not(missing)


async def test_sentinels_say_which_server_is_the_master(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "sentinel")]
    for folder in folders:
        folder.mkdir()
    async with running(RedisServer(folders[0])) as one:
        replica = RedisServer(folders[1], ("--replicaof", f"127.0.0.1 {one.port}"))
        (folders[2] / "sentinel.conf").write_text(
            f"sentinel monitor main 127.0.0.1 {one.port} 1\n"
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 2000\n"
        )
        watch = RedisServer(folders[2], config_file="sentinel.conf")
        async with running(replica), running(watch):
            silent = RedisAddress("127.0.0.1", free_port())
            redis = RedisSpec(kind=RedisKind.SENTINEL, addresses=(silent, *watch.spec.addresses), service="main")
            assert "knows no service other" in await why_not(replace(redis, service="other"))
            async with taking_part(coordinator("a", redis)) as heard:
                await one.until_it_says(f"port={replica.port},state=online", "INFO", "replication")
                await watch.until_it_says(str(replica.port), "SENTINEL", "REPLICAS", "main")
                epoch = heard.view.epoch
                one.kill()
                await heard.until(lambda ear: len(ear.joins) == 2, within_s=30.0)
                assert heard.view.epoch >= epoch
                assert replica.ask("ZRANGE", "{pulsegate:default}:order", "0", "-1") == "a"


async def test_a_sentinel_that_asks_for_a_password_is_given_that_of_the_server(tmp_path: Path) -> None:
    async with running(RedisServer(tmp_path, ("--requirepass", "secret-word"))) as server:
        (tmp_path / "sentinel.conf").write_text(
            f"requirepass secret-word\nsentinel monitor main 127.0.0.1 {server.port} 1\n"
            "sentinel auth-pass main secret-word\n"
        )
        async with running(RedisServer(tmp_path, config_file="sentinel.conf")) as watch:
            redis = RedisSpec(kind=RedisKind.SENTINEL, addresses=watch.spec.addresses, service="main")
            await meet(replace(redis, password="secret-word"))
            assert "password" in await why_not(redis)
            why = await why_not(replace(redis, password="wrong-secret"))
            assert "refuses" in why
            assert "wrong-secret" not in why


async def test_a_cluster_says_which_node_holds_the_fleet(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    buses = [free_port(), free_port()]
    nodes = [
        RedisServer(folder, ("--cluster-enabled", "yes", "--cluster-port", str(bus)))
        for folder, bus in zip(folders, buses, strict=True)
    ]
    async with running(nodes[0]) as one, running(nodes[1]) as two:
        redis = RedisSpec(kind=RedisKind.CLUSTER, addresses=two.spec.addresses)
        assert "not served" in await why_not(redis)
        one.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        two.ask("CLUSTER", "MEET", "127.0.0.1", str(one.port), str(buses[0]))
        for node in (one, two):
            await node.until_it_says("cluster_state:ok", "CLUSTER", "INFO")
        await meet(redis)
        async with taking_part(coordinator("a", redis)) as heard:
            slot = one.ask("CLUSTER", "KEYSLOT", "{pulsegate:default}:kept")
            for server in (two, one):
                server.ask("FLUSHALL")
                server.ask("CLUSTER", "SETSLOT", slot, "NODE", two.ask("CLUSTER", "MYID"))
            await heard.until(lambda ear: len(ear.joins) > 1, within_s=30.0)
            assert two.ask("ZRANGE", "{pulsegate:default}:order", "0", "-1") == "a"
