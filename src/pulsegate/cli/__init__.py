"""The command line: which commands there are, and what becomes of errors.

A command's module is imported only when it is the one that is run, so that ``pulsegate --help`` is quick. Exit codes
are those of monitoring plugins: 0 fine, 1 degraded, 2 unhealthy, 3 unknown or misconfigured, which wrong usage is too;
130 after Ctrl-C.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import Annotated

import typer

from pulsegate import __version__


class ExitCode(IntEnum):
    """What a command says by exiting."""

    OK = 0
    DEGRADED = 1
    UNHEALTHY = 2
    UNKNOWN = 3
    INTERRUPTED = 130


class OperatorError(Exception):
    """Something that the person at the terminal can put right: told in one line, without a traceback."""


@dataclass(frozen=True, slots=True)
class _Command:
    name: str
    module: str
    function: str
    help: str


_COMMANDS = (
    _Command(
        "serve", "pulsegate.cli.serve", "serve", "Watch the fleet of a configuration file, and serve what is known."
    ),
    _Command("probe", "pulsegate.cli.probe", "probe", "Take a token from one server and say what it amounts to."),
    _Command("check", "pulsegate.cli.check", "check", "Read a configuration file and name everything wrong with it."),
    _Command("status", "pulsegate.cli.status", "status", "Show the endpoints of a running Pulsegate."),
    _Command("ledger", "pulsegate.cli.ledger", "ledger", "Add up what was spent; verify and repair the books."),
    _Command("demo", "pulsegate.cli.demo", "demo", "Freeze one of two engines and watch the verdict change."),
    _Command("sim", "pulsegate.cli.sim", "sim", "Run a simulated engine whose faults can be switched on."),
)


def main() -> None:
    """Runs the command that the arguments name, and exits."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code."""
    try:
        code: object = _app(arguments)(list(arguments), prog_name="pulsegate", standalone_mode=False)
    except _usage_error() as exc:
        _show_usage_error(exc)
        return ExitCode.UNKNOWN
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return ExitCode.OK
    except OperatorError as exc:
        typer.echo(f"pulsegate: {exc}", err=True)
        return ExitCode.UNKNOWN
    return code if isinstance(code, int) else ExitCode.OK


def _app(arguments: Sequence[str]) -> typer.Typer:
    app = typer.Typer(
        name="pulsegate",
        help="Knows which inference server is truly alive, because it keeps taking a token from each one.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(_options)
    for command in _COMMANDS:
        implementation = _load(command) if command.name in arguments else _not_loaded
        if isinstance(implementation, typer.Typer):
            app.add_typer(implementation, name=command.name, help=command.help)
        else:
            app.command(command.name, help=command.help)(implementation)
    return app


def _load(command: _Command) -> Callable[..., object] | typer.Typer:
    """A command, or a group of commands."""
    function: Callable[..., object] | typer.Typer = getattr(import_module(command.module), command.function)
    return function


def _not_loaded() -> None:
    """Stands in the list of commands; never run."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pulsegate {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    del version


def _usage_error() -> type[Exception]:
    """The base of errors in usage, whether typer brings its own click or uses the installed one."""
    base = typer.BadParameter.__mro__[1]
    if not issubclass(base, Exception):
        raise TypeError("typer.BadParameter has no base that is an exception")
    return base


def _show_usage_error(error: Exception) -> None:
    from typer import rich_utils  # noqa: PLC0415 - slow to import, and seldom needed

    rich_utils.rich_format_error(error)  # pyright: ignore[reportArgumentType] - its type is private to typer


def _discard_output() -> None:
    """The reader of our output has gone (``| head``): nothing more may be written to it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
