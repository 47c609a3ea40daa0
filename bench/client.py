"""A client that notes for each request when it was sent, when its first token came and how it ended."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

PATIENCE_S = 90.0  # longer than any deadline of the gateway's that a trial looks at: later is a hang


class End(StrEnum):
    WHOLE = "whole"  # an answer with all its tokens
    REFUSED = "refused"  # a status other than 200
    ERROR_EVENT = "error event"  # a stream that ended with an error that says so
    CUT = "cut"  # the connection ended within an answer
    HUNG = "hung"  # nothing more came
    UNREACHED = "unreached"  # the connection was refused


@dataclass(slots=True)
class Seen:
    """One request. Times in seconds on the event loop's clock."""

    sent_at: float
    end: End = End.CUT
    ended_at: float = 0.0
    status: int = 0
    first_token_at: float | None = None
    tokens: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def ttft_s(self) -> float | None:
        return None if self.first_token_at is None else self.first_token_at - self.sent_at

    @property
    def endpoint(self) -> str:
        return self.headers.get("x-pulsegate-endpoint", "")

    @property
    def attempts(self) -> int:
        return int(self.headers.get("x-pulsegate-attempts", "1"))


async def ask(url: str, body: dict, *, headers: dict[str, str] | None = None, patience_s: float = PATIENCE_S) -> Seen:
    """One request on a connection of its own."""
    loop = asyncio.get_running_loop()
    seen = Seen(sent_at=loop.time())
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(patience_s):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
            try:
                writer.write(_request(parts.netloc, body, headers or {}))
                await _read_head(reader, seen)
                await (_read_stream if body.get("stream") else _read_whole)(reader, seen)
            finally:
                writer.close()
    except TimeoutError:
        seen.end = End.HUNG
    except ConnectionRefusedError:
        seen.end = End.UNREACHED
    except (ConnectionError, asyncio.IncompleteReadError):
        seen.end = End.CUT
    seen.ended_at = loop.time()
    return seen


def _request(host: str, body: dict, headers: dict[str, str]) -> bytes:
    payload = json.dumps(body).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(payload)}", "Connection: close", *(f"{n}: {v}" for n, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + payload


async def _read_head(reader: asyncio.StreamReader, seen: Seen) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    seen.status = int(head[0].split(" ", 2)[1])
    for line in head[1:]:
        name, _, value = line.partition(":")
        if name:
            seen.headers[name.lower()] = value.strip()


async def _read_whole(reader: asyncio.StreamReader, seen: Seen) -> None:
    raw = await reader.readexactly(int(seen.headers["content-length"]))
    answer = json.loads(raw)
    if seen.status != 200:
        seen.end, seen.error = End.REFUSED, str(answer.get("error"))
    elif answer["choices"][0]["message"]["content"]:
        seen.end, seen.first_token_at = End.WHOLE, asyncio.get_running_loop().time()
        seen.tokens = answer["usage"]["completion_tokens"]


async def _read_stream(reader: asyncio.StreamReader, seen: Seen) -> None:
    if seen.status != 200:
        await _read_whole(reader, seen)
        return
    while line := await reader.readline():
        if not line.startswith(b"data:"):
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            seen.end = End.WHOLE if seen.end is not End.ERROR_EVENT else seen.end
            return
        event = json.loads(data)
        if "error" in event:
            seen.end, seen.error = End.ERROR_EVENT, str(event["error"])
        elif any(choice.get("delta", {}).get("content") for choice in event.get("choices", ())):
            seen.tokens += 1
            if seen.first_token_at is None:
                seen.first_token_at = asyncio.get_running_loop().time()


async def pour(rate_per_s: float, seconds: float, send: Callable[[int], Awaitable[Seen]]) -> list[Seen]:
    """Open loop: a request every ``1 / rate_per_s`` whatever becomes of the others; returns when all have ended."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number in range(round(rate_per_s * seconds)):
            await asyncio.sleep(begun + number / rate_per_s - loop.time())
            tasks.append(group.create_task(send(number)))
    return [task.result() for task in tasks]


def quantile(values: list[float], share: float) -> float:
    """0 for nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
