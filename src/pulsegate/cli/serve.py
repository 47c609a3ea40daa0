"""``pulsegate serve``: watch the fleet of a configuration file."""

import sys
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pulsegate import app
from pulsegate.cli import OperatorError
from pulsegate.config import Config, ConfigErrors, load, process_environment

DEFAULT_FILE = Path("pulsegate.yaml")


class LogChoice(StrEnum):
    """How log lines look."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


def serve(
    config: Annotated[Path, typer.Option("-c", "--config", help="The configuration file.")] = DEFAULT_FILE,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=256, help="Worker processes; overrides gateway.workers.")
    ] = None,
    access_log: Annotated[
        str | None, typer.Option("--access-log", help="A file for one line per request; - for standard output.")
    ] = None,
    log: Annotated[
        LogChoice, typer.Option("--log", help="Log lines: json, console, or auto (console on a terminal).")
    ] = LogChoice.AUTO,
) -> int:
    """Exits 0 after SIGTERM or Ctrl-C, 3 when it cannot start."""
    read = partial(_read, config, workers)
    try:
        return app.serve(read(), reload=read, log_format=_format(log), access_log=access_log)
    except ConfigErrors as exc:
        raise OperatorError(f"the configuration is not right\n{exc}\nTry: pulsegate check {config}") from None
    except (app.ListenError, ValueError) as exc:
        raise OperatorError(str(exc)) from None


def _read(path: Path, workers: int | None) -> Config:
    config = load(path, process_environment())
    if workers is None:
        return config
    return replace(config, gateway=config.gateway.model_copy(update={"workers": workers}))


def _format(choice: LogChoice) -> app.LogFormat:
    if choice is LogChoice.AUTO:
        return app.LogFormat.CONSOLE if sys.stdout.isatty() else app.LogFormat.JSON
    return app.LogFormat(choice.value)
