import json
from datetime import UTC
from decimal import Decimal

import pytest

from pulsegate.cli import run
from pulsegate.cli.costs_table import bar, count, money
from pulsegate.ledger.lines import encoded
from pulsegate.ledger.segments import checkpoint_file
from pulsegate.ledger.tailing import Tail
from support.ledgers import NOON, entry


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "l.jsonl"
    lines = [
        entry(1, cost=Decimal("1.25"), client="team-a"),
        entry(2, cost=Decimal("0.25"), model="deepseek-reasoner"),
        entry(3, provider=None, model="qwen", cost=None, currency=None, price_version=None),
        entry(4, provider="zhipu", model="glm", cost=None, currency=None, price_version=None),
    ]
    path.write_bytes(b"".join(map(encoded, lines)))
    return path


def told(capsys, *arguments):
    code = run(["ledger", *map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out, parse_float=Decimal)


def test_the_summary_has_the_documented_names(ledger, capsys):
    code, document = told(capsys, "summary", ledger)
    assert code == 0
    assert document["total_cny"] == Decimal("1.5")
    assert (document["calls"], document["unpriced"]) == (4, 1)
    assert document["limit_cny"] is None
    assert document["remaining_cny"] is None
    assert list(document["by_provider"]) == ["deepseek", "self-hosted", "zhipu"]
    assert list(document["by_model"])[:2] == ["deepseek-chat", "deepseek-reasoner"]


def test_one_grouping_alone(ledger, capsys):
    _, document = told(capsys, "summary", ledger, "--by", "client")
    assert {name: sums["cny"] for name, sums in document.items()} == {"team-a": Decimal("1.25"), "-": Decimal("0.25")}


def test_the_configuration_names_ledger_limit_and_window(ledger, capsys, tmp_path):
    config = tmp_path / "pulsegate.yaml"
    config.write_text("costs: {ledger: l.jsonl, limit_cny: 20, window: total}\n")
    _, document = told(capsys, "summary", "-c", config)
    assert (document["limit_cny"], document["remaining_cny"]) == (20, Decimal("18.5"))


def test_with_a_checkpoint_only_what_came_later_is_read_and_the_sums_are_the_same(ledger, capsys, tmp_path):
    with ledger.open("ab") as file:
        file.write(encoded(entry(5, ts=NOON - 86400, cost=Decimal(1))))
    config = tmp_path / "pulsegate.yaml"
    config.write_text("costs: {ledger: l.jsonl}\n")
    wanted = [("summary", ledger), ("summary", "-c", config, "--window", "total"), ("summary", "-c", config)]
    without = [told(capsys, *arguments) for arguments in wanted]
    Tail(ledger, UTC).start()
    assert checkpoint_file(ledger).exists()
    assert [told(capsys, *arguments) for arguments in wanted] == without
    with ledger.open("ab") as file:
        file.write(encoded(entry(6, cost=Decimal(2))) + b'{"ts":\n')
    assert told(capsys, "summary", ledger)[1]["total_cny"] == Decimal("4.5")
    assert run(["ledger", "summary", str(ledger)]) == 0
    assert "1 torn lines are not in these sums" in capsys.readouterr().out


def test_the_table_shows_bars_and_what_is_missing(ledger, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["ledger", "summary", str(ledger)]) == 0
    shown = capsys.readouterr().out
    assert "1.50 CNY for 4 calls, all time" in shown
    assert "1 attempts have no known price" in shown
    assert "█" in shown


def test_verify_and_repair(ledger, capsys):
    assert told(capsys, "verify", ledger)[0] == 0
    with ledger.open("ab") as file:
        file.write(b'{"ts":1,"op"')
    code, document = told(capsys, "verify", ledger)
    assert (code, document["ok"], document["torn"], document["unended"]) == (1, False, 1, 1)
    code, document = told(capsys, "repair", ledger)
    assert (code, document["repaired"][0]["set_aside"]) == (0, 1)
    assert told(capsys, "verify", ledger)[0] == 0


def test_a_ledger_that_is_not_there_is_named(tmp_path, capsys):
    assert run(["ledger", "summary", str(tmp_path / "no.jsonl")]) == 3
    assert "no.jsonl does not exist" in capsys.readouterr().err


def test_bars_and_figures():
    assert bar(Decimal("0.5"), 4) == "██"
    assert bar(Decimal("0.0001"), 4) == "▏"
    assert bar(Decimal(3), 4) == "████"
    assert [money(Decimal(text)) for text in ("0", "0.000123", "1234.5")] == ["0.00", "0.00012", "1,234.50"]
    assert [count(number) for number in (999, 1234, 1_250_000)] == ["999", "1.23k", "1.25M"]
