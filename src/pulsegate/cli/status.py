"""``pulsegate status``: the endpoints of a running Pulsegate, once or live."""

import json
import sys
from typing import Annotated

import msgspec
import typer
from pydantic_core import PydanticCustomError
from rich.console import Console

from pulsegate.cli import ExitCode, OperatorError
from pulsegate.cli.admin_client import AdminClient, AdminError
from pulsegate.cli.status_table import Row, gateways, table
from pulsegate.cli.watch import watch
from pulsegate.control.clock import SystemClock

DEFAULT_ADMIN = "http://127.0.0.1:8081"
_EXIT_CODES = {"ready": ExitCode.OK, "degraded": ExitCode.DEGRADED, "not_ready": ExitCode.UNHEALTHY}


def status(
    *,
    admin: Annotated[str, typer.Option(help="Where its admin API is.")] = DEFAULT_ADMIN,
    is_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    live: Annotated[bool, typer.Option("--watch", help="Stay and show changes; q leaves.")] = False,
) -> int:
    """Exits 0 when it is ready, 1 when it is degraded, 2 when it is not ready, 3 when it cannot be asked."""
    if live and is_json:
        raise OperatorError("--watch and --json do not go together; GET /api/events is a stream of JSON")
    try:
        client = AdminClient(admin)
    except PydanticCustomError as exc:
        raise OperatorError(f"--admin: `{admin}` {exc}") from None
    if live:
        if not (sys.stdout.isatty() and sys.stdin.isatty()):
            raise OperatorError("--watch needs a terminal")
        return watch(client, SystemClock())
    try:
        return _once(client, is_json=is_json)
    except AdminError as exc:
        raise OperatorError(
            f"{client.url} cannot be asked: {exc}. Is `pulsegate serve` running? --admin URL names another address."
        ) from None


def _once(client: AdminClient, *, is_json: bool) -> int:
    readiness, endpoints, coordination = client.readiness(), client.endpoints(), client.coordination()
    if is_json:
        shown = {"admin": client.url, "readiness": readiness, "endpoints": endpoints, "coordination": coordination}
        typer.echo(json.dumps(msgspec.to_builtins(shown)))
    else:
        console = Console(highlight=False)
        rows = [Row(endpoint=endpoint) for endpoint in endpoints]
        console.print(table(rows, readiness, now=SystemClock().wall(), width=console.width))
        if coordination is not None and coordination.member is not None:
            console.print(gateways(coordination, endpoints))
    return _EXIT_CODES.get(readiness.status, ExitCode.UNKNOWN)
