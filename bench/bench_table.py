"""The figures and the targets of ``bench/gateway.py`` as text that can be pasted into a page."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One promise. ``met`` is None where this machine cannot show it; ``note`` says why."""

    what: str
    wanted: str
    found: str
    met: bool | None
    note: str = ""


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A Markdown table with columns in line; the first one is text, the others are figures."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "| " + " | ".join([first, *others]) + " |"

    print(line(head))
    print("|" + "|".join("-" * (width + 1) + (":" if column else "-") for column, width in enumerate(widths)) + "|")
    for row in rows:
        print(line(row))


def print_targets(targets: Sequence[Target]) -> bool:
    """Whether none is missed."""
    words = {True: "met", False: "MISSED", None: "not shown"}
    print_table(
        ("target", "wanted", "found", ""),
        [(each.what, each.wanted, each.found, f"{words[each.met]} {each.note}".strip()) for each in targets],
    )
    return all(each.met is not False for each in targets)
