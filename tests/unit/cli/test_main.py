"""Which commands there are, and what becomes of errors."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pulsegate import __version__
from pulsegate.cli import ExitCode, run
from pulsegate.cli.probe import probe


def test_version(capsys):
    assert run(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out == f"pulsegate {__version__}\n"


def test_help_lists_the_commands_without_importing_them():
    script = (
        "import sys; from pulsegate.cli import run; code = run(['--help']);"
        "print({'pydantic', 'yaml', 'uvloop', 'pulsegate.app', 'pulsegate.cli.check'} & sys.modules.keys(), code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    for command in ("serve", "probe", "check", "status", "demo", "sim"):
        assert f" {command} " in done.stdout
    assert done.stdout.splitlines()[-1] == "set() 0"


@pytest.mark.parametrize(
    "arguments", [["nope"], ["check"], ["check", "--nope", "file"], ["check", "a", "b"], ["--nope"]]
)
def test_wrong_usage_is_not_taken_for_a_verdict(arguments, capsys):
    assert run(arguments) == ExitCode.UNKNOWN
    told = capsys.readouterr()
    assert "Usage: pulsegate" in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_a_reader_that_leaves_is_no_error():
    command = f"{sys.executable} -m pulsegate --help | head -n 0"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert done.stderr == ""


def test_every_command_is_documented():
    text = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    assert re.findall(r"^\| `pulsegate (\w+)", text, re.MULTILINE) == [
        "serve", "probe", "check", "status", "sim", "demo",
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["serve", "probe", "check", "status", "sim", "demo"])
def test_every_command_has_help(command, capsys):
    assert run([command, "--help"]) == ExitCode.OK
    assert f"Usage: pulsegate {command}" in capsys.readouterr().out


def test_every_option_of_probe_is_documented():
    text = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()
    part = text[text.index("## probe") : text.index("## check")]
    names = [name for name in inspect.signature(probe).parameters if name not in {"url", "is_json"}]
    assert [name for name in names if f"`--{name.replace('_', '-')}" not in part] == []
