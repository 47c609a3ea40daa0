"""How a sound engine answers: pages at once, generations through the queue, the slots and the time to a token."""

from collections.abc import Iterator

from pulsegate.sim import errors
from pulsegate.sim.answer import answer, wrong_answer
from pulsegate.sim.dialects import HeadAt, WhileLoading
from pulsegate.sim.engine import Phase
from pulsegate.sim.errors import Refusal
from pulsegate.sim.exchange import Exchange, Waits
from pulsegate.sim.load import FOREVER
from pulsegate.sim.metrics import held_page_s
from pulsegate.sim.pages import page
from pulsegate.sim.request import BadRequestError, Route, decode, read_ask
from pulsegate.sim.routes import find_route, groups_of
from pulsegate.sim.script import Generate
from pulsegate.sim.steps import run
from pulsegate.sim.wires import Generation

_PLAIN = Generate()
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
        ask = x.ask = read_ask(x.served.route, request)
    except BadRequestError as exc:
        return str(exc)
    ask.model = model_in_path or ask.model
    x.rank = engine.rank_for(ask.rank)
    x.gen = Generation(
        id=f"{engine.name}-{next(engine.ids)}",
        created=engine.unix_time(),
        model=engine.config.model,
        prompt_tokens=len(ask.prompt) // 4 + 1,
        include_usage=ask.include_usage,
    )
    return None


def _normally(x: Exchange, bad: str | None) -> Waits:
    engine, dialect = x.engine, x.engine.dialect
    if x.served is None:
        if x.request.path in dialect.hangs_frozen and engine.frozen:
            x.computing = True
            yield 0.0
        hold_s = held_page_s(engine, x.request.path)
        if hold_s:
            yield hold_s
        answer_page(x)
        return
    why = _unfit(x, bad)
    while why is Refusal.LOADING and dialect.while_loading is WhileLoading.WAITS:
        yield 0.05
        why = _unfit(x, bad)
    if why is not None:
        refuse(x, why, detail=bad or "")
    elif x.served.route is Route.EMBEDDINGS:
        yield from _embed(x)
    else:
        yield from generate(x)


def answer_page(x: Exchange) -> None:
    """Anything that is not a generation."""
    found = page(x.engine, x.request)
    if found is None:
        refuse(x, Refusal.NO_ROUTE)
    else:
        x.reply.whole(found.status, found.body, found.content_type, found.headers)


def _unfit(x: Exchange, bad: str | None) -> Refusal | None:
    """Why this generation cannot begin."""
    engine, ask = x.engine, x.ask
    key = engine.config.api_key
    if key is not None and x.request.headers.get(b"authorization") != b"Bearer " + key.encode():
        return Refusal.UNAUTHORIZED
    if engine.phase in _UNFIT:
        return _UNFIT[engine.phase]
    if bad is not None or ask is None:
        return Refusal.BAD_REQUEST
    if engine.dialect.checks_model and ask.model not in {None, engine.config.model}:
        return Refusal.NO_MODEL
    limit = engine.load.queue
    slots = x.rank.slots
    full = slots.waiting > 0 or slots.taken >= slots.capacity
    return Refusal.BUSY if limit is not None and full and slots.waiting >= limit else None


def refuse(x: Exchange, why: Refusal, detail: str = "") -> None:
    """Say no in the words of this engine."""
    engine, served = x.engine, x.served
    asked = x.ask.model if x.ask is not None and x.ask.model else engine.config.model
    said = errors.saying(engine.dialect.name, why, detail=detail, model=asked)
    route = served.route if served is not None else None
    engine.counters.refused += 1
    if why is Refusal.BUSY:
        x.rank.tally.rejected += 1
        if engine.dialect.busy_in_stream and x.ask is not None and x.ask.stream and served is not None:
            x.stream_head()
            x.send([errors.event(engine.dialect.name, said, route), *served.wire.done()])
            x.reply.end()
            return
    retry = [("retry-after", "1")] if said.status == 429 else []  # noqa: PLR2004 - the status itself
    x.reply.whole(said.status, errors.body(engine.dialect.name, said, route), engine.dialect.json_type, retry)


