"""What a right file becomes."""

from decimal import Decimal
from pathlib import Path

import pytest

from pulsegate.config import ConfigErrors, load
from pulsegate.core.fleet import EjectionPolicy, EngineName, ProbePolicy, TlsSpec


@pytest.fixture
def read(tmp_path):
    def _read(text, environ=None):
        path = tmp_path / "pulsegate.yaml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load(path, environ or {})

    return _read


def pool(config, name="m"):
    return next(pool for pool in config.fleet().pools if pool.name == name)


def test_defaults_are_those_of_the_core(read):
    found = pool(read("models: [{name: m, endpoints: [http://h:8000]}]"))
    assert (found.probe, found.ejection) == (ProbePolicy(), EjectionPolicy())
    (endpoint,) = found.endpoints
    assert (endpoint.id, endpoint.url, endpoint.engine, endpoint.model) == (
        "h:8000",
        "http://h:8000",
        EngineName.AUTO,
        None,
    )


def test_models_override_the_file_and_the_file_the_defaults(read):
    config = read(
        "probe: {interval: 5s, ttft: auto}\nejection: {max_ejection: 30%}\n"
        "models:\n"
        "  - {name: m, endpoints: [http://a], probe: {timeout: 2s, jitter: 5%}, expect: ^ok}\n"
        "  - {name: n, endpoints: [http://b], ejection: {hold_off: 1m}}\n"
    )
    assert pool(config).probe == ProbePolicy(interval_s=5, auto_ttft=True, timeout_s=2, jitter=0.05, expect="^ok")
    assert pool(config, "n").probe == ProbePolicy(interval_s=5, auto_ttft=True)
    assert pool(config).ejection == EjectionPolicy(max_ejection_percent=30)
    assert pool(config, "n").ejection == EjectionPolicy(max_ejection_percent=30, hold_off_s=60)


def test_defaults_stretch_with_longer_intervals_and_timeouts(read):
    found = pool(read("probe: {interval: 90s, timeout: 40s}\nmodels: [{name: m, endpoints: [http://a]}]")).probe
    assert (found.busy_interval_s, found.deep_timeout_s, found.deep_interval_s) == (90, 80, 160)


def test_what_is_set_does_not_stretch(read):
    with pytest.raises(ConfigErrors) as caught:
        read("probe: {interval: 30s, busy_interval: 29s}\nmodels: [{name: m, endpoints: [http://a]}]")
    assert [problem.key for problem in caught.value.problems] == ["probe.busy_interval"]


def test_data_parallel_servers_have_an_endpoint_per_rank(read):
    found = pool(read("models: [{name: m, endpoints: [{url: http://h:1, data_parallel: 3, id: big, weight: 50}]}]"))
    assert [(spec.id, spec.dp_rank, spec.url, spec.weight) for spec in found.endpoints] == [
        ("big#dp0", 0, "http://h:1", 50),
        ("big#dp1", 1, "http://h:1", 50),
        ("big#dp2", 2, "http://h:1", 50),
    ]


@pytest.mark.parametrize(
    ("written", "url", "name"),
    [
        ("http://Host", "http://host:80", "host:80"),
        ("https://h/base/", "https://h:443/base", "h:443-base"),
        ("http://[::1]:8000", "http://[::1]:8000", "[::1]:8000"),
        ("http://[0:0::1]:8000/v1", "http://[::1]:8000/v1", "[::1]:8000-v1"),
        ("HTTP://10.0.0.1:8000", "http://10.0.0.1:8000", "10.0.0.1:8000"),
        ("http://vllm-0.vllm.ns.svc.cluster.local.:8000", None, "vllm-0.vllm.ns.svc.cluster.local.:8000"),
        ("http://under_score:8000", None, "under_score:8000"),
        ("unix:/run/a/llama.sock", "unix:/run/a/llama.sock", "unix:run-a-llama.sock"),
        ("unix:///run/llama.sock", "unix:/run/llama.sock", "unix:run-llama.sock"),
        ("unix:/run/llama.sock:/v1/", "unix:/run/llama.sock:/v1", "unix:run-llama.sock"),
    ],
)
def test_urls_and_their_names(read, written, url, name):
    (endpoint,) = pool(read(f'models: [{{name: m, endpoints: ["{written}"]}}]')).endpoints
    assert (endpoint.url, endpoint.id) == (url or written, name)


def test_tls_files_are_relative_to_the_configuration(read, tmp_path):
    (tmp_path / "ca.pem").write_text("")
    text = "models: [{name: m, endpoints: [{url: https://h, tls: {ca_file: ca.pem, server_name: other}}]}]"
    (endpoint,) = pool(read(text)).endpoints
    assert endpoint.tls == TlsSpec(ca_file=str(tmp_path / "ca.pem"), server_name="other")


