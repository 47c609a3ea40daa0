"""Every rule of the configuration has a file that breaks it, with what is said about it beside.

``python -m tests.unit.config.test_bad_configs`` writes the ``.txt`` files anew; read the difference before
committing it.
"""

import sys
from pathlib import Path

import pytest

from pulsegate.config import ConfigErrors, Problem, load

FOLDER = Path(__file__).parents[2] / "data" / "bad_configs"
ENVIRONMENT = {"WORDS": "do-not-show", "NUMBER": "70001112"}
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def said_about(case: str) -> str:
    path = FOLDER / f"{case}.yaml"
    try:
        load(path, ENVIRONMENT)
    except ConfigErrors as exc:
        return "\n".join(shown(problem) for problem in exc.problems).replace(f"{FOLDER}/", "")
    return "nothing\n"


def shown(problem: Problem) -> str:
    if problem.excerpt is None:
        return f"{problem}\n"
    return f"{problem}\n{problem.excerpt}\n{' ' * (problem.caret - 1)}^\n"


@pytest.mark.parametrize("case", CASES)
def test_says_what_is_wrong_where_and_what_to_do(case):
    assert said_about(case) == (FOLDER / f"{case}.txt").read_text()


@pytest.mark.parametrize("case", CASES)
def test_names_the_file_and_never_shows_a_secret(case):
    said = said_about(case)
    assert said.startswith(f"{case}.yaml:")
    assert "do-not-show" not in said
    assert "700011122" not in said


def test_every_expectation_has_its_file():
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == CASES


if __name__ == "__main__":
    for name in CASES:
        (FOLDER / f"{name}.txt").write_text(said_about(name))
    sys.exit()
