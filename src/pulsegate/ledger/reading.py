"""Reads ledger files in large pieces of whole lines, and gets what can be got out of broken ones."""

from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from pulsegate.ledger.lines import pieces

CHUNK_BYTES: Final = 256 * 1024  # small enough to stay in a processor's cache while its rows are added up

T = TypeVar("T")


class Chunk(NamedTuple):
    """Whole lines, each with its end."""

    data: bytes
    end: int  # of the file behind them, in bytes


def chunks(path: Path, start: int = 0, stop: int | None = None, *, to_end: bool = True) -> Iterator[Chunk]:
    """The lines that begin at ``start`` or behind it and before ``stop``.

    Args:
        path: of one file.
        start: where a line begins.
        stop: None: the end of the file.
        to_end: take a last line that lacks its end; False leaves it, because it may still be written.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        at, rest = start, b""
        while stop is None or at < stop:
            wanted = CHUNK_BYTES if stop is None else min(CHUNK_BYTES, stop - at - len(rest))
            data = file.read(wanted) if wanted > 0 else b""
            if not data:
                break
            data = rest + data
            cut = data.rfind(b"\n") + 1
            rest = data[cut:]
            if cut:
                at += cut
                yield Chunk(data[:cut], at)
        if rest and stop is not None:  # the line that goes over ``stop`` belongs here
            rest += _to_line_end(file)
        if rest and (to_end or rest.endswith(b"\n")):
            yield Chunk(rest, at + len(rest))


def _to_line_end(file: FileIO) -> bytes:
    found = b""
    while data := file.read(4096):
        line, end, _ = data.partition(b"\n")
        found += line + end
        if end:
            break
    return found


def decoded(data: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[list[T], list[bytes]]:
    """The records in whole lines, in their order, and the fragments that are none."""
    try:
        return decoder.decode_lines(data), []
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decoded_singly(data, decoder)


def _decoded_singly(data: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[list[T], list[bytes]]:
    found: list[T] = []
    broken: list[bytes] = []
    for line in data.split(b"\n"):
        for piece in pieces(line):
            try:
                found.append(decoder.decode(piece))
            except (msgspec.DecodeError, UnicodeDecodeError):
                broken.append(piece)
    return found, broken
