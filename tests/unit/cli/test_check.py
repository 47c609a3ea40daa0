"""``pulsegate check``."""

import json
from pathlib import Path

import pytest

from pulsegate.cli import ExitCode, run

BAD = Path(__file__).parents[2] / "data" / "bad_configs"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pulsegate.yaml"
    path.write_text(
        "models:\n"
        "  - {name: m, endpoints: [http://a:8000, {url: http://b:8000, data_parallel: 2}], fallbacks: [n]}\n"
        "  - {name: n, endpoints: [http://c:8000]}\n"
    )
    return path


def test_a_right_file_is_summed_up(file, capsys):
    assert run(["check", str(file)]) == ExitCode.OK
    assert capsys.readouterr().out == (
        f"{file} is right: 2 pools, 4 endpoints, 2 routes\n"
        "  m: m -> n\n"
        "  n: n\n"
        "  pool m: a:8000, b:8000#dp0, b:8000#dp1\n"
        "  pool n: c:8000\n"
    )


def test_files_that_it_names_are_read(file, capsys):
    (file.parent / "keys.yaml").write_text("keys: [{name: a, sha256: abc}]")
    file.write_text("gateway: {keys_file: keys.yaml}\n" + file.read_text())
    assert run(["check", str(file)]) == ExitCode.UNKNOWN
    said = capsys.readouterr().err
    assert "keys.yaml" in said
    assert "sha256 must be 64 hexadecimal digits" in said


def test_a_right_file_as_json(file, capsys):
    assert run(["check", str(file), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out) == {
        "ok": True,
        "file": str(file),
        "pools": [
            {"name": "m", "endpoints": ["a:8000", "b:8000#dp0", "b:8000#dp1"]},
            {"name": "n", "endpoints": ["c:8000"]},
        ],
        "routes": [{"name": "m", "tiers": ["m", "n"]}, {"name": "n", "tiers": ["n"]}],
        "providers": [],
        "notes": [],
        "problems": [],
    }


def test_what_is_allowed_and_worth_knowing_is_noted(tmp_path, capsys):
    path = tmp_path / "open.yaml"
    path.write_text(
        "gateway: {listen: 0.0.0.0:8080}\nadmin: {listen: '[::]:8081'}\ncosts: {ledger: l.jsonl, limit_cny: 1}\n"
        "models: [{name: m, endpoints: [{url: https://a, tls: {verify: false}}, {url: http://b, api_key: k}]}]\n"
    )
    assert run(["check", str(path), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["notes"] == [
        "gateway.listen: 0.0.0.0:8080 can be reached from other machines, and asks for no key",
        "admin.listen: [::]:8081 can be reached from other machines, and asks for no key",
        "https://a:443: its certificate is not verified",
        "http://b:80: the API key travels unencrypted",
    ]


def test_nothing_to_watch_is_noted(tmp_path, capsys):
    path = tmp_path / "idle.yaml"
    path.write_text("models: []\n")
    assert run(["check", str(path)]) == ExitCode.OK
    assert "note: models: nothing is configured" in capsys.readouterr().out


def test_names_that_are_not_found_are_errors_when_asked(tmp_path, capsys):
    path = tmp_path / "names.yaml"
    path.write_text(
        "models:\n"
        "  - name: m\n"
        "    endpoints: [http://127.0.0.1:1, http://no-such-host.invalid, {url: 'unix:/a.sock'}]\n"
        "  - {name: n, provider: p}\n"
        "providers:\n"
        "  - {name: p, api_key: k, base_url: 'https://no-such-host.invalid/v1'}\n"
    )
    assert run(["check", str(path)]) == ExitCode.OK
    capsys.readouterr()
    assert run(["check", str(path), "--resolve", "--json"]) == ExitCode.UNKNOWN
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert [(problem["key"], problem["line"], problem["column"]) for problem in told["problems"]] == [
        ("models[0].endpoints[1].url", 3, 37),
        ("providers[0].base_url", 6, 37),
    ]
    for problem in told["problems"]:
        assert problem["message"].startswith("`no-such-host.invalid` cannot be resolved here: ")
        assert problem["fix"] is not None


def test_names_that_are_found(tmp_path, capsys):
    path = tmp_path / "names.yaml"
    path.write_text("models: [{name: m, endpoints: [http://localhost:1, 'http://[::1]:2']}]\n")
    assert run(["check", str(path), "--resolve", "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["notes"] == []


def test_all_problems_are_shown_with_their_lines(capsys):
    assert run(["check", str(BAD / "several_at_once.yaml")]) == ExitCode.UNKNOWN
    told = capsys.readouterr()
    assert told.out == ""
    file = str(BAD / "several_at_once.yaml")
    assert told.err.startswith(
        f"{file}:1:19: gateway.listen: `8080` names no host\n"
        "     1 | gateway: {listen: 8080}\n"
        "                           ^\n"
        "       fix: write 127.0.0.1:8080 for this machine only, 0.0.0.0:8080 for all\n\n"
    )
    assert told.err.endswith(f"5 problems in {file}\n")


def test_problems_as_json(capsys):
    file = str(BAD / "unknown_key.yaml")
    assert run(["check", file, "--json"]) == ExitCode.UNKNOWN
    assert json.loads(capsys.readouterr().out) == {
        "ok": False,
        "file": file,
        "notes": [],
        "problems": [
            {
                "file": file,
                "line": 2,
                "column": 9,
                "key": "probe.helthy_ttft",
                "message": "unknown key `helthy_ttft`",
                "fix": "did you mean `healthy_ttft`?",
                "excerpt": "probe: {helthy_ttft: 100ms}",
            }
        ],
    }


def test_the_mark_stands_under_wide_characters(capsys):
    run(["check", str(BAD / "wide_characters.yaml")])
    line, mark = capsys.readouterr().err.splitlines()[1:3]
    before = line[: line.rindex('"模')]
    assert len(mark) == len(before) + 2 + 1  # two characters before it are two columns wide
    assert mark.endswith("^")


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert run(["check", str(tmp_path / "none.yaml")]) == ExitCode.UNKNOWN
    assert capsys.readouterr().err == (
        f"{tmp_path / 'none.yaml'}: does not exist\n       fix: name the file: pulsegate check FILE\n\n"
        f"1 problem in {tmp_path / 'none.yaml'}\n"
    )
