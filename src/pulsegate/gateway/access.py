"""The access log: one JSON line per request, written in batches."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

MAX_BACKLOG_BYTES = 1024 * 1024
_BATCH_BYTES = 64 * 1024


class AccessLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One request as it was. Times in seconds.

    ``status`` is what the client saw; 499 for a client that left before. ``cause`` says why there was more than one
    attempt. ``ended``: how the answer ended, if not well: ``stalled``, ``cut``, ``client_gone``. Usage is left out
    when it is not known.
    """

    ts: float
    id: str
    method: str = "POST"
    path: str
    status: int
    model: str | None = None
    endpoint: str | None = None
    attempts: int = 0
    cause: str | None = None
    trouble: str | None = None
    lane: str | None = None
    key: str | None = None
    stream: bool = False
    ttft_s: float | None = None
    duration_s: float
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usage_missing: bool = False
    code: str | None = None
    ended: str | None = None


class AccessLog:
    """Collects lines and writes them when asked. A log that cannot be written loses lines and counts them."""

    __slots__ = ("_encode", "_file", "_lines", "_size", "_write", "lost")

    def __init__(self, file: BinaryIO | None) -> None:
        """``file`` None: no log."""
        self._file = file
        self._lines: list[bytes] = []
        self._size = 0
        self._encode: Callable[[AccessLine], bytes] = msgspec.json.Encoder().encode
        self.lost = 0

    @property
    def wanted(self) -> bool:
        """Whether lines are of use."""
        return self._file is not None

    def add(self, line: AccessLine) -> None:
        """Take a line."""
        encoded = self._encode(line)
        self._lines.append(encoded)
        self._size += len(encoded)
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
