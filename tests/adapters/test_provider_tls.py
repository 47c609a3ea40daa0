"""A hosted provider behind TLS with a certificate of a private CA: served, pinged, and refused without the CA."""

import pytest

from support.certificates import Authority
from support.fake_providers import fake_provider
from support.gateways import ask_for
from support.service import started


def document(base_url: str, **tls: object) -> dict[str, object]:
    provider = {"name": "inhouse", "base_url": base_url, "api_key": "sk", "ping_interval": "off", **tls}
    return {
        "gateway": {"listen": "127.0.0.1:0"},
        "admin": {"listen": "127.0.0.1:0"},
        "providers": [provider],
        "models": [{"name": "chat", "provider": "inhouse", "model": "deepseek-chat"}],
    }


@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_with_a_certificate_of_a_private_ca(tmp_path, stream):
    ours = Authority(tmp_path)
    async with fake_provider("deepseek", tls=ours.issue("good").server_context()) as provider:
        trusted = document(provider.base_url, tls={"ca_file": str(ours.ca_file)})
        with started(tmp_path, trusted) as run:
            await run.serving()
            reply = await run.ask(ask_for(model="chat", stream=stream))
            assert (reply.status, len(provider.asked)) == (200, 1)
            told = await run.ask(path="/health/ready?ping=1", method="GET")
            assert [one["status"] for one in told.json["providers"]] == ["up"]


async def test_a_certificate_that_is_not_trusted_is_not_asked(tmp_path):
    stranger = Authority(tmp_path, "other ca").issue("stranger")
    async with fake_provider("deepseek", tls=stranger.server_context()) as provider:
        trusted = document(provider.base_url, tls={"ca_file": str(Authority(tmp_path).ca_file)})
        with started(tmp_path, trusted) as run:
            await run.serving()
            reply = await run.ask(ask_for(model="chat"))
            assert reply.status in (502, 503)
            told = await run.ask(path="/health/ready?ping=1", method="GET")
            assert [one["status"] for one in told.json["providers"]] == ["down"]
    assert provider.server.asked == []
