"""Plays the steps of a rule."""

import random
from collections.abc import Callable
from typing import assert_never

from pulsegate.sim import errors
from pulsegate.sim import script as do
from pulsegate.sim.engine import SimEngine
from pulsegate.sim.errors import Refusal, Saying
from pulsegate.sim.exchange import Exchange, Waits
from pulsegate.sim.load import FOREVER
from pulsegate.sim.matching import Choice
from pulsegate.sim.reply import Style
from pulsegate.sim.wires import Framing

GenerateNow = Callable[[Exchange, do.Generate], Waits]
_PIECE_BYTES = 1 << 16


def run(x: Exchange, choice: Choice, generate: GenerateNow) -> Waits:
    """All steps of the chosen rule, in order."""
    for step in choice.rule.steps:
        if apply_to_engine(x.engine, step):
            continue
        match step:
            case do.Sleep(seconds=durations):
                yield durations[min(choice.turn, len(durations)) - 1]
            case do.Hang():
                yield FOREVER
            case do.Reset() | do.Fin() | do.Truncate():
                yield 0.0  # what drips leaves first
                _leave(x, step)
                yield FOREVER
            case do.Generate():
                yield from generate(x, step)
            case do.Token() | do.Comment() | do.Raw():
                yield from _repeat(x, step)
            case do.EndlessHeaders() | do.HugeLine() | do.Noise():
                yield from _flood(x, step)
            case do.Respond() | do.Refuse() | do.Head() | do.Frame() | do.End():
                _answer(x, step)
            case do.Role() | do.Finish() | do.Usage() | do.Done() | do.Event() | do.Error():
                _say(x, step)
            case _:
                raise AssertionError(step)
        if x.reply.ended:
            return


def apply_to_engine(engine: SimEngine, step: do.Step) -> bool:
    """Play a step that concerns the engine as a whole; False if it is not of that kind."""
    match step:
        case do.Freeze():
            engine.freeze()
        case do.Thaw():
            engine.thaw()
        case do.Break():
            engine.break_down()
        case do.Crash(restart_s=restart_s, loading_s=loading_s):
            engine.crash(restart_s, loading_s)
        case do.RefusePort(for_s=for_s):
            engine.refuse_port(for_s)
        case do.Deaf(for_s=for_s):
            engine.be_deaf(for_s)
        case do.SleepMode(on=on):
            engine.set_asleep(on)
        case do.SetFlag(name=name, on=on):
            (engine.flags.add if on else engine.flags.discard)(name)
        case _:
            return False
    return True


def _leave(x: Exchange, step: do.Reset | do.Fin | do.Truncate) -> None:
    if isinstance(step, do.Truncate):
        x.reply.put(b'100\r\ndata: {"id":"cut')
    x.leave(reset=isinstance(step, do.Reset))


def _repeat(x: Exchange, step: do.Token | do.Comment | do.Raw) -> Waits:
    for turn in range(1, step.times + 1):
        if turn > 1 and step.every_s:
            yield step.every_s
        match step:
            case do.Token():
                _token(x, step, last=turn == step.times)
            case do.Comment():
                x.stream_head()
                x.reply.comment(step.text)
            case do.Raw():
                (x.reply.put if step.to_socket else x.reply.body)(step.data)
        while x.line.paused:
            yield 0.01


def _token(x: Exchange, step: do.Token, *, last: bool) -> None:
    x.stream_head()
    if x.work is not None:
        x.count_token(step.text)
        finish = step.finish if last else None
        x.send([x.work.served.wire.token(x.work.gen, step.text, finish, reasoning=step.reasoning)])


def _flood(x: Exchange, step: do.EndlessHeaders | do.HugeLine | do.Noise) -> Waits:
    match step:
        case do.EndlessHeaders(every_s=every_s):
            x.reply.put(b"HTTP/1.1 200 OK\r\n")
            while True:
                x.reply.put(b"x-filler: " + b"a" * 200 + b"\r\n")
                yield every_s
        case do.HugeLine(size_bytes=size, endless=endless):
            x.stream_head()
            x.reply.body(b"data: ")
            yield from _in_pieces(x, b"a" * _PIECE_BYTES, size)
            x.reply.body(b"" if endless else b"\n\n")
        case do.Noise(size_bytes=size, to_socket=to_socket):
            noise = random.Random(size).randbytes(size)  # noqa: S311 - the same noise each time
            if not to_socket:
                x.stream_head()
            (x.reply.put if to_socket else x.reply.body)(noise)
        case _:
            assert_never(step)


def _in_pieces(x: Exchange, piece: bytes, size: int) -> Waits:
    """Send ``size`` bytes without piling them up in memory."""
    left = size
    while left > 0:
        x.reply.body(piece[: min(left, len(piece))])
        left -= len(piece)
        yield 0.002 if x.line.paused else 0.0


def _answer(x: Exchange, step: do.Respond | do.Refuse | do.Head | do.Frame | do.End) -> None:
    match step:
        case do.Respond():
            _respond(x, step)
        case do.Refuse(why=why):
            _refuse(x, Refusal(why))
        case do.Head(status=status, content_type=content_type, headers=headers):
            if headers:
                default = content_type or "text/event-stream; charset=utf-8"
                x.reply.head(status, [("content-type", default), *headers])
            else:
                x.stream_head(status, content_type)
        case do.Frame():
            x.reply.style = Style(
                eol=step.eol,
                bom=step.bom,
                space=step.space,
                piece_bytes=step.piece_bytes,
                piece_every_s=step.piece_every_s,
                gzip=step.gzip,
            )
        case do.End():
            x.reply.end()
        case _:
            assert_never(step)


def _respond(x: Exchange, step: do.Respond) -> None:
    if not step.chunked:
        x.reply.whole(step.status, step.body, step.content_type, step.headers)
        return
    content = [("content-type", step.content_type)] if step.content_type else []
    x.reply.head(step.status, [*step.headers, *content])
    x.reply.body(step.body)
    x.reply.end()


def _refuse(x: Exchange, why: Refusal) -> None:
    name, route = x.engine.dialect.name, x.served.route if x.served is not None else None
    said = errors.saying(name, why, detail="bad request", model=x.engine.config.model)
    x.engine.counters.refused += 1
    if x.reply.head_sent:
        x.send([errors.event(name, said, route)])
    else:
        x.reply.whole(said.status, errors.body(name, said, route), x.engine.dialect.json_type)


def _say(x: Exchange, step: do.Role | do.Finish | do.Usage | do.Done | do.Event | do.Error) -> None:
    """One event of the stream."""
    x.stream_head()
    work = x.work
    if isinstance(step, do.Event):
        x.reply.payloads(x.served.wire.framing if x.served is not None else Framing.SSE, [step.payload])
        return
    if work is None:
        return
    gen, wire = work.gen, work.served.wire
    match step:
        case do.Role():
            x.send(wire.opening(gen))
        case do.Finish(reason=reason):
            x.send(wire.finish(gen, reason))
        case do.Usage(values=values):
            x.send(wire.usage(gen, dict(values) if values is not None else gen.usage()))
        case do.Done():
            x.send(wire.done())
        case do.Error(message=message, status=status, kind=kind):
            x.send([errors.event(x.engine.dialect.name, Saying(status, kind, message), work.served.route)])
        case _:
            assert_never(step)
