"""``pulsegate sim`` as a process, and the examples of its documentation."""

import asyncio
import contextlib
import json
import re
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import yaml

from pulsegate.sim import read_script
from support.sim_client import ask, asking

DOCUMENT = Path(__file__).parents[2] / "docs" / "simulator.md"
EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


@contextlib.asynccontextmanager
async def running(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pulsegate", "sim", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_prints_where_it_is_and_ends_on_a_signal(tmp_path: Path):
    script = tmp_path / "script.yaml"
    script.write_text("[{match: {nth: 1}, do: [{respond: 418}]}]")
    options = ["--engine", "vllm,ollama", "--count", "3", "--port", "0", "--ports", "--ttft", "1ms"]
    async with running(*options, "--model", "m", "--script", str(script)) as process:
        ready = json.loads(await process.stdout.readline())
        assert [engine["engine"] for engine in ready["engines"]] == ["vllm", "ollama", "vllm"]
        assert len({engine["url"] for engine in ready["engines"]}) == 3
        url = ready["engines"][2]["url"]
        assert (await ask(url, body=asking(model="m"))).status == 418
        assert (await ask(url, body=asking(model="m"))).events[-1] == "[DONE]"
        shown = (await ask(ready["admin"], "/_sim/e2")).json["engines"][0]
        assert (shown["model"], shown["counters"]["generations"]) == ("m", 2)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--engine", "vlm"], "no engine 'vlm'; there are vllm"),
        (["--ttft", "quick"], "'quick' is not a duration"),
        (["--script", "{bad}"], "did you mean 'rules'"),
        (["--script", "{none}"], "No such file"),
        (["--tls-cert", "{bad}"], "bad.yaml"),
        (["--count", "0"], "greater than or equal to 1"),
    ],
)
async def test_says_what_it_did_not_understand(tmp_path: Path, arguments: list[str], complaint: str):
    bad = tmp_path / "bad.yaml"
    bad.write_text("rulez: []")
    places = {"{bad}": str(bad), "{none}": str(tmp_path / "none")}
    async with running(*(places.get(argument, argument) for argument in arguments), "--port", "0") as process:
        _, said = await process.communicate()
    plain = " ".join(said.decode().replace("│", " ").split())
    assert process.returncode == 3
    assert complaint in plain


async def test_a_port_in_use_is_told_in_one_line():
    async with running("--port", "0") as first:
        port = json.loads(await first.stdout.readline())["admin"].rsplit(":", 1)[1]
        async with running("--port", port) as second:
            _, said = await second.communicate()
    assert second.returncode == 3
    assert said.decode().strip() == f"pulsegate: cannot listen on 127.0.0.1:{port}: Address already in use"


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_of_the_documentation_are_right(example: str):
    script = read_script(example)
    assert script.rules or script.start
    assert yaml.safe_load(example)


def test_the_documentation_names_every_step_condition_and_option():
    from pulsegate.sim.vocabulary import _STEPS  # noqa: PLC0415 - the names are all that is wanted

    text = DOCUMENT.read_text(encoding="utf-8")
    assert [name for name in _STEPS if f"`{name}" not in text and f" {name}" not in text] == []
