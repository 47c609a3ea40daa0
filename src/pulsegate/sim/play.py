"""How a sound engine answers: pages at once, generations through the queue, the slots and the time to a token."""

from collections.abc import Iterator
from http import HTTPStatus
from itertools import repeat

from msgspec.json import encode

from pulsegate.sim import errors
from pulsegate.sim.answer import answer, wrong_answer
from pulsegate.sim.dialects import HeadAt, WhileLoading
from pulsegate.sim.engine import Phase
from pulsegate.sim.errors import Refusal
from pulsegate.sim.exchange import Exchange, Waits, Work
from pulsegate.sim.metrics import held_page_s
from pulsegate.sim.pages import page
from pulsegate.sim.request import BadRequestError, Route, decode, read_ask
from pulsegate.sim.routes import find_route, groups_of
from pulsegate.sim.script import Generate
from pulsegate.sim.steps import run
from pulsegate.sim.wires import Generation

_PLAIN = Generate()
_CHARS_PER_TOKEN = 4
_UNFIT = {Phase.DEAD: Refusal.DEAD, Phase.LOADING: Refusal.LOADING, Phase.ASLEEP: Refusal.ASLEEP}
_BURST = 64  # tokens between two rounds of the loop when there is no time between tokens


def play(x: Exchange) -> Waits:
    """Answer one request: by the script if a rule wants it, else as a sound engine."""
    engine = x.engine
    web = engine.web if engine.load.web_threads is not None else None
    if web is not None:
        yield from web.take(x)
    try:
        bad = _read(x)
        if engine.book:
            x.choice = engine.book.choose(x.request, x.sight(x.groups), engine.flags, engine.rng)
            if x.choice is not None:
                yield from run(x, x.choice, generate)
                if x.reply.head_sent:
                    x.reply.end()
                    return
        yield from _normally(x, bad)
    finally:
        if web is not None:
            web.release()


def _read(x: Exchange) -> str | None:
    """Find the route and what is asked for; returns what is bad about it."""
    request, engine = x.request, x.engine
    x.groups = groups_of(engine.dialect, request)
    found = find_route(engine.dialect, request)
    if found is None:
        return None
    x.served, model_in_path = found
    x.is_generation()
    try:
        request.json = decode(request.body)
        ask = read_ask(x.served.route, request)
    except BadRequestError as exc:
        return str(exc)
    ask.model = model_in_path or ask.model
    x.rank = engine.rank_for(ask.rank)
    gen = Generation(
        id=f"{engine.name}-{next(engine.ids)}",
        created=engine.unix_time(),
        model=engine.config.model,
        prompt_tokens=len(ask.prompt) // _CHARS_PER_TOKEN + 1,
        include_usage=ask.include_usage,
    )
    x.work = Work(x.served, ask, gen)
    return None


def _normally(x: Exchange, bad: str | None) -> Waits:
    if x.served is None:
        yield from _page(x)
        return
    why = _unfit(x, bad)
    while why is Refusal.LOADING and x.engine.dialect.while_loading is WhileLoading.WAITS:
        yield 0.05
        why = _unfit(x, bad)
    if why is not None:
        refuse(x, why, detail=bad or "")
    elif x.served.route is Route.EMBEDDINGS:
        yield from _embed(x)
    else:
        yield from generate(x)


def _page(x: Exchange) -> Waits:
    """Anything that is not a generation."""
    engine, path = x.engine, x.request.path
    if path in engine.dialect.hangs_frozen and engine.frozen:
        x.computing = True
        yield 0.0
    hold_s = held_page_s(engine, path)
    if hold_s:
        yield hold_s
    if engine.dialect.guards_models and path == engine.dialect.models and not _key_fits(x):
        refuse(x, Refusal.UNAUTHORIZED)
        return
    found = page(engine, x.request)
    if found is None:
        refuse(x, Refusal.NO_ROUTE)
    else:
        x.reply.whole(found.status, found.body, found.content_type, found.headers)


def _key_fits(x: Exchange) -> bool:
    key = x.engine.config.api_key
    return key is None or x.request.headers.get(b"authorization") == b"Bearer " + key.encode()


def _unfit(x: Exchange, bad: str | None) -> Refusal | None:
    """Why this generation cannot begin."""
    engine, work = x.engine, x.work
    if not _key_fits(x):
        return Refusal.UNAUTHORIZED
    if engine.phase in _UNFIT:
        return _UNFIT[engine.phase]
    if bad is not None or work is None:
        return Refusal.BAD_REQUEST
    if engine.dialect.checks_model and work.ask.model not in {None, engine.config.model}:
        return Refusal.NO_MODEL
    limit, slots = engine.load.queue, x.rank.slots
    full = slots.waiting > 0 or slots.taken >= slots.capacity
    return Refusal.BUSY if limit is not None and full and slots.waiting >= limit else None


def refuse(x: Exchange, why: Refusal, detail: str = "") -> None:
    """Say no in the words of this engine."""
    engine, served, work = x.engine, x.served, x.work
    asked = work.ask.model if work is not None and work.ask.model else engine.config.model
    said = errors.saying(engine.dialect.name, why, detail=detail, model=asked)
    route = served.route if served is not None else None
    engine.counters.refused += 1
    if why is Refusal.BUSY:
        x.rank.tally.rejected += 1
        if engine.dialect.busy_in_stream and work is not None and work.ask.stream:
            x.stream_head()
            x.send([errors.event(engine.dialect.name, said, route), *work.served.wire.done()])
            x.reply.end()
            return
    retry = [("retry-after", "1")] if said.status == HTTPStatus.TOO_MANY_REQUESTS else []
    x.reply.whole(said.status, errors.body(engine.dialect.name, said, route), engine.dialect.json_type, retry)


