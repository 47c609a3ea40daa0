"""The access log: one JSON line per request, written in batches."""

import os
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from pulsegate.gateway.usage import Usage

MAX_BACKLOG_BYTES: Final = 1024 * 1024
_BATCH_BYTES: Final = 64 * 1024
_TEXT = msgspec.json.Encoder().encode


def json_text(text: str) -> bytes:
    """A text as JSON writes it; made once for each name, not for each line."""
    return _TEXT(text)


class Entry:
    """One request as it was, filled while it goes on. Times in seconds; names as JSON texts.

    Attributes:
        status: what the client saw; 499 for a client that left before.
        cause: why there was more than one attempt; ``trouble`` what the latest failed one met.
        ended: how the answer ended, if not well: ``stalled``, ``cut``, ``client_gone``.
        missing: the answer went well and told no usage.
    """

    __slots__ = (
        "attempts",
        "cause",
        "code",
        "duration_s",
        "ended",
        "endpoint",
        "key",
        "lane",
        "missing",
        "model",
        "path",
        "request_id",
        "status",
        "stream",
        "trouble",
        "ttft_s",
        "usage",
        "wall_s",
    )

    def __init__(self, request_id: bytes, path: bytes, model: bytes, key: bytes | None, lane: str) -> None:
        self.request_id = request_id
        self.path = path
        self.model = model
        self.key = key
        self.lane = lane
        self.wall_s = 0.0
        self.status = 0
        self.endpoint: bytes | None = None
        self.attempts = 0
        self.cause: str | None = None
        self.trouble: str | None = None
        self.stream = False
        self.ttft_s: float | None = None
        self.duration_s = 0.0
        self.usage: Usage | None = None
        self.missing = False
        self.code: str | None = None
        self.ended: str | None = None

    def line(self) -> bytes:
        """As JSON; put together by hand in a third of an encoder's time, because this is done for every request."""
        usage = self.usage
        tail = b""
        if usage is not None:
            tail = b',"prompt_tokens":%b,"completion_tokens":%b' % (
                _number(usage.prompt_tokens),
                _number(usage.completion_tokens),
            )
        elif self.missing:
            tail = b',"usage_missing":true'
        if self.cause or self.trouble or self.code or self.ended:
            for name, text in (
                ("cause", self.cause),
                ("trouble", self.trouble),
                ("code", self.code),
                ("ended", self.ended),
            ):
                if text is not None:
                    tail += b',"%b":%b' % (name.encode(), json_text(text))
        return (
            b'{"ts":%.3f,"id":"%b","path":"%b","status":%d,"model":%b,"endpoint":%b,"attempts":%d,"lane":"%b","key":%b,'
            b'"stream":%b,"ttft_s":%b,"duration_s":%.6f%b}'
        ) % (
            self.wall_s,
            self.request_id,
            self.path,
            self.status,
            self.model,
            self.endpoint or b"null",
            self.attempts,
            self.lane.encode(),
            self.key or b"null",
            b"true" if self.stream else b"false",
            b"null" if self.ttft_s is None else b"%.6f" % self.ttft_s,
            self.duration_s,
            tail,
        )


def _number(value: int | None) -> bytes:
    return b"null" if value is None else b"%d" % value


class AccessLog:
    """Collects lines and writes them when asked. A log that cannot be written loses lines and counts them."""

    __slots__ = ("_file", "_lines", "_size", "lost")

    def __init__(self, file: BinaryIO | None) -> None:
        """``file`` None: no log."""
        self._file = file
        self._lines: list[bytes] = []
        self._size = 0
        self.lost = 0

    @property
    def wanted(self) -> bool:
        """Whether lines are of use."""
        return self._file is not None

    def add(self, line: bytes) -> None:
        """Take a line."""
        self._lines.append(line)
        self._size += len(line)
        if self._size > _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what has come together."""
        if not self._lines or self._file is None:
            return
        lines = self._lines
        data = b"\n".join(lines) + b"\n"
        try:
            written = os.write(self._file.fileno(), data)
        except BlockingIOError:
            written = 0
        except OSError:
            self.lost += len(lines)
            written = len(data)
        self._lines = []
        self._size = 0
        if written < len(data):
            self._keep(data[written:])

    def _keep(self, rest: bytes) -> None:
        if len(rest) > MAX_BACKLOG_BYTES:
            self.lost += rest.count(b"\n")
            return
        self._lines.append(rest.removesuffix(b"\n"))
        self._size = 0  # tried again at the next flush, not at the next line

    def close(self) -> None:
        """Write the rest and close."""
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None


def open_log(where: str | None) -> BinaryIO | None:
    """The file to write to: ``-`` is standard output, None is no log.

    Raises:
        ValueError: it cannot be opened.
    """
    if where is None:
        return None
    try:
        if where == "-":
            return os.fdopen(os.dup(1), "ab", buffering=0)
        return Path(where).open("ab", buffering=0)
    except OSError as exc:
        raise ValueError(f"access log {where}: {exc.strerror}") from exc
