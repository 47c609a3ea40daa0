"""What workers are told of a configuration."""

from pathlib import Path

import msgspec
import pytest

from pulsegate.assembly import encoded_setup, setup_of
from pulsegate.config import Config
from pulsegate.config.loading import parse
from pulsegate.gateway.setup import ServerTls, Setup
from support.certificates import Authority

ENDPOINT = "models: [{name: m, endpoints: [%s]}]"


def configured(text: str, folder: Path = Path()) -> Config:
    return parse(text.encode(), folder / "pulsegate.yaml", {"KEY": "sk-secret"})


def setup(text: str, folder: Path = Path()) -> Setup:
    return setup_of(configured(text, folder), access_log=None, priced_at=0.0)


def test_ranks_are_pinned_by_a_header() -> None:
    [pool] = setup(ENDPOINT % "{id: e, url: 'http://h:1', engine: vllm, data_parallel: 2}").pools
    assert [(one.id, one.headers) for one in pool.endpoints] == [
        ("e#dp0", (("X-data-parallel-rank", "0"),)),
        ("e#dp1", (("X-data-parallel-rank", "1"),)),
    ]


def test_addresses_keys_and_names() -> None:
    entry = "{url: 'https://h/base/v1', api_key: '${KEY}', model: org/m, max_inflight: 3, tls: {server_name: other}}"
    [pool] = setup(ENDPOINT % entry).pools
    [one] = pool.endpoints
    assert (one.host, one.port, one.base_path, one.host_header) == ("h", 443, "/base", "h")
    assert one.headers == (("Authorization", "Bearer sk-secret"),)
    assert (one.model, one.max_inflight) == ("org/m", 3)
    assert one.tls is not None
    assert one.tls.server_name == "other"
    assert "secret" not in repr(one)


def test_unix_sockets() -> None:
    [pool] = setup(ENDPOINT % "'unix:/run/e.sock:/base'").pools
    [one] = pool.endpoints
    assert (one.unix_path, one.base_path, one.tls) == ("/run/e.sock", "/base", None)


def test_routes_limits_and_deadlines() -> None:
    made = setup(
        "gateway: {max_body: 1MiB, header_timeout: 1s, body_timeout: 2s, ttft_deadline: 9s, itl_deadline: 8s, "
        "drain_timeout: 7s, affinity_header: X-Session, expose_headers: false}\n"
        "models: [{name: a, endpoints: ['http://h:1'], fallbacks: [b]}, {name: b, endpoints: ['http://h:2'], "
        "ttft_deadline: 3s}]"
    )
    assert [(route.name, route.tiers) for route in made.routes] == [("a", ("a", "b")), ("b", ("b",))]
    assert [(pool.ttft_deadline_s, pool.itl_deadline_s) for pool in made.pools] == [(9, 8), (3, 8)]
    assert (made.limits.body_bytes, made.limits.header_timeout_s, made.limits.body_timeout_s) == (2**20, 1, 2)
    assert (made.drain_timeout_s, made.affinity_header, made.response_headers) == (7, "X-Session", False)


def test_it_travels_whole(tmp_path: Path) -> None:
    pair = Authority(tmp_path).issue("gateway")
    (tmp_path / "keys.yaml").write_text(f"keys: [{{name: a, sha256: '{'0' * 64}'}}]")
    text = (
        f"gateway: {{keys_file: keys.yaml, tls: {{cert_file: '{pair.cert_file}', key_file: '{pair.key_file}'}}}}\n"
        + ENDPOINT % "'http://h:1'"
    )
    made = setup(text, tmp_path)
    assert made.tls == ServerTls(cert_file=str(pair.cert_file), key_file=str(pair.key_file))
    encoded = encoded_setup(configured(text, tmp_path), access_log=None, priced_at=0.0)
    assert msgspec.msgpack.decode(encoded, type=Setup) == made


def test_files_are_looked_at_before_anybody_serves_by_them(tmp_path: Path) -> None:
    (tmp_path / "keys.yaml").write_text("keys: 3")
    config = configured("gateway: {keys_file: keys.yaml}\n" + ENDPOINT % "'http://h:1'", tmp_path)
    with pytest.raises(ValueError, match=r"keys\.yaml"):
        encoded_setup(config, access_log=None, priced_at=0.0)
    with pytest.raises(ValueError, match="access log"):
        encoded_setup(configured(ENDPOINT % "'http://h:1'"), access_log="/no/such/folder/log", priced_at=0.0)


def test_an_endpoints_files_are_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    entry = "{id: e, url: 'https://h:1', tls: {ca_file: ca.pem}}"
    with pytest.raises(ValueError, match="endpoint e: its TLS files"):
        encoded_setup(configured(ENDPOINT % entry, tmp_path), access_log=None, priced_at=0.0)


PRESETS = {
    "deepseek": ("api.deepseek.com", "/v1"),
    "zhipu": ("open.bigmodel.cn", "/api/paas/v4"),
    "dashscope": ("dashscope.aliyuncs.com", "/compatible-mode/v1"),
    "moonshot": ("api.moonshot.cn", "/v1"),
    "siliconflow": ("api.siliconflow.cn", "/v1"),
    "openai": ("api.openai.com", "/v1"),
    "openrouter": ("openrouter.ai", "/api/v1"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_need_a_name_and_a_key(name: str) -> None:
    made = setup(
        "models: [{name: m, provider: NAME}]\nproviders: [{name: NAME, api_key: '${KEY}'}]".replace("NAME", name)
    )
    [pool], [route] = made.pools, made.routes
    [one] = pool.endpoints
    assert (one.host, one.api_path, one.port, one.host_header) == (*PRESETS[name], 443, PRESETS[name][0])
    assert one.tls is not None
    assert one.tls.verify
    assert one.headers == (("Authorization", "Bearer sk-secret"),)
    assert (one.id, one.model, pool.provider, route.tiers) == (f"{name}/m", "m", name, ("m",))


def test_providers_keys_and_names() -> None:
    made = setup(
        "models: [{name: a, provider: second, fallbacks: [b]}, {name: b, provider: own, model: theirs}]\n"
        "providers:\n"
        "  - {name: second, preset: deepseek, api_keys: [k1, k2], models: {a: deepseek-chat}}\n"
        "  - {name: own, base_url: 'http://10.0.0.1:9000', ask_usage: false}\n"
    )
    first, other = made.pools
    assert [(one.id, one.key, one.model) for one in first.endpoints] == [
        ("second/a#1", "second#1", "deepseek-chat"),
        ("second/a#2", "second#2", "deepseek-chat"),
    ]
    [one] = other.endpoints
    assert (one.api_path, one.headers, one.model, other.ask_usage) == ("/v1", (), "theirs", False)
    assert made.routes[0].tiers == ("a", "b")


def test_a_preset_without_a_key_is_not_asked() -> None:
    made = setup("models: [{name: m, provider: zhipu}]\nproviders: [{name: zhipu}]")
    assert made.pools[0].endpoints == ()
    assert not made.providers[0].configured
