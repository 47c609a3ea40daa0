"""Every case of the catalogue gets the verdict that it deserves."""

import asyncio
from pathlib import Path

import pytest

from catalogue.cases import Case, load_cases
from catalogue.playing import Played, play

CASES = load_cases()
NAMES = [case.id for case in CASES]
PARAMETERS = [
    pytest.param(case, id=case.id, marks=pytest.mark.xfail(reason=case.gap) if case.gap else ()) for case in CASES
]


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The play takes half a minute, so it is given once."""
    directory: Path = tmp_path_factory.mktemp("catalogue")
    return asyncio.run(play(CASES, directory))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("case", PARAMETERS)
def test_verdict(case: Case, played: Played) -> None:
    story, expect = played.stories[case.id], case.expect
    about = f"{case.id}: {case.title}\n{story.told()}"
    assert case.from_start or story.sound_before, f"was never healthy\n{about}"
    assert story.last.state in expect.states, about
    if expect.reasons:
        assert story.last.reason in expect.reasons, about
    if expect.ejected is not None:
        out = story.last.ejected or story.last.state not in {"healthy", "degraded"}
        assert out is expect.ejected, about
    for state in expect.passes:
        assert state in story.states, f"never was {state}\n{about}"
    seen = story.states | ({move["new"] for move in story.transitions} if case.from_start else set())
    for state in expect.never:
        assert state not in seen, f"was {state}\n{about}"
    for name, value in expect.at_most.items():
        assert story.counters[name] <= value, f"{name}\n{about}"


def test_the_control_process_lives_while_everything_around_it_fails(played: Played) -> None:
    """Its own liveness must not wait for anything that it watches."""
    slowest = sorted(played.own_health_s)
    assert len(slowest) > 50
    assert slowest[int(len(slowest) * 0.9)] < 0.1


def test_cases_have_names_of_their_own_and_say_where_they_were_seen() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(case.sources for case in CASES)


def test_the_kinds_are_all_there() -> None:
    kinds = {kind: len({name[:5] for name in NAMES if name.startswith(kind)}) for kind in ("K1", "K2", "K3", "K4")}
    assert kinds == {"K1": 24, "K2": 10, "K3": 12, "K4": 23}
