"""When kept connections are given up."""

from pulsegate.engines.reuse import Reuse

ASK, PAGE = "/v1/completions", "/metrics"


def forgets(reuse: Reuse, *, answered: str = ASK) -> None:
    """Silent on a kept connection, answered on a new one."""
    reuse.kept(ASK, silent=True)
    reuse.fresh(answered, silent=False)


def test_given_up_for_good_after_two_silences_that_a_new_connection_ended() -> None:
    reuse = Reuse()
    forgets(reuse)
    assert reuse.pays
    forgets(reuse)
    assert not reuse.pays
    reuse.fresh(ASK, silent=False)
    assert not reuse.pays


def test_a_hung_engine_is_silent_on_both() -> None:
    reuse = Reuse()
    for _ in range(5):
        reuse.kept(ASK, silent=True)
        reuse.fresh(ASK, silent=True)
        reuse.fresh(ASK, silent=False)  # it woke up
    assert reuse.pays


def test_another_page_that_answers_proves_nothing() -> None:
    reuse = Reuse()
    for _ in range(5):
        forgets(reuse, answered=PAGE)
        reuse.fresh(ASK, silent=True)
    assert reuse.pays


def test_a_kept_connection_that_serves_clears_the_record() -> None:
    reuse = Reuse()
    for _ in range(5):
        forgets(reuse)
        reuse.kept(ASK, silent=False)
    assert reuse.pays
