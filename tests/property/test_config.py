"""Whatever a configuration file holds, it is read or refused with its problems; nothing else comes out."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsegate.config import ConfigErrors, explain, parse

SECRET = "sk-do-not-show"
VALID = f"""\
gateway: {{listen: "127.0.0.1:8080", workers: 2, max_body: 32MiB}}
probe: {{interval: 3s, healthy_ttft: 200ms, jitter: 10%, expect: "^a|b$"}}
models:
  - name: qwen3-32b
    endpoints:
      - {{url: http://10.0.0.11:8000, engine: vllm, api_key: {SECRET}}}
      - url: https://10.0.0.12:8000
        headers: {{X-Key: "{SECRET}"}}
        tls: {{server_name: a, verify: true}}
    fallbacks: [hosted]
  - {{name: hosted, provider: deepseek}}
providers:
  - name: deepseek
    base_url: https://api.deepseek.com/v1
    api_keys:
      - {SECRET}
      - '{SECRET}'
costs: {{ledger: l.jsonl, limit_cny: 20, window: day}}
"""


def read(raw: bytes):
    """The configuration, or what was said instead."""
    try:
        return parse(raw, Path("file.yaml"), {"HOME": "/"})
    except ConfigErrors as exc:
        refusal = exc
    assert refusal.problems
    for problem in refusal.problems:
        assert problem.message
        assert problem.file == "file.yaml"
        assert (problem.line == 0) == (problem.excerpt is None)
    return refusal


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(raw):
    read(raw)


@settings(deadline=None)
@given(st.text(alphabet="{}[]:-,&*<!|>'\"#%@ \n\t\r\x85\u2028abc0.$~", max_size=60))
def test_any_punctuation(text):
    read(text.encode())


def trees(leaves):
    words = st.sampled_from([*sorted(explain.all_keys()), "<<", "x"])
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4), max_leaves=12
    )


LEAVES = st.sampled_from(
    ["", "http://a", "http://a:99999", "3s", "-1s", "${X}", "${HOME}", "a", "vllm", "50%", "127.0.0.1:1", "1e999s"]
) | st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@settings(deadline=None)
@given(trees(LEAVES))
def test_any_tree_of_known_words(tree):
    read(json.dumps(tree).encode())  # JSON is YAML


SECTIONS = [(), ("gateway",), ("admin",), ("probe",), ("ejection",), ("costs",), ("models", 0), ("providers", 0)]


@settings(deadline=None)
@given(st.data())
def test_any_value_for_any_known_key(data):
    path = data.draw(st.sampled_from(SECTIONS))
    section = {key: data.draw(trees(LEAVES)) for key in explain.keys_at(path) if data.draw(st.booleans())}
    for step in reversed(path):
        section = [section] if isinstance(step, int) else {step: section}
    read(json.dumps(section).encode())


@settings(deadline=None, max_examples=300)
@given(st.integers(0, len(VALID)), st.integers(0, 3), st.sampled_from(["", *"{}[]:-,&*!'\"# \n\ta$"]))
def test_a_slip_of_the_keyboard_shows_no_secret(at, cut, typed):
    text = VALID[:at] + typed + VALID[at + cut :]
    if text.count(SECRET) < VALID.count(SECRET):
        return  # the slip was in a secret
    found = read(text.encode())
    assert SECRET not in f"{found}{found!r}"
    for problem in found.problems if isinstance(found, ConfigErrors) else ():
        assert SECRET not in (problem.excerpt or "")


@pytest.mark.parametrize("typed", "!&")
def test_a_secret_that_became_a_tag_or_an_anchor(typed):
    keys = f"      {typed}{SECRET}\n      - 3\n      - {{}}\n"
    head = "models: [{name: m, provider: p}]\nproviders:\n  - name: p\n    api_keys:\n"
    found = read(f"{head}{keys}".encode())
    assert isinstance(found, ConfigErrors)
    assert SECRET not in f"{found}{[problem.excerpt for problem in found.problems]}"


def test_the_file_without_slips_is_right():
    assert not isinstance(read(VALID.encode()), ConfigErrors)


@pytest.mark.parametrize("length", range(0, len(VALID), 7))
def test_a_file_that_was_cut_off(length):
    found = read(VALID[:length].encode())
    assert SECRET not in str(found)
