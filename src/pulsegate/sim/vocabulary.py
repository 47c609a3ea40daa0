"""The steps of the script language by name: ``hang``, ``{sleep: 2s}``, ``{respond: {status: 500}}``.

A step is a name, or a mapping with one name and what it takes; for most, one bare value stands for the main field.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import cast

from msgspec.json import encode

from pulsegate.sim import script as do
from pulsegate.sim.answer import Wrong
from pulsegate.sim.durations import seconds
from pulsegate.sim.errors import Refusal
from pulsegate.sim.fields import BARE, Fields, ScriptError, as_mapping, shown, unknown

_EOL = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}


def read_step(where: str, data: object) -> do.Step:
    """One step.

    Raises:
        ScriptError: there is no such step, or it does not take that.
    """
    if isinstance(data, str):
        name, value = data, None
    else:
        mapping = as_mapping(where, data)
        if len(mapping) != 1:
            raise ScriptError(where, f"a step has one name, not {shown(sorted(mapping))}; write each as its own item")
        name, value = next(iter(mapping.items()))
    reader = _STEPS.get(name)
    if reader is None:
        raise unknown(where, name, list(_STEPS))
    inside = f"{where}.{name}"
    bare: dict[str, object] = {BARE: value}
    named = isinstance(value, Mapping) and name not in _WHOLE
    fields = Fields(inside, as_mapping(inside, cast("object", value)) if named else bare)
    step = reader(fields)
    fields.done()
    return step


def _alone(step: do.Step) -> Callable[[Fields], do.Step]:
    """A step that takes nothing (``hang: true`` is allowed)."""

    def read(fields: Fields) -> do.Step:
        value = fields.take(BARE)
        if value not in (None, True):
            raise ScriptError(fields.where, f"takes nothing, not {shown(value)}")
        return step

    return read


def _sleep(fields: Fields) -> do.Step:
    value = fields.take(BARE)
    items: list[object] = cast("list[object]", value) if isinstance(value, list) else [value]
    try:
        return do.Sleep(seconds=tuple(seconds(item) for item in items or [None]))
    except ValueError as exc:
        raise ScriptError(fields.where, str(exc)) from exc


def _respond(fields: Fields) -> do.Step:
    status = _bare_count(fields) or fields.count("status") or 200
    body, content_type = b"", fields.text("content_type") or ""
    if fields.has("json"):
        body, content_type = encode(fields.take("json")), content_type or "application/json"
    elif fields.has("text"):
        body, content_type = (fields.text("text") or "").encode(), content_type or "text/plain; charset=utf-8"
    _known_alternatives(fields, "json", "text")
    return do.Respond(
        status=status,
        headers=tuple(fields.strings("headers").items()),
        body=body,
        content_type=content_type,
        chunked=fields.flag("chunked") or False,
    )


def _known_alternatives(fields: Fields, *names: str) -> None:
    """Fields of which one was enough: two are a contradiction."""
    for name in names:
        if fields.has(name):
            raise ScriptError(fields.where, f"{name!r} contradicts the body that is already given")
        fields.take(name)


def _redirect(fields: Fields) -> do.Step:
    location = _bare_text(fields) or fields.text("location") or "/elsewhere"
    return do.Respond(status=fields.count("status") or 307, headers=(("location", location),))


def _refuse(fields: Fields) -> do.Step:
    why = _bare_text(fields) or fields.text("why") or ""
    if why not in set(Refusal):
        raise ScriptError(fields.where, f"{why!r} is none of {', '.join(Refusal)}")
    return do.Refuse(why=why)


def _head(fields: Fields) -> do.Step:
    return do.Head(
        status=_bare_count(fields) or fields.count("status") or 200,
        content_type=fields.text("content_type"),
        headers=tuple(fields.strings("headers").items()),
    )


def _token(fields: Fields, *, reasoning: bool = False) -> do.Step:
    text = _bare_text(fields)
    text = fields.text("text") if text is None else text
    if text is None:
        raise ScriptError(fields.where, "needs a text")
    return do.Token(
        text=text,
        times=fields.count("times") or 1,
        every_s=fields.duration("every") or 0.0,
        reasoning=reasoning,
        finish=fields.text("finish"),
    )


def _usage(fields: Fields) -> do.Step:
    value = fields.take(BARE)
    if value is None or value == "real":
        return do.Usage(None)
    if value == "zeros":
        return do.Usage({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})
    if isinstance(value, Mapping):
        return do.Usage(cast("Mapping[str, int]", as_mapping(fields.where, cast("object", value))))
    raise ScriptError(fields.where, f"real, zeros or the numbers are expected, not {shown(value)}")


def _finish(fields: Fields) -> do.Step:
    value = fields.take(BARE)
    if value is not None and not isinstance(value, str):
        raise ScriptError(fields.where, f"a reason or null is expected, not {shown(value)}")
    return do.Finish(value)


def _event(fields: Fields) -> do.Step:
    value = fields.take(BARE)
    return do.Event(value.encode() if isinstance(value, str) else encode(value))


def _error(fields: Fields) -> do.Step:
    message = _bare_text(fields) or fields.text("message") or "Internal server error"
    kind = fields.text("type")
    return do.Error(message=message, status=fields.count("status") or 500, kind=kind or "InternalServerError")


def _comment(fields: Fields) -> do.Step:
    text = _bare_text(fields)
    text = fields.text("text") if text is None else text
    times, every_s = fields.count("times") or 1, fields.duration("every") or 0.0
    return do.Comment(text="keep-alive" if text is None else text, times=times, every_s=every_s)


def _raw(fields: Fields, *, to_socket: bool = False) -> do.Step:
    text, coded = _bare_text(fields), fields.text("base64")
    text = fields.text("text") if text is None else text
    try:
        data = base64.b64decode(coded, validate=True) if coded is not None else (text or "").encode("latin-1")
    except (binascii.Error, UnicodeEncodeError):
        # What does not fit one byte a character is meant as text.
        if coded is not None:
            raise ScriptError(f"{fields.where}.base64", "not base64") from None
        data = (text or "").encode()
    times, every_s = fields.count("times") or 1, fields.duration("every") or 0.0
    return do.Raw(data=data, times=times, every_s=every_s, to_socket=to_socket)


def _noise(fields: Fields) -> do.Step:
    return do.Noise(size_bytes=_bare_count(fields) or fields.count("bytes") or 256, to_socket=_to_socket(fields))


def _to_socket(fields: Fields) -> bool:
    return fields.flag("to_socket") or False


def _endless_headers(fields: Fields) -> do.Step:
    return do.EndlessHeaders(every_s=fields.duration("every") or 0.001)


def _huge_line(fields: Fields) -> do.Step:
    size = _bare_count(fields) or fields.count("bytes") or 100_000_000
    return do.HugeLine(size_bytes=size, endless=fields.flag("endless") or False)


def _frame(fields: Fields) -> do.Step:
    eol = fields.text("eol") or "lf"
    if eol not in _EOL:
        raise ScriptError(f"{fields.where}.eol", f"{eol!r} is none of {', '.join(_EOL)}")
    space = fields.flag("space")
    return do.Frame(
        eol=_EOL[eol],
        bom=fields.flag("bom") or False,
        space=True if space is None else space,
        piece_bytes=fields.count("split") or 0,
        piece_every_s=fields.duration("every") or 0.0,
        gzip=fields.flag("gzip") or False,
    )


def _generate(fields: Fields) -> do.Step:
    wrong = fields.text("wrong")
    if wrong is not None and wrong not in set(Wrong):
        raise ScriptError(f"{fields.where}.wrong", f"{wrong!r} is none of {', '.join(Wrong)}")
    if fields.take(BARE) not in (None, True):
        raise ScriptError(fields.where, "takes named fields only")
    scale = fields.number("scale")
    return do.Generate(
        ttft_s=fields.duration("ttft"),
        itl_s=fields.duration("itl"),
        scale=1.0 if scale is None else scale,
        tokens=fields.count("tokens"),
        text=fields.text("text"),
        wrong=Wrong(wrong) if wrong is not None else None,
    )


def _crash(fields: Fields) -> do.Step:
    fields.take(BARE)
    return do.Crash(restart_s=fields.duration("restart"), loading_s=fields.duration("loading") or 0.0)


def _refuse_port(fields: Fields) -> do.Step:
    return do.RefusePort(for_s=_bare_or(fields, "for"))


def _deaf(fields: Fields) -> do.Step:
    return do.Deaf(for_s=_bare_or(fields, "for"))


def _bare_or(fields: Fields, name: str) -> float | None:
    bare, named = fields.duration(BARE), fields.duration(name)
    return named if bare is None else bare


def _sleep_mode(fields: Fields) -> do.Step:
    on = fields.flag(BARE)
    return do.SleepMode(True if on is None else on)


def _set(fields: Fields, *, on: bool) -> do.Step:
    name = fields.text(BARE)
    if not name:
        raise ScriptError(fields.where, "needs the name of a flag")
    return do.SetFlag(name, on)


def _bare_text(fields: Fields) -> str | None:
    return fields.text(BARE)


def _bare_count(fields: Fields) -> int | None:
    return fields.count(BARE)


_WHOLE = frozenset({"event", "usage"})  # steps that take a mapping as their value
_STEPS: Mapping[str, Callable[[Fields], do.Step]] = {
    "sleep": _sleep,
    "hang": _alone(do.Hang()),
    "reset": _alone(do.Reset()),
    "fin": _alone(do.Fin()),
    "truncate": _alone(do.Truncate()),
    "end": _alone(do.End()),
    "respond": _respond,
    "redirect": _redirect,
    "refuse": _refuse,
    "head": _head,
    "role": _alone(do.Role()),
    "token": _token,
    "reasoning": lambda fields: _token(fields, reasoning=True),
    "finish": _finish,
    "usage": _usage,
    "done": _alone(do.Done()),
    "event": _event,
    "error": _error,
    "comment": _comment,
    "raw": _raw,
    "raw_socket": lambda fields: _raw(fields, to_socket=True),
    "noise": _noise,
    "endless_headers": _endless_headers,
    "huge_line": _huge_line,
    "frame": _frame,
    "generate": _generate,
    "freeze": _alone(do.Freeze()),
    "thaw": _alone(do.Thaw()),
    "break": _alone(do.Break()),
    "crash": _crash,
    "refuse_port": _refuse_port,
    "deaf": _deaf,
    "sleep_mode": _sleep_mode,
    "set": lambda fields: _set(fields, on=True),
    "unset": lambda fields: _set(fields, on=False),
}