def _embed(x: Exchange) -> Waits:
    """Embeddings: a little vector that depends on the text."""
    work = x.work
    if work is None:
        return
    yield from x.rank.slots.take(x)
    x.holding = x.computing = True
    yield x.engine.load.ttft.draw(x.engine.rng)
    x.computing = False
    x.rank.tally.steps += 1
    vector = [round((byte * 2 - 255) / 255, 4) for byte in work.ask.prompt.encode()[:8].ljust(8, b"\0")]
    body = {
        "object": "list",
        "model": x.engine.config.model,
        "data": [{"object": "embedding", "index": 0, "embedding": vector}],
        "usage": {"prompt_tokens": work.gen.prompt_tokens, "total_tokens": work.gen.prompt_tokens},
    }
    x.reply.whole(200, encode(body), x.engine.dialect.json_type)


def generate(x: Exchange, how: Generate = _PLAIN) -> Waits:
    """Take a slot and bring out tokens; ends the answer unless ``how`` stops after some tokens."""
    engine, work = x.engine, x.work
    if work is None:
        refuse(x, Refusal.BAD_REQUEST, detail="not a generation")
        return
    stream = work.ask.stream
    if stream and engine.dialect.head_at is HeadAt.ONCE:
        x.stream_head()
    if not x.holding:
        yield from x.rank.slots.take(x, work.ask.priority if engine.load.priorities else 0)
        x.holding = True
    if stream and engine.dialect.head_at is HeadAt.SLOT:
        x.stream_head()
    x.computing = True
    if work.gen.sent == 0:
        yield _ttft(x, work, how)
        x.rank.tally.prompt_tokens += work.gen.prompt_tokens
    if work.tokens is None or how.wrong is not None or how.text is not None:
        work.tokens = _texts(x, work, how)
    yield from (_stream if stream else _whole)(x, work, work.tokens, how)
    x.computing = False


def _texts(x: Exchange, work: Work, how: Generate) -> Iterator[str]:
    if how.text is not None:
        return repeat(how.text)
    if how.wrong is not None:
        return wrong_answer(how.wrong, x.engine.rng)
    return answer(work.ask.prompt, x.engine.config.model)


def _ttft(x: Exchange, work: Work, how: Generate) -> float:
    load = x.engine.load
    first_s = load.ttft.draw(x.engine.rng) if how.ttft_s is None else how.ttft_s
    if load.prefill_tokens_per_s:
        first_s += work.gen.prompt_tokens / load.prefill_tokens_per_s
    return first_s * how.scale


def _gap(x: Exchange, how: Generate) -> float:
    """The time to the next token."""
    load = x.engine.load
    if how.itl_s is not None:
        return how.itl_s * how.scale
    if load.shared_tokens_per_s:
        return x.rank.slots.taken / load.shared_tokens_per_s * how.scale
    return load.itl_s * how.scale


def _length(x: Exchange, work: Work) -> tuple[int, str]:
    """How many tokens it will be, and why it ends then."""
    asked = work.ask.max_tokens
    return (x.engine.load.reply_tokens, "stop") if asked is None else (asked, "length")


def _stream(x: Exchange, work: Work, tokens: Iterator[str], how: Generate) -> Waits:
    gen, wire = work.gen, work.served.wire
    wanted, reason = _length(x, work)
    stop_at = wanted if how.tokens is None else min(wanted, gen.sent + how.tokens)
    x.stream_head()
    payloads = wire.opening(gen) if gen.sent == 0 else []
    while gen.sent < stop_at:
        text = next(tokens)
        x.count_token(text)
        last = gen.sent == wanted
        payloads.append(wire.token(gen, text, reason if last and not wire.finish_apart else None))
        if last:
            _end_stream(x, work, payloads, reason)
            return
        gap_s = _gap(x, how)
        if gap_s or gen.sent % _BURST == 0:
            x.send(payloads)
            payloads = []
            yield gap_s
            while x.line.paused:
                yield 0.01
    x.send(payloads)


def _end_stream(x: Exchange, work: Work, payloads: list[bytes], reason: str) -> None:
    """The last token and all that follows it, in one write."""
    gen, wire = work.gen, work.served.wire
    if wire.finish_apart:
        payloads += wire.finish(gen, reason)
    if gen.include_usage:
        payloads += wire.usage(gen, gen.usage())
    x.send(payloads + wire.done())
    _settle(x, work)
    x.reply.end()


def _whole(x: Exchange, work: Work, tokens: Iterator[str], how: Generate) -> Waits:
    gen = work.gen
    wanted, reason = _length(x, work)
    while gen.sent < wanted:
        x.count_token(next(tokens))
        gap_s = _gap(x, how)
        if gen.sent < wanted and (gap_s or gen.sent % _BURST == 0):
            yield gap_s
        if how.tokens is not None and gen.sent >= how.tokens:
            return
    _settle(x, work)
    x.reply.whole(200, work.served.wire.whole(gen, reason), x.engine.dialect.json_type)


def _settle(x: Exchange, work: Work) -> None:
    """A generation came to its natural end."""
    x.rank.tally.finished += 1
    x.rank.tally.finished_tokens += work.gen.sent
