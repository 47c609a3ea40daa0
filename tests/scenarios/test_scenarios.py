"""Each text file is a story and the full trace of what the board made of it.

After a wanted change: ``pytest tests/scenarios --rewrite``, then read the difference.
"""

from pathlib import Path

import pytest

from support.scenario import play, rewrite

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


def test_there_are_scenarios() -> None:
    assert SCENARIOS


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite", default=False):
        rewrite(path)
    _, expected, actual = play(path)
    assert actual.splitlines() == expected.splitlines()