def test_fallbacks_of_fallbacks_follow_depth_first_each_once(read):
    config = read(
        "models:\n"
        "  - {name: a, endpoints: [http://a], fallbacks: [b, c]}\n"
        "  - {name: b, endpoints: [http://b], fallbacks: [d, hosted]}\n"
        "  - {name: c, endpoints: [http://c], fallbacks: [d]}\n"
        "  - {name: d, endpoints: [http://d]}\n"
        "  - {name: hosted, provider: p, fallbacks: [d]}\n"
        "providers: [{name: p, base_url: https://p/v1}]\n"
    )
    routes = {route.name: route.tiers for route in config.fleet().routes}
    assert routes["a"] == ("a", "b", "d", "hosted", "c")
    assert routes["d"] == ("d",)
    assert routes["hosted"] == ("hosted", "d")


def test_secrets_come_from_the_environment_and_are_never_shown(read):
    config = read(
        "models: [{name: m, endpoints: [{url: http://h, api_key: '${KEY}', headers: {X-A: 'v-${KEY}'}}]}]\n"
        "providers: [{name: p, base_url: https://p, api_keys: ['${KEY}', '${OTHER:-plain}']}]",
        {"KEY": "sk-do-not-show", "OTHER": ""},
    )
    (endpoint,) = pool(config).endpoints
    assert endpoint.api_key == "sk-do-not-show"
    assert endpoint.headers == (("X-A", "v-sk-do-not-show"),)
    assert [key.get_secret_value() for key in config.providers[0].api_keys] == ["sk-do-not-show", "plain"]
    shown = f"{config} {config.fleet()} {config.models[0].model_dump()} {config.models[0].model_dump_json()}"
    assert "do-not-show" not in shown


def test_numbers_and_switches_may_come_from_the_environment(read):
    config = read(
        "gateway: {workers: '${N}', expose_headers: '${YES}'}\ncosts: {ledger: l.jsonl, limit_cny: '${LIMIT}'}\n"
        "models: [{name: m, endpoints: [http://h]}]",
        {"N": "4", "YES": "False", "LIMIT": "19.90"},
    )
    assert (config.gateway.workers, config.gateway.expose_headers) == (4, False)
    assert config.costs.limit_cny == Decimal("19.90")


def test_the_dollar_can_be_escaped(read):
    assert pool(read("models: [{name: m, endpoints: [http://h], expect: '$${x}$'}]")).probe.expect == "${x}$"


def test_words_of_old_yaml_stay_text(read):
    config = read('models:\n  - {name: on, endpoints: [{url: "http://h", model: 1:30}]}\n')
    assert (config.models[0].name, config.models[0].endpoints[0].model) == ("on", "1:30")


def test_anchors_and_merges(read):
    config = read(
        "models:\n"
        "  - name: m\n"
        "    endpoints:\n"
        "      - &base {url: http://a, engine: vllm, weight: 10}\n"
        "      - {<<: *base, url: http://b}\n"
        "      - {url: http://c, <<: [*base, {max_inflight: 3, weight: 99}]}\n"
    )
    found = [(e.url, e.engine, e.weight, e.max_inflight) for e in pool(config).endpoints]
    assert found == [
        ("http://a:80", "vllm", 10, None),
        ("http://b:80", "vllm", 10, None),
        ("http://c:80", "vllm", 10, 3),
    ]


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(read):
    config = read(b"\xef\xbb\xbfmodels:\r\n  - name: m\r\n    endpoints: [http://h]\r\n")
    assert config.models[0].name == "m"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("models: []".encode("utf-16"), ": is not UTF-8 but UTF-16 (save it as UTF-8)"),
        (b"a: 1\nb: \xff", ":2:4: is not UTF-8 text: byte 0xff (save it as UTF-8)"),
        (b"\x7fELF\x02\x01\x01\x00\x00", ":1:1: is not text: it holds the control character U+007F (remove it)"),
        (b"a: 1\nb: x\x00", ":2:5: is not text: it holds the control character U+0000 (remove it)"),
        (b"[" * 5000, ": is nested too deeply"),
        (b"models: [" + b"{a: [" * 200 + b"]}" * 200 + b"]", "is nested too deeply"),
        (b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"\n".join(
            b"%c: &%c [%s]" % (n + 1, n + 1, b",".join([b"*%c" % n] * 10)) for n in range(97, 103)
        ), ": holds more than 200,000 values (look for aliases (`*name`) of aliases)"),
    ],
)  # fmt: skip
def test_what_is_not_text_or_not_finite(read, raw, said):
    with pytest.raises(ConfigErrors) as caught:
        read(raw)
    assert said in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    for path, said in (
        (tmp_path / "none.yaml", "does not exist"),
        (tmp_path, "cannot be read: Is a directory"),
        (Path("/dev/zero"), "is larger than 16 MiB"),
    ):
        with pytest.raises(ConfigErrors, match=said):
            load(path, {})


def test_a_large_fleet_is_read_in_time(read):
    servers = "\n".join(f"      - {{url: http://10.0.{n // 250}.{n % 250}:8000, engine: vllm}}" for n in range(2000))
    assert len(pool(read(f"models:\n  - name: m\n    endpoints:\n{servers}\n")).endpoints) == 2000
