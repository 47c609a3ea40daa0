"""Takes the usage out of an answer or of a stream's last events. What is not told is missing, never zero."""

import msgspec


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the engine counted them; None where it did not tell."""

    prompt_tokens: int | None
    completion_tokens: int | None


class Counts(msgspec.Struct, frozen=True):
    """Usage as it is written: the responses API has names of its own."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Inner(msgspec.Struct, frozen=True):
    usage: Counts | None = None


class _Told(msgspec.Struct, frozen=True):
    """Chat, completions and embeddings put usage at the top; events of the responses API into ``response``."""

    usage: Counts | None = None
    response: _Inner | None = None
    choices: list[msgspec.Raw] | None = None


_DECODER = msgspec.json.Decoder(_Told)


def usage_of(document: bytes) -> Usage | None:
    """The usage in a JSON document, None if there is none or the document cannot be read."""
    told = _decode(document)
    if told is None:
        return None
    counts = told.usage or (told.response.usage if told.response is not None else None)
    return None if counts is None else usage_from(counts)


def usage_from(counts: Counts) -> Usage | None:
    """Usage by its own names."""
    prompt = counts.prompt_tokens if counts.prompt_tokens is not None else counts.input_tokens
    completion = counts.completion_tokens if counts.completion_tokens is not None else counts.output_tokens
    return None if prompt is None and completion is None else Usage(prompt, completion)


def is_usage_only(document: bytes) -> bool:
    """Whether a chunk is the extra one that ``include_usage`` brings: no choices, only usage."""
    told = _decode(document)
    return told is not None and told.choices == [] and told.usage is not None


def usage_in_events(payload: bytes) -> Usage | None:
    """The last usage in whole events of a stream."""
    for line in reversed(payload.split(b"\n")):
        if line.startswith(b"data:") and b'"usage"' in line:
            found = usage_of(line[5:])
            if found is not None:
                return found
    return None


def _decode(document: bytes) -> _Told | None:
    try:
        return _DECODER.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
