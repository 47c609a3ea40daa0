"""``pulsegate sim``: simulated inference servers, for tests and for trying out one's alerting."""

import asyncio
import signal
import ssl
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from msgspec.json import encode

from pulsegate.cli import OperatorError
from pulsegate.sim import EngineConfig, Load, Script, ScriptError, SimServer, Spread, read_script
from pulsegate.sim.dialects import DIALECT_NAMES
from pulsegate.sim.durations import seconds


def _duration(text: str) -> float:
    try:
        return seconds(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc


def _script(path: Path | None) -> Script:
    if path is None:
        return Script()
    try:
        return read_script(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ScriptError) as exc:
        raise typer.BadParameter(f"{path}: {exc}") from exc


def _tls(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as exc:
        raise typer.BadParameter(f"{cert}: {exc}") from exc
    return context


def _names(engine: str) -> list[str]:
    names = [name.strip() for name in engine.split(",")]
    for name in names:
        if name not in DIALECT_NAMES:
            raise typer.BadParameter(f"no engine {name!r}; there are {', '.join(DIALECT_NAMES)}")
    return names


def sim(  # noqa: PLR0917 - options, typer passes them by name
    engine: Annotated[str, typer.Option(help="Dialect, or several with commas: the engines take turns.")] = "vllm",
    model: Annotated[str, typer.Option(help="The served model's name.")] = "sim",
    count: Annotated[int, typer.Option(min=1, help="How many engines.")] = 1,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 9000,
    ports: Annotated[bool, typer.Option("--ports", help="A port for each engine (the next numbers).")] = False,
    script: Annotated[Path | None, typer.Option(help="YAML or JSON file with what goes wrong.")] = None,
    ttft: Annotated[str, typer.Option(help="Time to the first token (median).")] = "20ms",
    ttft_sigma: Annotated[float, typer.Option(min=0, help="Log-normal spread of that; 0: fixed.")] = 0.0,
    itl: Annotated[str, typer.Option(help="Time between tokens.")] = "5ms",
    slots: Annotated[int, typer.Option(min=1, help="Generations at once.")] = 16,
    queue: Annotated[int | None, typer.Option(min=0, help="How many may wait; no limit by default.")] = None,
    ranks: Annotated[int, typer.Option(min=1, help="Data-parallel ranks.")] = 1,
    api_key: Annotated[str | None, typer.Option(help="Demand this key.")] = None,
    comment_every: Annotated[str | None, typer.Option(help="SSE comment after that much silence.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Speak TLS with this certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, if it is not in the same file.")] = None,
) -> None:
    """Serve simulated inference servers until Ctrl-C.

    Prints one JSON line with the addresses when ready. GET /_sim on the admin address shows what the engines see,
    POST /_sim/e0/freeze (thaw, kill, start, break, sleep, wake, refuse, deaf, reset) and PUT /_sim/e0/script switch
    their faults.
    """
    load = Load(
        slots=slots,
        queue=queue,
        ttft=Spread(median_s=_duration(ttft), sigma=ttft_sigma),
        itl_s=_duration(itl),
        comment_every_s=_duration(comment_every) if comment_every is not None else None,
    )
    faults, names = _script(script), _names(engine)
    configs = [
        EngineConfig(
            engine=names[n % len(names)], model=model, load=load, ranks=ranks, api_key=api_key, script=faults, seed=n
        )
        for n in range(count)
    ]
    server = SimServer(configs, host=host, port=port, ports=ports, tls=_tls(tls_cert, tls_key))
    try:
        uvloop.run(_serve(server))
    except OSError as exc:
        raise OperatorError(f"cannot listen on {host}:{port}: {exc.strerror or exc}") from exc


async def _serve(server: SimServer) -> None:
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    async with server:
        engines = [
            {"name": engine.name, "engine": engine.config.engine, "model": engine.config.model, "url": server.url(n)}
            for n, engine in enumerate(server.engines)
        ]
        typer.echo(encode({"admin": server.admin_url, "engines": engines}).decode())
        sys.stdout.flush()
        await over.wait()
