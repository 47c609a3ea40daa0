"""``pulsegate check FILE``: everything that is wrong with a configuration, or a summary of what it says."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pulsegate.assembly import encoded_setup
from pulsegate.cli import ExitCode
from pulsegate.config import Config, ConfigErrors, Problem, load, process_environment
from pulsegate.config.services import AdminSection, GatewaySection


def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    resolve: Annotated[
        bool, typer.Option("--resolve", help="Look up the host names too: one that is not found is an error.")
    ] = False,
) -> int:
    """Exits 0 when the file is right, 3 when it is not."""
    try:
        config = load(file, process_environment(), _unresolved if resolve else None)
        _look_into_files(config, file)
    except ConfigErrors as exc:
        _report_problems(exc.problems, file, as_json=as_json)
        return ExitCode.UNKNOWN
    notes = list(_notes(config))
    if as_json:
        typer.echo(json.dumps({"ok": True, "file": str(file), **_summary(config), "notes": notes, "problems": []}))
    else:
        _print_summary(config, notes)
    return ExitCode.OK


def _look_into_files(config: Config, file: Path) -> None:
    """Read keys, certificates and authorities as the workers would.

    Raises:
        ConfigErrors: one of them is of no use.
    """
    try:
        encoded_setup(config, access_log=None, priced_at=0.0)  # thrown away
    except ValueError as exc:
        fix = "put that file right, or name another one"
        raise ConfigErrors([Problem(file=str(file), line=0, column=0, key="", message=str(exc), fix=fix)]) from exc


def _report_problems(problems: tuple[Problem, ...], file: Path, *, as_json: bool) -> None:
    if as_json:
        found = [problem.as_dict() for problem in problems]
        typer.echo(json.dumps({"ok": False, "file": str(file), "notes": [], "problems": found}))
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    for problem in problems:
        console.print(_shown(problem))
    console.print(Text(f"{len(problems)} problem{'s' if len(problems) > 1 else ''} in {file}", style="bold red"))


def _shown(problem: Problem) -> Text:
    text = Text()
    text.append(problem.place, style="bold").append(": ")
    if problem.key:
        text.append(problem.key, style="cyan").append(": ")
    text.append(problem.message).append("\n")
    if problem.excerpt is not None:
        number = f"{problem.line:>6} | "
        text.append(number, style="dim").append(problem.excerpt.replace("\t", " ")).append("\n")
        indent = len(number) + cell_len(problem.excerpt[: problem.caret - 1])
        text.append(" " * indent + "^", style="bold red").append("\n")
    if problem.fix:
        text.append("       fix: ", style="green").append(problem.fix).append("\n")
    return text


def _summary(config: Config) -> dict[str, object]:
    fleet = config.fleet()
    return {
        "pools": [
            {"name": pool.name, "endpoints": [endpoint.id for endpoint in pool.endpoints]} for pool in fleet.pools
        ],
        "routes": [{"name": route.name, "tiers": list(route.tiers)} for route in fleet.routes],
        "providers": [provider.name for provider in config.providers],
    }


def _notes(config: Config) -> Iterator[str]:
    """What is allowed and still worth knowing."""
    listeners: tuple[tuple[str, GatewaySection | AdminSection], ...] = (
        ("gateway", config.gateway),
        ("admin", config.admin),
    )
    for name, section in listeners:
        if not section.listen.is_loopback:
            who = "and asks for no key" if name == "admin" or config.gateway.keys_file is None else "and asks for keys"
            yield f"{name}.listen: {section.listen} can be reached from other machines, {who}"
    if not config.models:
        yield "models: nothing is configured, so there is nothing to watch and nowhere to route to"
    for provider in config.providers:
        if not provider.configured:
            yield f"{provider.name}: it has no key, so it is not asked"
    for model in config.models:
        for endpoint in model.endpoints:
            if endpoint.tls is not None and not endpoint.tls.verify:
                yield f"{endpoint.url.text}: its certificate is not verified"
            if endpoint.api_key is not None and not endpoint.url.is_tls and endpoint.url.socket_path is None:
                yield f"{endpoint.url.text}: the API key travels unencrypted"


def _unresolved(host: str) -> str | None:
    """Why this name is not found here; None if it is."""
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as exc:
        return exc.strerror or str(exc)
    except UnicodeError:
        return "it is no host name"
    return None


def _print_summary(config: Config, notes: list[str]) -> None:
    fleet = config.fleet()
    endpoints = sum(len(pool.endpoints) for pool in fleet.pools)
    console = Console(highlight=False, soft_wrap=True)
    counts = (
        f"{_count(len(fleet.pools), 'pool')}, {_count(endpoints, 'endpoint')}, {_count(len(fleet.routes), 'route')}"
    )
    if config.providers:
        counts += f", {_count(len(config.providers), 'provider')}"
    console.print(Text.assemble((f"{config.path} is right", "bold green"), f": {counts}"))
    for route in fleet.routes:
        console.print(Text(f"  {route.name}: {' -> '.join(route.tiers)}"))
    for pool in fleet.pools:
        console.print(Text(f"  pool {pool.name}: {', '.join(endpoint.id for endpoint in pool.endpoints)}", style="dim"))
    for note in notes:
        console.print(Text.assemble(("note: ", "yellow"), note))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
