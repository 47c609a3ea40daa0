"""Reads a whole ledger strictly: is every line a record, is every attempt there once, do costs go with their tokens?"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Final

from pulsegate.control.ledger import Entry
from pulsegate.ledger.lines import ENTRIES
from pulsegate.ledger.reading import chunks, decoded
from pulsegate.ledger.segments import segments

MAX_EXAMPLES: Final = 20


@dataclass(slots=True)
class Findings:
    """What there is to say about a ledger.

    Attributes:
        files: how many there are, of how many ``bytes``.
        lines: records.
        torn: fragments that are no records; ``repair`` sets them aside.
        unended: files whose last line lacks its end.
        twice: attempts that are there more than once; they were written by hand, or files were copied together.
        free: attempts that used tokens at a known price and cost nothing.
        total_cny: of everything that has a price.
        examples: the first few of these, in words.
    """

    files: int = 0
    bytes: int = 0
    lines: int = 0
    torn: int = 0
    unended: int = 0
    twice: int = 0
    free: int = 0
    total_cny: Decimal = Decimal()
    examples: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing to complain about."""
        return not (self.torn or self.unended or self.twice or self.free)


def verify(ledger: Path) -> Findings:
    """Reads everything.

    Raises:
        OSError: a file cannot be read.
    """
    findings, seen = Findings(), set[int]()
    examples: list[str] = []
    for path in segments(ledger):
        findings.files += 1
        findings.bytes += path.stat().st_size
        last = b"\n"
        for chunk in chunks(path):
            entries, broken = decoded(chunk.data, ENTRIES)
            last = chunk.data[-1:]
            findings.lines += len(entries)
            findings.torn += len(broken)
            examples += [f"{path.name}: torn before byte {chunk.end}: {piece[:60]!r}" for piece in broken]
            examples += _odd(entries, findings, seen)
            del examples[MAX_EXAMPLES:]
        findings.unended += last != b"\n"
    findings.examples = tuple(examples)
    return findings


def _odd(entries: list[Entry], findings: Findings, seen: set[int]) -> Iterator[str]:
    for entry in entries:
        # A hash of 64 bits instead of the text: of ten million attempts one in 400,000 ledgers has a false twin.
        identity = hash((entry.op, entry.attempt))
        if identity in seen:
            findings.twice += 1
            yield f"attempt {entry.attempt} of {entry.op} is there twice"
        seen.add(identity)
        if entry.cost is not None:
            findings.total_cny += entry.cost
            if entry.cost == 0 and (entry.prompt_tokens or entry.completion_tokens) and _has_price(entry):
                findings.free += 1
                yield f"attempt {entry.attempt} of {entry.op} used tokens and cost nothing"


def _has_price(entry: Entry) -> bool:
    """Whether its price is more than nothing: some models are free."""
    version = entry.price_version
    return version is not None and any(digit in version.rpartition(": ")[2].partition(" ")[0] for digit in "123456789")
