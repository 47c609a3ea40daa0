"""What the events of an OpenAI-style stream mean, and the same answer given in one piece.

Decides what a token is: text, reasoning or a tool call; without any, a finish reason or a usage of at least one token.
Role-only and empty deltas, chunks without choices, pings and filter results are none.
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from pulsegate.core.probe import Fault, FaultClass
from pulsegate.engines.dialect import Facts
from pulsegate.engines.error_body import declared_error

_FAILED_FINISHES: Final[Mapping[str, FaultClass]] = {
    "insufficient_system_resource": FaultClass.OVERLOAD,  # DeepSeek ran out of machines
    "network_error": FaultClass.SERVER,  # Zhipu's inference failed
    "error": FaultClass.SERVER,
    "abort": FaultClass.SERVER,  # an engine gave up on the request
    "aborted": FaultClass.SERVER,
}


class _Delta(msgspec.Struct):
    content: object = None
    reasoning_content: object = None
    reasoning: object = None
    tool_calls: object = None
    refusal: object = None


class _Choice(msgspec.Struct):
    text: object = None
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: object = None


class _Usage(msgspec.Struct):
    completion_tokens: object = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: object = None


_decoder: Final = msgspec.json.Decoder(_Chunk)


def read_openai_event(facts: Facts, data: str) -> None:
    """Take in the data of one event, or a whole JSON answer."""
    if data.startswith(("[DONE]", " [DONE]")):
        facts.done = True
        return
    if data.startswith(":"):  # a comment that a gateway wrapped into an event
        return
    try:
        chunk = _decoder.decode(data)
    except msgspec.DecodeError:
        _read_other(facts, data)
        return
    if chunk.error or (not chunk.choices and chunk.usage is None):
        _read_other(facts, data)
    for choice in chunk.choices or ():
        _read_choice(facts, choice)
    if chunk.usage is not None:
        tokens = chunk.usage.completion_tokens
        if isinstance(tokens, int) and tokens > 0:  # Ollama and vLLM send zeros along the way
            facts.tokens = tokens


def _read_choice(facts: Facts, choice: _Choice) -> None:
    text = _said(choice.text)
    called = False
    for part in (choice.delta, choice.message):
        if part is not None:
            text += _said(part.reasoning_content) or _said(part.reasoning)
            text += _said(part.content) + _said(part.refusal)
            called = called or bool(part.tool_calls)
    if text or called:
        facts.token(text)
    reason = choice.finish_reason
    if not isinstance(reason, str) or not reason:  # SGLang sends "" for null
        return
    if reason in _FAILED_FINISHES:
        facts.fault = facts.fault or Fault(kind=_FAILED_FINISHES[reason], detail=f"finish_reason {reason}")
    else:
        facts.finish_reason = reason


def _said(value: object) -> str:
    """A string, or the strings in a list of content parts (Mistral)."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_said(part) for part in cast("list[object]", value))
    if isinstance(value, dict):
        parts = cast("dict[str, object]", value)
        return _said(parts.get("text") or parts.get("thinking"))
    return ""


def _read_other(facts: Facts, data: str) -> None:
    """An event that is no chunk: an error in one of its many shapes, or something to pass over."""
    try:
        error = declared_error(msgspec.json.decode(data))
    except (msgspec.DecodeError, RecursionError):
        facts.unreadable += 1
        return
    if error is not None:
        facts.error(error)
