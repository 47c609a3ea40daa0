from datetime import UTC
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsegate.core.cost_gate import AttemptKey, CostGate, CostPolicy, Gate, Purse, Refusal, Scope, Spent, Ticket
from pulsegate.core.spending import EntryKind, Group, Sums
from pulsegate.core.window import Window

D = Decimal
NOON = 1_796_126_400.0  # 2026-12-01T12:00:00Z
DAY_S = 86400.0
ALL = Purse(Scope.ALL)


def gate(limit="20", *, groups=None, wall_s=NOON, **more):
    policy = CostPolicy(zone=UTC, limit_cny=None if limit is None else D(limit), **more)
    made = CostGate(policy)
    made.start(policy, groups or {}, wall_s)
    return made


def ask(gate, number, cny, *, provider="deepseek", client=None, holder=0, at=NOON):
    return gate.reserve(Ticket(holder, number), provider, client, D(cny), at)


def booked(cny, *, day="2026-12-01", provider="deepseek", client=None, kind=EntryKind.REQUEST):
    return {Group(kind, provider, "m", client, day): Sums(cny=D(cny), calls=1, attempts=1)}


def standing(gate, purse=ALL, at=NOON):
    return next(one for one in gate.standings(at) if one.purse == purse)


def test_a_burst_is_let_in_until_its_estimates_reach_the_limit():
    spent = gate("20", groups=booked("19"))
    let_in = [ask(spent, number, "0.05") is None for number in range(200)]
    assert let_in.count(True) == 20
    assert standing(spent).reserved_cny == 1


def test_a_refusal_says_which_limit_and_when_it_begins_anew():
    refused = ask(gate("20", groups=booked("20")), 1, "0.01")
    assert isinstance(refused, Refusal)
    assert (refused.standing.purse, refused.standing.gate) == (ALL, Gate.CLOSED)
    assert refused.reopens_s == NOON + DAY_S / 2


def test_what_an_attempt_cost_replaces_what_was_reserved():
    counting = gate()
    ask(counting, 1, "5")
    counting.paid(Ticket(0, 1), AttemptKey("op", 1), D("0.5"), NOON)
    assert (standing(counting).spent_cny, standing(counting).reserved_cny) == (D("0.5"), 0)


@pytest.mark.parametrize("line_first", [False, True])
def test_an_attempt_is_counted_once_whoever_tells_of_it_first(line_first):
    counting, key = gate(), AttemptKey("op", 1)
    ask(counting, 1, "5", client="team")
    steps = [
        lambda: counting.paid(Ticket(0, 1), key, D("0.5"), NOON),
        lambda: counting.seen(key, Spent("deepseek", "team", D("0.5")), NOON, NOON),
    ]
    for step in reversed(steps) if line_first else steps:
        step()
    assert (standing(counting).spent_cny, standing(counting).reserved_cny) == (D("0.5"), 0)


def test_an_attempt_that_reached_nobody_is_forgotten():
    counting = gate()
    ask(counting, 1, "5")
    counting.release(Ticket(0, 1))
    assert standing(counting).remaining_cny == 20


def test_what_a_dead_worker_held_is_free_and_what_it_told_of_stays():
    counting = gate()
    ask(counting, 1, "5", holder=1)
    ask(counting, 2, "5", holder=1)
    ask(counting, 2, "3", holder=2)
    counting.paid(Ticket(1, 1), AttemptKey("op", 1), D(1), NOON)
    counting.release_all(1)
    assert (standing(counting).spent_cny, standing(counting).reserved_cny) == (1, 3)


def test_warning_comes_before_the_end():
    assert standing(gate("20", groups=booked("15.99"))).gate is Gate.OPEN
    assert standing(gate("20", groups=booked("16"))).gate is Gate.WARNING
    assert standing(gate("20", groups=booked("20"))).gate is Gate.CLOSED


def test_a_gate_opens_with_the_next_window():
    shut = gate("20", groups=booked("25"))
    assert ask(shut, 1, "0") is not None
    assert ask(shut, 1, "1", at=NOON + DAY_S) is None
    assert standing(shut, at=NOON + DAY_S).spent_cny == 0


def test_a_clock_that_is_put_back_finds_what_was_spent_there():
    counting = gate("20", groups=booked("19"), wall_s=NOON)
    assert standing(counting, at=NOON + DAY_S).spent_cny == 0
    assert standing(counting, at=NOON).spent_cny == 19


def test_lines_of_another_window_do_not_count_in_this_one():
    counting = gate()
    counting.seen(AttemptKey("op", 1), Spent("deepseek", None, D(3)), NOON - DAY_S, NOON)
    assert standing(counting).spent_cny == 0


@pytest.mark.parametrize(("window", "spent"), [(Window.DAY, 1), (Window.MONTH, 3), (Window.TOTAL, 7)])
def test_each_window_counts_its_days(window, spent):
    groups = booked("1") | booked("2", day="2026-12-30") | booked("4", day="2026-11-30")
    assert standing(gate(groups=groups, window=window)).spent_cny == spent


def test_only_users_calls_to_providers_count():
    groups = booked("1", kind=EntryKind.PROBE) | booked("2", provider=None)
    assert standing(gate(groups=groups)).spent_cny == 0


def test_providers_and_keys_have_limits_of_their_own():
    groups = booked("1", client="team") | booked("2", provider="zhipu")
    several = gate("20", groups=groups, provider_limits={"deepseek": D(1)}, key_limits={"team": D(5), "other": D(0)})
    assert ask(several, 1, "0.1", provider="deepseek").standing.purse == Purse(Scope.PROVIDER, "deepseek")
    assert ask(several, 2, "0.1", provider="zhipu", client="team") is None
    assert ask(several, 3, "0.1", provider="zhipu", client="other").standing.purse == Purse(Scope.KEY, "other")
    assert ask(several, 4, "4", provider="zhipu", client="team").standing.gate is Gate.OPEN  # full, but not spent
    assert standing(several, Purse(Scope.KEY, "team")).reserved_cny == D("0.1")


def test_a_new_policy_keeps_reservations():
    counting = gate("20")
    ask(counting, 1, "5")
    counting.start(CostPolicy(zone=UTC, limit_cny=D(6)), {}, NOON)
    assert standing(counting).remaining_cny == 1


steps = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["ask", "paid", "seen", "release", "gone"]), st.integers(0, 30)),
    max_size=60,
)


@settings(max_examples=200)
@given(steps)
def test_nothing_is_ever_let_in_over_the_limit(script):
    """Whatever happens in whatever order: what is spent and held stays within the limit as long as estimates hold."""
    counting, held, spent = gate("100"), {}, D(0)
    for number, (which, what, cny) in enumerate(script):
        ticket, key = Ticket(which % 2, which), AttemptKey(f"op{number}", 1)
        if what == "ask" and ticket not in held and ask(counting, which, cny, holder=which % 2) is None:
            held[ticket] = D(cny)
        elif what == "paid" and ticket in held:
            actual = min(held.pop(ticket), D(cny))
            counting.paid(ticket, key, actual, NOON)
            spent += actual
            if cny % 2:
                counting.seen(key, Spent("deepseek", None, actual), NOON, NOON)
        elif what == "release":
            counting.release(ticket)
            held.pop(ticket, None)
        elif what == "gone":
            counting.release_all(which % 2)
            held = {ticket: amount for ticket, amount in held.items() if ticket.holder != which % 2}
        now = standing(counting)
        assert (now.spent_cny, now.reserved_cny) == (spent, sum(held.values(), D(0)))
        assert spent + now.reserved_cny <= 100
