"""``pulsegate serve``: watch the fleet of a configuration file."""

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pulsegate import app
from pulsegate.cli import OperatorError
from pulsegate.config import ConfigErrors, load, process_environment

DEFAULT_FILE = Path("pulsegate.yaml")


class LogChoice(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


def serve(
    config: Annotated[Path, typer.Option("-c", "--config", help="The configuration file.")] = DEFAULT_FILE,
    log: Annotated[
        LogChoice, typer.Option("--log", help="Log lines: json, console, or auto (console on a terminal).")
    ] = LogChoice.AUTO,
) -> int:
    """Exits 0 after SIGTERM or Ctrl-C, 3 when it cannot start."""
    read = partial(load, config, process_environment())
    try:
        return app.serve(read(), reload=read, log_format=_format(log))
    except ConfigErrors as exc:
        raise OperatorError(f"the configuration is not right\n{exc}\nTry: pulsegate check {config}") from None
    except app.ListenError as exc:
        raise OperatorError(str(exc)) from None


def _format(choice: LogChoice) -> app.LogFormat:
    if choice is LogChoice.AUTO:
        return app.LogFormat.CONSOLE if sys.stdout.isatty() else app.LogFormat.JSON
    return app.LogFormat(choice.value)
