"""The section ``coordination`` becomes a specification; what is wrong with it is in ``tests/data/bad_configs``."""

from pathlib import Path

import pytest

from pulsegate.config.loading import Config, parse
from pulsegate.core.coordination import CoordinationSpec, RedisAddress, RedisKind, RedisSpec
from pulsegate.core.fleet import TlsSpec
from pulsegate.core.sharding import Mode

MODELS = "models: [{name: m, endpoints: [http://127.0.0.1:8000]}]\n"


def config(section: str, folder: Path = Path(), **environ: str) -> Config:
    return parse(f"{MODELS}coordination: {section}\n".encode(), folder / "pulsegate.yaml", environ)


def redis(url: str) -> RedisSpec:
    spec = config(f'{{backend: redis, url: "{url}"}}').coordination.spec().redis
    assert spec is not None
    return spec


def test_a_gateway_is_alone_unless_told_otherwise():
    assert parse(MODELS.encode(), Path("pulsegate.yaml"), {}).coordination.spec() == CoordinationSpec()
    assert config("{fleet: east, mode: leader, heartbeat: 500ms, member_timeout: 2s}").coordination.spec() == (
        CoordinationSpec(fleet="east", mode=Mode.LEADER, heartbeat_s=0.5, member_timeout_s=2.0)
    )


@pytest.mark.parametrize(
    ("url", "spec"),
    [
        ("redis://Redis.Internal", RedisSpec(addresses=(RedisAddress("redis.internal", 6379),))),
        ("redis://10.0.0.5:7000/2", RedisSpec(addresses=(RedisAddress("10.0.0.5", 7000),), db=2)),
        ("redis://:a%40b%2Fc@[::1]", RedisSpec(addresses=(RedisAddress("::1", 6379),), password="a@b/c")),
        ("redis://me:pw@[::1]:7000/", RedisSpec(addresses=(RedisAddress("::1", 7000),), username="me", password="pw")),
        ("rediss://10.0.0.5", RedisSpec(addresses=(RedisAddress("10.0.0.5", 6379),), tls=TlsSpec())),
        ("unix:///run/redis.sock", RedisSpec(unix_path="/run/redis.sock")),
        (
            "redis+sentinel://a,b:1/main/1",
            RedisSpec(
                kind=RedisKind.SENTINEL,
                addresses=(RedisAddress("a", 26379), RedisAddress("b", 1)),
                service="main",
                db=1,
            ),
        ),
        (
            "rediss+cluster://u:p@a,b:1",
            RedisSpec(
                kind=RedisKind.CLUSTER,
                addresses=(RedisAddress("a", 6379), RedisAddress("b", 1)),
                username="u",
                password="p",
                tls=TlsSpec(),
            ),
        ),
    ],
)
def test_the_url_says_where_and_how(url: str, spec: RedisSpec):
    assert redis(url) == spec


def test_addresses_are_shown_as_they_are_written():
    assert [str(RedisAddress(host, 6379)) for host in ("::1", "10.0.0.5")] == ["[::1]:6379", "10.0.0.5:6379"]


def test_user_password_and_certificates_may_stand_beside_the_url(tmp_path: Path):
    (tmp_path / "ca.pem").touch()
    section = '{backend: redis, url: "rediss://a", username: me, password: "${PW}", tls: {ca_file: ca.pem}}'
    spec = config(section, tmp_path, PW="secret-word").coordination.spec()
    assert spec.redis is not None
    assert (spec.redis.username, spec.redis.password) == ("me", "secret-word")
    assert spec.redis.tls == TlsSpec(ca_file=str(tmp_path / "ca.pem"))


def test_no_secret_shows_in_a_repr():
    beside = config('{backend: redis, url: "redis://a", password: secret-word}')
    within = config('{backend: redis, url: "redis://:secret-word@a"}')
    for shown in (repr(beside), repr(within), repr(beside.coordination.spec()), repr(within.coordination.spec())):
        assert "secret-word" not in shown
