"""The state machine for human readers: a table and a diagram, drawn from the table that the code runs on.

``scripts/write_states.py`` writes it to ``docs/states.md``; a test compares the two.
"""

from collections.abc import Iterator

from pulsegate.core.health import NOTHING, TABLE, WRONG_LIMIT, Count, Limit, Move, Signal, Special, State, Target

_HEAD = f"""# States of an endpoint

<!-- Generated from the transition table (src/pulsegate/core/health.py): run `python scripts/write_states.py`. -->

An endpoint is in one state, for one reason. What a probe or a reading of the engine's counters amounts to is a
*signal*; the table below says what follows. It is the table that the program itself looks things up in.

| state | traffic |
|---|---|
| warming | none; nothing condemns it but a fatal error and the start-up deadline |
| healthy | all, weight 100 |
| degraded | weight 30, low priority only and few at a time, while the pool has a healthy endpoint; `busy`: as healthy |
| unhealthy | none: requests that wait there go elsewhere at once |
| misconfigured | none; a human must act |
| draining | none; requests in flight may finish, probes go on judging beneath |

Counters: `streak` fast tokens in a row (full at `rise`, 3), `fails` timeouts and errors in a row (full at `fall`, 2),
`wrong` wrong answers in a row, to different prompts (full at {WRONG_LIMIT}). After a start, and after having been
unhealthy, a deep probe must have passed before `streak` makes healthy. "(of the signal)" stands for the reason that
the failure itself gave, such as `refused` or `auth`. "For certain" means that no brake keeps it from being ejected.

A slow token is *under load* while users get tokens there or the engine's counters move. At the third one in a row at
which most of its peers are healthy, load explains it no more: it counts as a *slow token*. *Token late* is not told
while users get tokens.
"""
_COLUMNS = (State.WARMING, State.HEALTHY, State.DEGRADED, State.UNHEALTHY, State.MISCONFIGURED)


def render() -> str:
    """The whole page, Markdown."""
    return "\n".join((_HEAD, "## Table", "", *_table(), "", "## Diagram", "", *_diagram(), ""))


def _table() -> Iterator[str]:
    yield f"| signal | {' | '.join(_COLUMNS)} |"
    yield "|---" * (len(_COLUMNS) + 1) + "|"
    for signal in Signal:
        cells = [_cell(TABLE[state][signal]) for state in _COLUMNS]
        yield f"| {signal} | {' | '.join(cells)} |"
    yield ""
    yield "While **draining**, every signal is taken in by the state beneath; *undrain* brings that state back."


def _cell(move: Move) -> str:
    if move is NOTHING:
        return "-"
    if move.special is Special.RESTART:
        return f"new incarnation: {_target(move.to)}"
    if move.special is Special.COVER:
        return "draining(operator)"
    if move.limit is not Limit.NONE:
        return "; ".join((*_counting(move), f"**{_full(move.limit)}: {_target(move.at_limit)}**", *_arrival(move)))
    return "; ".join((*_arrival(move), *_counting(move)))


def _arrival(move: Move) -> Iterator[str]:
    if move.to.state is not None:
        yield f"{'else ' if move.limit is not Limit.NONE else ''}{_target(move.to)}"


def _counting(move: Move) -> Iterator[str]:
    named = (("streak", move.streak), ("fails", move.fails), ("wrong", move.wrong))
    up = [name for name, count in named if count is Count.UP]
    zero = [name for name, count in named if count is Count.ZERO]
    if up:
        yield f"{' and '.join(up)} +1"
    if zero:
        yield f"{', '.join(zero)} = 0"
    if move.deep_passed:
        yield "deep probe passed"


def _full(limit: Limit) -> str:
    names = {Limit.RISE: "streak", Limit.FALL: "fails", Limit.WRONG: "wrong"}
    return f"{names[limit]} full"


def _target(to: Target) -> str:
    reason = "of the signal" if to.reason is None else to.reason
    held = f", or still {' or '.join(sorted(to.hold))}" if to.hold else ""
    return f"{to.state}({reason}{held}){' for certain' if to.hard else ''}"


def _diagram() -> Iterator[str]:
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield "    [*] --> warming"
    for (old, new), signals in _arrows().items():
        yield f"    {old} --> {new}: {', '.join(signals)}"
    yield "```"
    yield ""
    yield "An asterisk: when the counter is full. Moves within a state are left out."


def _arrows() -> dict[tuple[State, State], list[str]]:
    arrows: dict[tuple[State, State], list[str]] = {}
    for state in _COLUMNS:
        for signal in Signal:
            for new, name in _leaves(state, signal):
                arrows.setdefault((state, new), []).append(name)
    for state in _COLUMNS:
        arrows[State.DRAINING, state] = [Signal.UNDRAIN]
    return arrows


def _leaves(state: State, signal: Signal) -> Iterator[tuple[State, str]]:
    move = TABLE[state][signal]
    if move.special is Special.COVER:
        yield State.DRAINING, signal
    if move.to.state not in (None, state):
        yield move.to.state or state, signal
    if move.at_limit.state not in (None, state):
        yield move.at_limit.state or state, f"{signal}*"