def _embed(x: Exchange) -> Waits:
    """Embeddings: a little vector that depends on the text."""
    ask = x.ask
    if ask is None:
        return
    yield from x.rank.slots.take(x)
    x.holding = x.computing = True
    yield x.engine.load.ttft.draw(x.engine.rng)
    x.computing = False
    vector = ",".join(f"{(hash_byte * 2 - 255) / 255:.4f}" for hash_byte in ask.prompt.encode()[:8].ljust(8, b"\0"))
    x.rank.tally.steps += 1
    x.reply.whole(
        200,
        b'{"object":"list","model":"%b","data":[{"object":"embedding","index":0,"embedding":[%b]}],'
        b'"usage":{"prompt_tokens":%d,"total_tokens":%d}}'
        % (x.engine.config.model.encode(), vector.encode(), len(ask.prompt) // 4 + 1, len(ask.prompt) // 4 + 1),
        x.engine.dialect.json_type,
    )


def generate(x: Exchange, how: Generate = _PLAIN) -> Waits:
    """Take a slot and bring out tokens; ends the answer unless ``how`` stops after some tokens."""
    engine, ask, gen = x.engine, x.ask, x.gen
    if ask is None or gen is None:
        refuse(x, Refusal.BAD_REQUEST, detail="not a generation")
        return
    if ask.stream and engine.dialect.head_at is HeadAt.ONCE:
        x.stream_head()
    if not x.holding:
        yield from x.rank.slots.take(x, ask.priority if engine.load.priorities else 0)
        x.holding = True
    if ask.stream and engine.dialect.head_at is HeadAt.SLOT:
        x.stream_head()
    x.computing = True
    if gen.sent == 0:
        yield _ttft(x, how)
        x.rank.tally.prompt_tokens += gen.prompt_tokens
    wanted = ask.max_tokens or engine.load.reply_tokens
    reason = "length" if ask.max_tokens else "stop"
    if x.tokens is None or how.wrong is not None or how.text is not None:
        x.tokens = _texts(x, how)
    if ask.stream:
        yield from _stream(x, how, wanted, reason)
    else:
        yield from _whole(x, how, wanted, reason)
    x.computing = False


def _texts(x: Exchange, how: Generate) -> Iterator[str]:
    if how.text is not None:
        return iter(lambda: how.text or "", None)
    if how.wrong is not None:
        return wrong_answer(how.wrong, x.engine.rng)
    return answer(x.ask.prompt if x.ask else "", x.engine.config.model)


def _ttft(x: Exchange, how: Generate) -> float:
    load = x.engine.load
    first_s = load.ttft.draw(x.engine.rng) if how.ttft_s is None else how.ttft_s
    if load.prefill_tokens_per_s and x.gen is not None:
        first_s += x.gen.prompt_tokens / load.prefill_tokens_per_s
    return first_s * how.scale


def _gap(x: Exchange, how: Generate) -> float:
    load = x.engine.load
    if how.itl_s is not None:
        return how.itl_s * how.scale
    if load.shared_tokens_per_s:
        return x.rank.slots.taken / load.shared_tokens_per_s * how.scale
    return load.itl_s * how.scale


def _stream(x: Exchange, how: Generate, wanted: int, reason: str) -> Waits:
    gen, served, tokens = x.gen, x.served, x.tokens
    if gen is None or served is None or tokens is None:
        return
    wire = served.wire
    x.stream_head()
    payloads = wire.opening(gen) if gen.sent == 0 else []
    stop_at = wanted if how.tokens is None else min(wanted, gen.sent + how.tokens)
    while gen.sent < stop_at:
        text = next(tokens)
        x.count_token(text)
        last = gen.sent == wanted
        payloads.append(wire.token(gen, text, reason if last and not wire.finish_apart else None))
        if last:
            break
        x.send(payloads)
        payloads = []
        gap_s = _gap(x, how)
        if gap_s or gen.sent % _BURST == 0:
            yield gap_s
        while x.line.paused:
            yield 0.01
    if gen.sent < wanted:
        return
    if wire.finish_apart:
        payloads += wire.finish(gen, reason)
    if gen.include_usage:
        payloads += wire.usage(gen, gen.usage())
    x.send(payloads + wire.done())
    settle(x)
    x.reply.end()


def _whole(x: Exchange, how: Generate, wanted: int, reason: str) -> Waits:
    gen, served, tokens = x.gen, x.served, x.tokens
    if gen is None or served is None or tokens is None:
        return
    while gen.sent < wanted:
        x.count_token(next(tokens))
        gap_s = _gap(x, how)
        if gen.sent < wanted and (gap_s or gen.sent % _BURST == 0):
            yield gap_s
        if how.tokens is not None and gen.sent >= how.tokens:
            yield FOREVER
    settle(x)
    x.reply.whole(200, served.wire.whole(gen, reason), x.engine.dialect.json_type)


def settle(x: Exchange) -> None:
    """A generation came to its natural end."""
    if x.gen is not None:
        x.rank.tally.finished += 1
        x.rank.tally.finished_tokens += x.gen.sent
