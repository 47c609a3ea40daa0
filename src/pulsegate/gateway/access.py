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


def access_line(  # noqa: PLR0917
    wall_s: float,
    request_id: bytes,
    path: bytes,
    status: int,
    model: bytes,
    endpoint: bytes | None,
    attempts: int,
    lane: bytes,
    key: bytes | None,
    stream: bytes,
    ttft_s: float | None,
    duration_s: float,
    tail: bytes,
) -> bytes:
    """One request as one JSON line. Times in seconds; ``model``, ``endpoint`` and ``key`` as ``json_text``.

    Put together by hand in a third of an encoder's time, because this is done for every request.
    """
    return (
        b'{"ts":%.3f,"id":"%b","path":"%b","status":%d,"model":%b,"endpoint":%b,"attempts":%d,"lane":"%b","key":%b,'
        b'"stream":%b,"ttft_s":%b,"duration_s":%.6f%b}'
    ) % (
        wall_s,
        request_id,
        path,
        status,
        model,
        endpoint or b"null",
        attempts,
        lane,
        key or b"null",
        stream,
        b"null" if ttft_s is None else b"%.6f" % ttft_s,
        duration_s,
        tail,
    )


class Unrouted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The line of a request that was answered without an endpoint: refused, or a question about ourselves."""

    ts: float
    id: str
    method: str
    path: str
    status: int
    key: str | None = None
    code: str | None = None


def usage_tail(usage: Usage | None, *, missing: bool) -> bytes:
    """The end of a line: the tokens used, or that the answer went well and did not tell."""
    if usage is None:
        return b',"usage_missing":true' if missing else b""
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return b',"prompt_tokens":%b,"completion_tokens":%b' % (
            _number(usage.prompt_tokens),
            _number(usage.completion_tokens),
        )
    return b',"prompt_tokens":%d,"completion_tokens":%d' % (usage.prompt_tokens, usage.completion_tokens)


def trouble_tail(cause: str | None, trouble: str | None, code: str | None, ended: str | None) -> bytes:
    """The end of a line about what went wrong.

    ``cause``: why there was more than one attempt; ``trouble``: what the latest failed one met; ``code``: of an error
    of ours; ``ended``: how the answer ended, if not well: ``stalled``, ``cut``, ``client_gone``.
    """
    told = (("cause", cause), ("trouble", trouble), ("code", code), ("ended", ended))
    return b"".join(b',"%b":%b' % (name.encode(), json_text(text)) for name, text in told if text is not None)


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

    def add_unrouted(self, line: Unrouted) -> None:
        """Take the line of a request that was answered without an endpoint."""
        self.add(_TEXT(line))

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
