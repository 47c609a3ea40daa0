"""A request that kills or freezes every server it reaches must not be carried through the whole fleet."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pulsegate.core.rescue import FailureKind
from support.rescuing import POLICY, Request
from support.seating import Room

ENDS = st.lists(st.sampled_from(["closed", "silent", "ejected", "suspected"]), min_size=40, max_size=40)


@given(ends=ENDS, attempts=st.integers(1, 5))
def test_it_reaches_no_more_servers_than_it_has_attempts(ends, attempts):
    room = Room({"main": [f"m{n:02}" for n in range(12)], "spare": [f"s{n}" for n in range(4)]})
    request = Request(room, policy=replace(POLICY, max_attempts=attempts))
    request.begin()
    harmed: set[str] = set()
    passed_s = 0.0
    for end in ends:
        if not request.under_way:
            break
        attempt, seat = next(iter(request.under_way.items()))
        harmed |= {one.id for one in request.under_way.values()}
        passed_s = max(passed_s + 0.01, request.due_in) if end == "silent" else passed_s + 0.01
        request.at(passed_s)
        match end:
            case "closed":
                request.failed(attempt, FailureKind.CLOSED)
            case "silent":
                request.deadline()
            case "ejected":
                request.ejected(seat.id)
            case _:
                request.suspect(seat.id)
    request.at(60).deadline()
    assert not request.under_way
    assert request.answer is not None
    assert 1 <= len(harmed) <= attempts
    assert request.machine.attempts == len(harmed)
