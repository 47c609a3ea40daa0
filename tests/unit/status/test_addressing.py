from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.status.addressing import ACTIONS, Target, resolve, targets


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        (b"10.0.0.11:8000", Target("10.0.0.11:8000", "")),
        (b"10.0.0.11:8000/verdict", Target("10.0.0.11:8000", "verdict")),
        (b"10.0.0.11:8000%23dp1/drain", Target("10.0.0.11:8000#dp1", "drain")),
        (b"unix:%2Frun%2Fa.sock/undrain", Target("unix:/run/a.sock", "undrain")),
        (b"unix:/run/a.sock/verdict", Target("unix:/run/a.sock", "verdict")),
        (b"unix:/run/a.sock", Target("unix:/run/a.sock", "")),
    ],
)
def test_reads_ids_encoded_or_not(raw: bytes, meant: Target) -> None:
    assert resolve(raw, {meant.id}.__contains__) == meant


def test_an_id_that_ends_like_an_action_is_found() -> None:
    assert resolve(b"unix:%2Fdrain", {"unix:/drain"}.__contains__) == Target("unix:/drain", "")
    assert resolve(b"unix:/drain", {"unix:/drain"}.__contains__) == Target("unix:/drain", "")


@pytest.mark.parametrize("raw", [b"", b"%00", b"%0a", b"%ff", b"\xff", b"x" * 513])
def test_what_cannot_be_an_id_is_none(raw: bytes) -> None:
    assert targets(raw) == ()


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=80), st.sampled_from(sorted(ACTIONS)))
def test_any_encoded_id_comes_back(endpoint: str, action: str) -> None:
    raw = f"{quote(endpoint, safe='')}/{action}".encode()
    assert resolve(raw, {endpoint}.__contains__) == Target(endpoint, action)
