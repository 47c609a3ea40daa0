"""How long a deep probe may take before it is known how long this engine needs for a long prompt."""

from random import Random

from pulsegate.core.board import Board
from pulsegate.core.events import FleetChanged, ProbeDone, Tick
from pulsegate.core.fleet import EndpointSpec, Fleet, PoolSpec, ProbePolicy
from pulsegate.core.health import State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.probe import Ending, Phases, ProbeAsk, ProbeKind, ProbeResult

POOL = PoolName("p")
E = EndpointId("e")


def answered(ask: ProbeAsk, after_s: float) -> ProbeResult:
    return ProbeResult(
        kind=ask.kind,
        prompt_id=ask.prompt_id,
        phases=Phases(connect_s=0.001, send_s=0.001, first_byte_s=after_s, first_token_s=after_s, end_s=after_s),
        ending=Ending.COMPLETE,
        token_seen=True,
        text=" four five" if ask.kind is ProbeKind.DEEP else " four",
        chunks=1,
        tokens=ask.max_tokens,
        finish_reason="length",
        fault=None,
        bytes_read=300,
        reused=False,
    )


def test_an_engine_that_is_slow_from_the_start_is_slow_and_not_hung():
    board = Board(Random(0))
    spec = EndpointSpec(id=E, pool=POOL, url="http://127.0.0.1:1")
    pool = PoolSpec(name=POOL, endpoints=(spec,))
    board.apply(FleetChanged(at=0.0, fleet=Fleet(pools=(pool,), routes=())))
    needs_s = {ProbeKind.MICRO: [0.4, 0.1, 0.1, 0.1], ProbeKind.DEEP: [3.0, 3.0]}  # a small CPU: 25 tokens a second
    deep: list[ProbeAsk] = []
    at = 0.0
    while len(deep) < 2:
        at = max(at, board.next_wake_at() or at)
        board.apply(Tick(at=at))
        for due in board.take_due(at):
            after_s = (needs_s[due.ask.kind] or [0.1]).pop(0)
            deep += [due.ask] if due.ask.kind is ProbeKind.DEEP else []
            assert after_s <= due.ask.deadline_s, "it would have been given up as hung"
            at += after_s
            board.apply(ProbeDone(at=at, endpoint=E, incarnation=due.incarnation, result=answered(due.ask, after_s)))
            needs_s[ProbeKind.MICRO] = needs_s[ProbeKind.MICRO] or [0.1]
            status = board.status(E)
            assert status is not None
            assert status.state is not State.UNHEALTHY
    assert [ask.deadline_s for ask in deep] == [ProbePolicy().deep_timeout_s] * 2
