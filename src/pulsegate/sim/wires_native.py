# ruff: noqa: ARG002, D102 - the methods are documented, and their arguments given, by Wire
"""How tokens look on the engines' own routes."""

from msgspec.json import encode

from pulsegate.sim.wires import Framing, Generation


class _Native:
    """What most native routes share: no role, no separate usage, no end mark."""

    framing = Framing.SSE
    finish_apart = False

    def opening(self, gen: Generation) -> list[bytes]:
        return []

    def usage(self, gen: Generation, usage: dict[str, object]) -> list[bytes]:
        return []

    def done(self) -> list[bytes]:
        return []


class TgiWire(_Native):
    """TGI ``/generate`` and ``/generate_stream``."""

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        details = {"finish_reason": finish, "generated_tokens": gen.sent, "seed": None, "input_length": None}
        return encode(
            {
                "index": gen.sent,
                "token": {"id": 100 + gen.sent, "text": text, "logprob": -0.5, "special": False},
                "generated_text": gen.text if finish is not None else None,
                "details": details if finish is not None else None,
            }
        )

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        return [self.token(gen, "", reason or "length")]

    def whole(self, gen: Generation, finish: str) -> bytes:
        details = {"finish_reason": finish, "generated_tokens": gen.sent, "seed": None}
        return encode({"generated_text": gen.text, "details": details})


class SglangWire(_Native):
    """SGLang ``/generate``: each event holds the text so far."""

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        return encode(self._body(gen, finish))

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        return [encode(self._body(gen, reason))]

    def done(self) -> list[bytes]:
        return [b"[DONE]"]

    def whole(self, gen: Generation, finish: str) -> bytes:
        return encode(self._body(gen, finish))

    def _body(self, gen: Generation, finish: str | None) -> dict[str, object]:
        reason = {"type": finish, "length": gen.sent} if finish is not None else None
        meta = {
            "id": gen.id,
            "finish_reason": reason,
            "prompt_tokens": gen.prompt_tokens,
            "completion_tokens": gen.sent,
            "cached_tokens": 0,
        }
        return {"text": gen.text, "output_ids": [100 + n for n in range(gen.sent)], "meta_info": meta}


class TritonWire(_Native):
    """Triton ``generate`` and ``generate_stream``: the stream just ends."""

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        return encode({"model_name": gen.model, "model_version": "1", "text_output": text})

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        return []

    def whole(self, gen: Generation, finish: str) -> bytes:
        return encode({"model_name": gen.model, "model_version": "1", "text_output": gen.text})


class LlamaCppWire(_Native):
    """llama.cpp ``/completion``."""

    finish_apart = True

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        return encode(
            {
                "index": 0,
                "content": text,
                "tokens": [100 + gen.sent],
                "stop": False,
                "id_slot": -1,
                "tokens_predicted": gen.sent,
                "tokens_evaluated": gen.prompt_tokens,
            }
        )

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        return [encode(self._last(gen, "", reason or "length"))]

    def whole(self, gen: Generation, finish: str) -> bytes:
        return encode(self._last(gen, gen.text, finish))

    def _last(self, gen: Generation, text: str, finish: str) -> dict[str, object]:
        return {
            "index": 0,
            "content": text,
            "tokens": [],
            "id_slot": 0,
            "stop": True,
            "model": gen.model,
            "tokens_predicted": gen.sent,
            "tokens_evaluated": gen.prompt_tokens,
            "stop_type": "limit" if finish == "length" else "eos",
            "truncated": False,
        }


class OllamaWire(_Native):
    """Ollama ``/api/generate`` and ``/api/chat``: one JSON object a line."""

    framing = Framing.LINES
    finish_apart = True

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat

    def token(self, gen: Generation, text: str, finish: str | None = None, *, reasoning: bool = False) -> bytes:
        return encode(self._record(gen, text, reasoning=reasoning))

    def finish(self, gen: Generation, reason: str | None) -> list[bytes]:
        return [encode(self._last(gen, "", reason))]

    def whole(self, gen: Generation, finish: str) -> bytes:
        return encode(self._last(gen, gen.text, finish))

    def _record(self, gen: Generation, text: str, *, reasoning: bool = False) -> dict[str, object]:
        record: dict[str, object] = {"model": gen.model, "created_at": "2026-01-01T00:00:00.000000Z", "done": False}
        if self._chat:
            message = {"role": "assistant", "content": "" if reasoning else text}
            record["message"] = message | ({"thinking": text} if reasoning else {})
        else:
            record |= {"response": "", "thinking": text} if reasoning else {"response": text}
        return record

    def _last(self, gen: Generation, text: str, finish: str | None) -> dict[str, object]:
        return self._record(gen, text) | {
            "done": True,
            "done_reason": finish or "stop",
            "total_duration": 20_000_000,
            "load_duration": 1_000_000,
            "prompt_eval_count": gen.prompt_tokens,
            "prompt_eval_duration": 5_000_000,
            "eval_count": gen.sent,
            "eval_duration": 10_000_000,
        }
