"""When an exchange ends, to the exact second: scripted reads on a virtual clock."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pulsegate.core.probe import FaultClass
from pulsegate.engines.connection import Connection, Talk
from pulsegate.engines.exchange import DEFAULT_LIMITS, Flow
from pulsegate.engines.http_answer import HttpAnswer
from support.virtual_time import VirtualTimeLoop, run_virtual
from support.wire_listener import Ear

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PING = b"3\r\n:ka\r\n"
TOKEN = b"7\r\n TOKEN\n\r\n"
END = b"0\r\n\r\n"
START = 100.0
Reads = list[tuple[float, bytes]]


class FakeTransport(asyncio.Transport):
    """Keeps what is written; says when it was aborted."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self.written = b""
        self.aborted_at: float | None = None
        self._loop = loop

    def write(self, data: Any) -> None:
        assert self.aborted_at is None
        self.written += bytes(data)

    def abort(self) -> None:
        if self.aborted_at is None:
            self.aborted_at = self._loop.time() - START


class Played:
    """One exchange on a scripted connection, and all that is known of it afterwards."""

    def __init__(
        self,
        reads: Reads,
        *,
        deadline_s: float = 0.8,
        end_deadline_s: float | None = None,
        decide: Callable[[bytes], Flow] | None = None,
        eof_at_s: float | None = None,
        stall: tuple[float, float] | None = None,
    ) -> None:
        async def main(loop: VirtualTimeLoop) -> None:
            loop.stall(START)
            self.transport = FakeTransport(loop)
            self.connection = Connection(loop, loop.time, set())
            self.connection.connection_made(self.transport)
            answer = HttpAnswer(self.ear, DEFAULT_LIMITS)
            self.talk = Talk(answer, loop.create_future(), start=loop.time(), end_deadline_s=end_deadline_s)
            self.connection.begin(b"request", self.talk, deadline_s)
            if stall is not None:
                loop.call_at(START + stall[0], loop.stall, stall[1])
            for at_s, data in reads:
                loop.call_at(START + at_s, self._read, data)
            if eof_at_s is not None:
                loop.call_at(START + eof_at_s, self.connection.eof_received)
            await self.talk.done
            self.returned_at_s = loop.time() - START

        self.ear = Ear(decide=decide)
        self.returned_at_s = 0.0
        run_virtual(main)
        assert self.transport.written == b"request"
        assert self.connection.open == (self.transport.aborted_at is None)

    def _read(self, data: bytes) -> None:
        if self.transport.aborted_at is None:
            self.connection.data_received(data)

    @property
    def how(self) -> str:
        answer = self.talk.answer
        fault = self.talk.fault or answer.fault
        if fault is not None:
            return fault.kind.value
        return "whole" if answer.whole else "deadline" if self.talk.deadline_hit else "left" if answer.stopped else "?"


@pytest.mark.parametrize(
    ("reads", "how", "ended_at_s", "kept"),
    [
        ([(0.2, HEAD + TOKEN + END)], "whole", 0.2, True),
        ([(0.01, HEAD), (0.2, TOKEN), (0.21, END)], "whole", 0.21, True),
        ([(0.01, HEAD), (0.79, TOKEN), (0.83, END)], "whole", 0.83, True),  # the deadline is for the token
        ([(0.01, HEAD), (0.79, TOKEN), (0.83, TOKEN)], "left", 0.84, False),  # 50 ms from the first token
        ([(0.01, HEAD), (0.2, TOKEN)], "left", 0.25, False),
        ([(0.01, HEAD)], "deadline", 0.8, False),
        ([], "deadline", 0.8, False),
        ([(at / 10, PING if at else HEAD) for at in range(20)], "deadline", 0.8, False),  # pings are no tokens
        ([(0.01, HEAD), (0.81, TOKEN + END)], "deadline", 0.8, False),
    ],
)
def test_when_an_exchange_ends(reads: Reads, how: str, ended_at_s: float, kept: bool) -> None:
    played = Played(reads)
    assert played.how == how
    assert played.talk.end_s == pytest.approx(ended_at_s)
    assert played.returned_at_s == pytest.approx(ended_at_s)
    assert played.connection.open == kept
    if not kept:
        assert played.transport.aborted_at == pytest.approx(ended_at_s)


@pytest.mark.parametrize(
    ("reads", "how", "ended_at_s", "tokens"),
    [
        ([(0.1, HEAD + TOKEN), (2.0, TOKEN), (4.0, TOKEN + END)], "whole", 4.0, 3),
        ([(0.1, HEAD + TOKEN), (2.0, TOKEN)], "deadline", 5.0, 2),
        ([(0.1, HEAD)], "deadline", 0.8, 0),
    ],
)
def test_with_an_end_deadline_all_tokens_are_waited_for(reads: Reads, how: str, ended_at_s: float, tokens: int) -> None:
    played = Played(reads, end_deadline_s=5.0)
    assert (played.how, played.ear.body.count(b"TOKEN")) == (how, tokens)
    assert played.talk.end_s == pytest.approx(ended_at_s)


def test_stamps_are_those_of_the_reads() -> None:
    played = Played([(0.05, HEAD), (0.1, PING), (0.2, TOKEN), (0.21, END)])
    assert played.talk.first_byte_s == pytest.approx(0.05)
    assert [at_s for _, at_s in played.ear.reads] == [pytest.approx(0.1), pytest.approx(0.2)]
    assert played.ear.ended_at_s == pytest.approx(0.21)


def test_stop_closes_at_once() -> None:
    played = Played([(0.1, HEAD + TOKEN)], decide=lambda _: Flow.STOP)
    assert played.how == "left"
    assert played.transport.aborted_at == pytest.approx(0.1)


def test_an_end_in_the_read_that_the_listener_stopped_at_is_not_told() -> None:
    played = Played([(0.1, HEAD + TOKEN + END)], decide=lambda _: Flow.STOP)
    assert played.how == "left"
    assert played.ear.ended_at_s is None


def test_a_cut_after_the_token() -> None:
    played = Played([(0.1, HEAD + TOKEN)], eof_at_s=0.12)
    assert played.how == FaultClass.CLOSED
    assert played.talk.answer.lingered
    assert played.talk.end_s == pytest.approx(0.12)


def test_after_our_own_stall_the_deadline_is_noticed_late_and_says_so() -> None:
    played = Played([], stall=(0.5, 1.0))
    assert played.how == "deadline"
    assert played.talk.end_s == pytest.approx(1.5)
