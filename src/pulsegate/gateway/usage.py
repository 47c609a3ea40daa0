"""Takes the usage out of an answer or of a stream's last events. What is not told is missing, never zero."""

import msgspec

ASKS_USAGE = frozenset({b"/v1/chat/completions", b"/v1/completions"})
"""Where ``stream_options.include_usage`` is known; the responses API always tells."""


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the engine counted them; None where it did not tell. ``cached_tokens`` are some of the prompt's."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None = None

    @property
    def is_zero(self) -> bool:
        """Whether it tells of no token at all: some servers send such numbers before or after the right ones."""
        return not self.prompt_tokens and not self.completion_tokens


class Details(msgspec.Struct, frozen=True):
    """``prompt_tokens_details`` and ``input_tokens_details``."""

    cached_tokens: int | None = None


class Counts(msgspec.Struct, frozen=True):
    """Usage as it is written: the responses API has names of its own."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens_details: Details | None = None
    input_tokens_details: Details | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek

    @property
    def cached_tokens(self) -> int | None:
        """What came from a cache, wherever it is told."""
        details = self.prompt_tokens_details or self.input_tokens_details
        return self.prompt_cache_hit_tokens if details is None else details.cached_tokens


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
    return None if prompt is None and completion is None else Usage(prompt, completion, counts.cached_tokens)


def is_usage_only(document: bytes) -> bool:
    """Whether a chunk is the extra one that ``include_usage`` brings: no choices, only usage."""
    told = _decode(document)
    return told is not None and told.choices == [] and told.usage is not None


def usage_in_events(payload: bytes) -> Usage | None:
    """The last usage in whole events of a stream; one that tells of tokens, if there is any."""
    zero = None
    for line in reversed(payload.split(b"\n")):
        if line.startswith(b"data:") and b'"usage"' in line:
            found = usage_of(line[5:])
            if found is not None and not found.is_zero:
                return found
            zero = zero or found
    return zero


def _decode(document: bytes) -> _Told | None:
    try:
        return _DECODER.decode(document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
