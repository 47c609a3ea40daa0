"""Feeds the bytes of an HTTP answer to a dialect, cut as one likes, without a socket."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import Fault
from pulsegate.engines.answer import Answer
from pulsegate.engines.dialects.registry import DIALECTS
from pulsegate.engines.exchange import DEFAULT_LIMITS
from pulsegate.engines.http_answer import HttpAnswer

RECORDED = Path(__file__).parents[1] / "data" / "answers"
SSE = "text/event-stream; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What a dialect made of an answer; ``first_at`` is the number of the read that brought the token."""

    text: str = ""
    chunks: int = 0
    tokens: int | None = None
    finish: str | None = None
    token_seen: bool = True
    finished: bool = True
    first_at: float | None = None
    fault: Fault | None = None
    whole: bool = True


def recorded(name: str) -> bytes:
    """A whole answer as a real engine sent it."""
    return (RECORDED / f"{name}.http").read_bytes()


def hear(engine: EngineName, reads: Iterable[bytes], secrets: tuple[str, ...] = ()) -> Heard:
    """Give the reads one by one; the stamp of each is its index."""
    answer = Answer(DIALECTS[engine], secrets)
    http = HttpAnswer(answer, DEFAULT_LIMITS, secrets)
    for at, data in enumerate(reads):
        if http.over:
            break
        http.feed(data, float(at))
    facts = answer.facts
    return Heard(
        text=facts.text,
        chunks=facts.chunks,
        tokens=facts.tokens,
        finish=facts.finish_reason,
        token_seen=facts.token_seen,
        finished=facts.finished,
        first_at=answer.first_token_s,
        fault=answer.fault() or http.fault,
        whole=http.whole,
    )


def respond(*pieces: str | bytes, kind: str = SSE, status: int = 200) -> bytes:
    """A chunked answer, one HTTP chunk per piece."""
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    raw = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in raw if piece) + b"0\r\n\r\n"


def events(*payloads: str) -> bytes:
    """An event stream of these payloads."""
    return respond(*(f"data: {payload}\n\n" for payload in payloads))
