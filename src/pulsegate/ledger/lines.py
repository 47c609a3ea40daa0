"""One line of a ledger file, as it is written and as it is read: the only place that knows how it looks.

Every line begins with ``{"ts":``. JSON escapes quotes inside texts, so that these bytes stand nowhere else: a whole
line that another process wrote behind a torn one can be told from it.
"""

from collections.abc import Iterator
from decimal import Decimal

import msgspec

from pulsegate.control.ledger import Entry

BEGINNING = b'{"ts":'

ENCODER = msgspec.json.Encoder(decimal_format="number")


class Row(msgspec.Struct, kw_only=True, gc=False):
    """What sums need of a line. Words are kept as text: enums would double the time that a million lines take."""

    ts: float
    op: str
    attempt: int
    kind: str
    client: str | None
    provider: str | None
    model: str
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    cost: Decimal | None
    currency: str | None
    usage: str


ROWS = msgspec.json.Decoder(Row)
ENTRIES = msgspec.json.Decoder(Entry)


def encoded(entry: Entry) -> bytes:
    """One line, with its end."""
    return ENCODER.encode(entry) + b"\n"


def pieces(line: bytes) -> Iterator[bytes]:
    """A broken line cut before each beginning: fragments, and perhaps whole lines behind them."""
    start = 0
    while start < len(line):
        following = line.find(BEGINNING, start + 1)
        end = len(line) if following < 0 else following
        yield line[start:end]
        start = end


def is_whole(piece: bytes) -> bool:
    """Whether this is a line with all its fields."""
    try:
        ENTRIES.decode(piece)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
