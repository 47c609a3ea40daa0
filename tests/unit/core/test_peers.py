"""Comparing the answers of one turn."""

from pulsegate.core.ids import EndpointId, PromptId
from pulsegate.core.peers import Peers


def tell(peers: Peers, turn: int, answers: str, expected: int = 4, attempt: int = 0) -> list[tuple[str, bool | None]]:
    """``answers`` as ``a=x b=y``; all of one turn's prompt."""
    known: list[tuple[str, bool | None]] = []
    for one in answers.split():
        name, _, text = one.partition("=")
        prompt = PromptId(f"p{turn}")
        compared = peers.answered(EndpointId(name), (turn, attempt), prompt, text, expected)
        known += [(each.endpoint, each.right) for each in compared]
    return known


def test_the_majority_is_known_as_soon_as_nobody_can_change_it() -> None:
    peers = Peers()
    assert tell(peers, 1, "a=x b=x") == []
    assert tell(peers, 1, "c=x") == [("a", True), ("b", True), ("c", True)]
    assert tell(peers, 1, "d=y") == [("d", False)]


def test_two_are_no_majority() -> None:
    assert tell(Peers(), 1, "a=x b=x", expected=2) == []


def test_case_and_space_do_not_matter() -> None:
    assert tell(Peers(), 1, "a=Four b=four c=FOUR", expected=3) == [("a", True), ("b", True), ("c", True)]


def test_without_a_strict_majority_nobody_is_right_or_wrong() -> None:
    assert tell(Peers(), 1, "a=x b=x c=y d=y") == [("a", None), ("b", None), ("c", None), ("d", None)]


def test_a_turn_is_closed_two_turns_later_with_whoever_has_answered() -> None:
    peers = Peers()
    assert tell(peers, 1, "a=x b=x c=y", expected=9) == []
    assert tell(peers, 2, "a=x", expected=9) == []
    assert tell(peers, 3, "a=x", expected=9) == [("a", True), ("b", True), ("c", False)]


def test_attempts_are_compared_among_themselves() -> None:
    peers = Peers()
    assert tell(peers, 1, "a=x b=x", attempt=0) == []
    assert tell(peers, 1, "c=x", attempt=1) == []


def test_a_new_incarnation_is_nobody_s_peer_with_its_old_answers() -> None:
    peers = Peers()
    tell(peers, 1, "a=x b=y", expected=3)
    peers.forget(EndpointId("a"))
    assert tell(peers, 1, "a=y c=y", expected=3) == [("b", True), ("a", True), ("c", True)]


def near_ties(peers: Peers) -> list[str]:
    return list(peers.near_ties(lambda _prompt: True))


def differ(peers: Peers, turn: int, who: str) -> None:
    tell(peers, turn, " ".join(f"{name}={'odd' if name == who else 'x'}" for name in "abcd"))


def test_a_prompt_on_which_different_endpoints_differ_alone_is_a_near_tie() -> None:
    peers = Peers()
    for first, who in ((1, "a"), (1, "b")):
        differ(peers, first, who)
        tell(peers, 5, "a=x b=x c=x d=x")
        peers._turns.clear()
    assert near_ties(peers) == ["p1"]
    assert near_ties(peers) == []


def test_an_endpoint_that_differs_everywhere_is_not_the_prompts_fault() -> None:
    peers = Peers()
    for turn in range(1, 9):
        differ(peers, turn, "a")
    assert near_ties(peers) == []


def test_a_prompt_that_splits_the_pool_twice_is_a_near_tie() -> None:
    peers = Peers()
    for _ in range(2):
        tell(peers, 1, "a=x b=x c=y d=y")
    assert near_ties(peers) == ["p1"]
    assert near_ties(peers) == []


def test_what_cannot_be_spared_is_kept() -> None:
    peers = Peers()
    for _ in range(2):
        tell(peers, 1, "a=x b=x c=y d=y")
    assert peers.near_ties(lambda _prompt: False) == []
