# ruff: noqa: ARG002, D102 - the methods are documented, and their arguments given, by Wire
"""How tokens look on the wire: the OpenAI routes, and what every wire must be able to say.

A wire turns one step of a generation into payloads; the reply frames them as server-sent events or as lines. It can
say every part alone (role, token, finish, usage, done), because fault scripts put the parts together differently.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from msgspec.json import encode


class Framing(StrEnum):
    """How payloads of a stream are set apart."""

    SSE = "sse"
    NAMED_SSE = "named_sse"  # with an ``event:`` line that repeats the payload's type
    LINES = "lines"  # NDJSON


@dataclass(slots=True, kw_only=True)
class Generation:
    """One answer in the making."""

    id: str
    created: int
    model: str
    prompt_tokens: int
    include_usage: bool = False
    sent: int = 0
    parts: list[str] = field(default_factory=list[str])
    prefix: bytes = b""

    @property
    def text(self) -> str:
        """All that was said so far."""
        return "".join(self.parts)

    def usage(self) -> dict[str, object]:
        """Token counts as OpenAI writes them."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.sent,
            "completion_tokens": self.sent,
        }


class Wire(Protocol):
    """One route of one dialect. ``finish`` is ``length``, ``stop`` or another reason, None while it goes on."""

    framing: Framing
    finish_apart: bool  # the finish reason has an event of its own

    def opening(self, gen: Generation) -> list[bytes]:
        """What is sent before the first token: the role, or nothing."""
        ...

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        """One token that has just been counted in ``gen``."""
        ...

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        """The event that says why it ended, on its own."""
        ...

    def usage(self, gen: Generation, usage: dict[str, object]) -> list[bytes]:
        """Token counts in an event of their own."""
        ...

    def done(self) -> list[bytes]:
        """The end mark."""
        ...

    def whole(self, gen: Generation, finish: str) -> bytes:
        """The answer to a request that does not stream."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """In what the engines' OpenAI routes differ."""

    finish_apart: bool = False  # llama.cpp, TGI, OpenAI: the last token has no finish reason, an empty chunk follows
    usage_in_finish: bool = False  # llama.cpp completions, LMDeploy: the finishing chunk always counts tokens
    zero_usage: bool = False  # Ollama completions: every chunk has a usage object full of zeros
    role_content: bytes = b'""'  # the role chunk's content
    done: bool = True
    fingerprint: str = ""


class _OpenAI:
    """What completions and chat share."""

    object_name = b""
    whole_name = ""
    framing = Framing.SSE

    def __init__(self, flavour: Flavour) -> None:
        self.flavour = flavour
        self.finish_apart = flavour.finish_apart

    def _start(self, gen: Generation) -> bytes:
        if not gen.prefix:
            gen.prefix = b'{"id":%b,"object":"%b","created":%d,"model":%b,' % (
                encode(gen.id),
                self.object_name,
                gen.created,
                encode(gen.model),
            )
        return gen.prefix

    def _tail(self, gen: Generation, finish: str | None) -> bytes:
        if finish is not None and self.flavour.usage_in_finish:
            return b',"usage":%b}' % encode(gen.usage())
        if self.flavour.zero_usage:
            return b',"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}'
        return b"}"

    def usage(self, gen: Generation, usage: dict[str, object]) -> list[bytes]:
        return [b'%b"choices":[],"usage":%b}' % (self._start(gen), encode(usage))]

    def done(self) -> list[bytes]:
        return [b"[DONE]"] if self.flavour.done else []

    def _whole(self, gen: Generation, choice: dict[str, object]) -> bytes:
        body: dict[str, object] = {
            "id": gen.id,
            "object": self.whole_name,
            "created": gen.created,
            "model": gen.model,
            "choices": [choice],
            "usage": gen.usage(),
        }
        if self.flavour.fingerprint:
            body["system_fingerprint"] = self.flavour.fingerprint
        return encode(body)


class CompletionsWire(_OpenAI):
    """``POST /v1/completions``."""

    object_name = b"text_completion"
    whole_name = "text_completion"

    def opening(self, gen: Generation) -> list[bytes]:
        return []

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        return b'%b"choices":[{"index":0,"text":%b,"logprobs":null,"finish_reason":%b}]%b' % (
            self._start(gen),
            encode(text),
            encode(finish),
            self._tail(gen, finish),
        )

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        return [self.token(gen, "", reason)]

    def whole(self, gen: Generation, finish: str) -> bytes:
        return self._whole(gen, {"index": 0, "text": gen.text, "logprobs": None, "finish_reason": finish})


class ChatWire(_OpenAI):
    """``POST /v1/chat/completions``."""

    object_name = b"chat.completion.chunk"
    whole_name = "chat.completion"

    def opening(self, gen: Generation) -> list[bytes]:
        return [self._chunk(gen, b'{"role":"assistant","content":%b}' % self.flavour.role_content, None)]

    def _chunk(self, gen: Generation, delta: bytes, finish: str | None) -> bytes:
        return b'%b"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]%b' % (
            self._start(gen),
            delta,
            encode(finish),
            self._tail(gen, finish),
        )

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        name = b"reasoning_content" if reasoning else b"content"
        return self._chunk(gen, b'{"%b":%b}' % (name, encode(text)), finish)

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        return [self._chunk(gen, b"{}", reason)]

    def whole(self, gen: Generation, finish: str) -> bytes:
        message = {"role": "assistant", "content": gen.text}
        return self._whole(gen, {"index": 0, "message": message, "finish_reason": finish})


class ResponsesWire:
    """``POST /v1/responses``, the least of it that clients need."""

    framing = Framing.NAMED_SSE
    finish_apart = True

    def opening(self, gen: Generation) -> list[bytes]:
        return [self._event("response.created", response=self._response(gen, "in_progress"))]

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        name = "response.reasoning_text.delta" if reasoning else "response.output_text.delta"
        return self._event(name, item_id="msg_0", output_index=0, content_index=0, delta=text)

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        status = "incomplete" if reason == "length" else "completed"
        return [self._event(f"response.{status}", response=self._response(gen, status))]

    def usage(self, gen: Generation, usage: dict[str, object]) -> list[bytes]:
        return []

    def done(self) -> list[bytes]:
        return []

    def whole(self, gen: Generation, finish: str) -> bytes:
        return encode(self._response(gen, "incomplete" if finish == "length" else "completed"))

    def _event(self, name: str, **fields: object) -> bytes:
        return encode({"type": name, **fields})

    def _response(self, gen: Generation, status: str) -> dict[str, object]:
        content = [{"type": "output_text", "text": gen.text}]
        return {
            "id": gen.id,
            "object": "response",
            "created_at": gen.created,
            "model": gen.model,
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "output": [{"type": "message", "id": "msg_0", "role": "assistant", "status": status, "content": content}],
            "usage": {
                "input_tokens": gen.prompt_tokens,
                "output_tokens": gen.sent,
                "total_tokens": gen.prompt_tokens + gen.sent,
            },
        }
