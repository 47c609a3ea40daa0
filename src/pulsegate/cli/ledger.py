"""``pulsegate ledger summary|verify|repair``: what was spent, and whether the books are sound."""

from dataclasses import dataclass
from datetime import UTC, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
import typer
from rich.console import Console

from pulsegate.cli import ExitCode, OperatorError
from pulsegate.cli.costs_table import table
from pulsegate.control.clock import SystemClock
from pulsegate.core.spending import By, spending_of
from pulsegate.core.window import Window, period_of
from pulsegate.ledger.repairing import InUseError, repair
from pulsegate.ledger.segments import segments
from pulsegate.ledger.tailing import total_in
from pulsegate.ledger.verifying import verify
from pulsegate.status.costs import ENCODE, costs

DEFAULT_CONFIG = Path("pulsegate.yaml")

ledger = typer.Typer(name="ledger", no_args_is_help=True, help="What was spent, and whether the books are sound.")

File = Annotated[Path | None, typer.Argument(help="The ledger; without it the one that the configuration names.")]
ConfigFile = Annotated[Path, typer.Option("-c", "--config", help="The configuration file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Book:
    """A ledger, and what the configuration says about it."""

    path: Path
    window: Window = Window.TOTAL
    zone: tzinfo = UTC
    limit_cny: Decimal | None = None


@ledger.command("summary")
def summary(
    file: File = None,
    config: ConfigFile = DEFAULT_CONFIG,
    by: Annotated[By | None, typer.Option("--by", help="Only the sums by this.")] = None,
    window: Annotated[
        Window | None, typer.Option("--window", help="Of today, of this month, or of all time (total).")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Adds up what was spent in the current window of the cost limit, or in all time for a ledger named by its file."""
    book = _book(file, config)
    wanted = window or book.window
    period = period_of(wanted, book.zone, SystemClock().wall())
    try:
        total = total_in(book.path, book.zone, period)
    except OSError as exc:
        raise OperatorError(f"{exc.filename or book.path} cannot be read: {exc.strerror}") from None
    limit_cny = book.limit_cny if wanted is book.window else None
    told = costs(spending_of(total.groups.items()), wanted.value, period, limit_cny)
    if as_json:
        shown: object = told if by is None else getattr(told, f"by_{by.value}")
        typer.echo(ENCODE(shown).decode())
        return ExitCode.OK
    console = Console(highlight=False)
    console.print(table(told, by, width=console.width))
    if total.torn:
        console.print(f"{total.torn} torn lines are not in these sums: see pulsegate ledger verify", style="yellow")
    return ExitCode.OK


@ledger.command("verify")
def verify_(file: File = None, config: ConfigFile = DEFAULT_CONFIG, as_json: AsJson = False) -> int:
    """Exits 0 when every line is a record, every attempt is there once and no priced one is free; 1 when not."""
    book = _book(file, config)
    try:
        found = verify(book.path)
    except OSError as exc:
        raise OperatorError(f"{exc.filename or book.path} cannot be read: {exc.strerror}") from None
    if as_json:
        told = {"ok": found.is_sound, "ledger": str(book.path), **msgspec.to_builtins(found, builtin_types=(Decimal,))}
        typer.echo(ENCODE(told).decode())
    else:
        typer.echo(f"{found.lines:,} lines in {found.files} file(s), {found.total_cny:f} CNY")
        for number, what in (
            (found.torn, "torn lines (pulsegate ledger repair sets them aside)"),
            (found.unended, "files whose last line lacks its end"),
            (found.twice, "attempts that are there more than once"),
            (found.free, "attempts that used tokens at a known price and cost nothing"),
        ):
            if number:
                typer.echo(f"{number:,} {what}")
        for example in found.examples:
            typer.echo(f"  {example}")
        typer.echo("sound" if found.is_sound else "not sound")
    return ExitCode.OK if found.is_sound else ExitCode.DEGRADED


@ledger.command("repair")
def repair_(file: File = None, config: ConfigFile = DEFAULT_CONFIG, as_json: AsJson = False) -> int:
    """Sets torn lines aside, in a file beside the ledger. Nothing may write to the files that need it."""
    book = _book(file, config)
    try:
        done = repair(book.path, SystemClock().wall())
    except InUseError as exc:
        raise OperatorError(str(exc)) from None
    except OSError as exc:
        raise OperatorError(f"{exc.filename or book.path} cannot be repaired: {exc.strerror}") from None
    if as_json:
        typer.echo(msgspec.json.encode({"ledger": str(book.path), "repaired": done}).decode())
        return ExitCode.OK
    for one in done:
        typer.echo(f"{one.file}: {one.kept:,} lines kept, {one.recovered} recovered, {one.set_aside} set aside")
    typer.echo("repaired" if done else "nothing to repair")
    return ExitCode.OK


def _book(file: Path | None, config: Path) -> _Book:
    if file is not None:
        return _existing(_Book(path=file))
    from pulsegate.config import ConfigErrors, load, process_environment  # noqa: PLC0415 - half of all that is imported

    try:
        costs_ = load(config, process_environment()).costs
    except ConfigErrors as exc:
        raise OperatorError(f"the configuration is not right; name the ledger's file instead\n{exc}") from None
    if costs_.ledger is None:
        raise OperatorError(f"{config} names no ledger: set costs.ledger, or name the ledger's file")
    zone = ZoneInfo(costs_.time_zone)
    return _existing(_Book(path=Path(costs_.ledger), window=costs_.window, zone=zone, limit_cny=costs_.limit_cny))


def _existing(book: _Book) -> _Book:
    try:
        found = segments(book.path)
    except OSError as exc:
        raise OperatorError(f"{book.path} cannot be read: {exc.strerror}") from None
    if not found:
        raise OperatorError(f"{book.path} does not exist; nothing was booked yet")
    return book
