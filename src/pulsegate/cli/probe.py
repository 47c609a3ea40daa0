"""``pulsegate probe URL``: take tokens from one server until it is clear what it is, and say so.

The server is judged by the same prober and board as under ``serve``. The exit code is the monitoring-plugin convention:
0 healthy, 1 degraded, 2 unhealthy, 3 unknown or misconfigured.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Annotated

import typer
from pydantic_core import PydanticCustomError

from pulsegate.cli import ExitCode, OperatorError
from pulsegate.cli.probe_discovery import look_around
from pulsegate.cli.probe_output import Finding, Screen, Verdict, as_json
from pulsegate.config import ConfigErrors, Problem, parse, process_environment
from pulsegate.config.units import seconds, show_seconds
from pulsegate.control.clock import SystemClock
from pulsegate.control.trial import hold_trial, trial_policy
from pulsegate.core.fleet import EndpointSpec, EngineName, ProbePolicy
from pulsegate.core.status import ProbeNote
from pulsegate.engines.client import EngineClient
from pulsegate.engines.discovery import Discovery
from pulsegate.engines.factory import open_engine

_ENGINES = ", ".join(EngineName)
_POOL = "models[0]"
_OPTIONS = MappingProxyType(
    {
        f"{_POOL}.endpoints[0].url": "URL",
        f"{_POOL}.endpoints[0].api_key": "--api-key-env",
        f"{_POOL}.endpoints[0].headers": "--header",
        f"{_POOL}.endpoints[0].tls": "--ca-file",
        f"{_POOL}.endpoints[0].tls.ca_file": "--ca-file",
        f"{_POOL}.endpoints[0].tls.server_name": "--server-name",
    }
)
_EXIT_CODES: Mapping[Verdict, ExitCode] = MappingProxyType(
    {
        Verdict.HEALTHY: ExitCode.OK,
        Verdict.DEGRADED: ExitCode.DEGRADED,
        Verdict.UNHEALTHY: ExitCode.UNHEALTHY,
        Verdict.MISCONFIGURED: ExitCode.UNKNOWN,
        Verdict.UNKNOWN: ExitCode.UNKNOWN,
    }
)


def probe(
    url: Annotated[str, typer.Argument(help="http://host:port, https://..., or unix:/path/to.sock")],
    *,
    model: Annotated[str | None, typer.Option(help="The model to ask for; else the server is asked.")] = None,
    engine: Annotated[str, typer.Option(help=f"The dialect to speak: {_ENGINES}.")] = EngineName.AUTO.value,
    is_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
    api_key_env: Annotated[str | None, typer.Option(help="The environment variable that holds the API key.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="A further header, 'Name: value'; repeatable.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Certificates to trust instead of the system's.")] = None,
    server_name: Annotated[str | None, typer.Option(help="The name in the server's certificate.")] = None,
    insecure: Annotated[bool, typer.Option("--insecure", help="Trust any certificate.")] = False,
    count: Annotated[int | None, typer.Option(min=1, help="Judge by this many probes, not three.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Healthy only after a longer probe too.")] = False,
    healthy_ttft: Annotated[str, typer.Option(help="A first token up to here is a success.")] = "200ms",
    congested_ttft: Annotated[str | None, typer.Option(help="No token by here: degraded at once.")] = None,
    timeout: Annotated[str, typer.Option(help="No token by here: the probe has failed.")] = "800ms",
    expect: Annotated[str | None, typer.Option(help="A regular expression that the answer matches.")] = None,
) -> int:
    """Takes a token from one server and says what it amounts to."""
    tls = {
        "ca_file": None if ca_file is None else str(ca_file),
        "server_name": server_name,
        "verify": False if insecure else None,
    }
    endpoint = {
        "url": url,
        "engine": engine,
        "model": model,
        "api_key": None if api_key_env is None else f"${{{api_key_env}}}",
        "headers": _headers(header or []),
        "tls": _given(tls),
    }
    thresholds = {
        "healthy_ttft": healthy_ttft,
        "congested_ttft": congested_ttft,
        "timeout": timeout,
        "expect": expect,
    }
    spec, policy = _checked(_given(endpoint), _given(thresholds))
    return _run(spec, trial_policy(policy, deep=deep, probes=count), count, is_json=is_json)


def _checked(endpoint: dict[str, object], thresholds: dict[str, object]) -> tuple[EndpointSpec, ProbePolicy]:
    """What was given, by the rules of the configuration file: what is wrong is said in the same words."""
    thresholds.setdefault("congested_ttft", _between(thresholds["healthy_ttft"], thresholds["timeout"]))
    wide_apart = {"interval": "1h", "startup_deadline": "24h"}  # a trial has intervals of its own
    settings = {
        "probe": thresholds | wide_apart,
        "models": [{"name": "trial", "endpoints": [endpoint]}],
    }
    try:
        config = parse(json.dumps(settings).encode(), Path.cwd() / "command line", process_environment())
    except ConfigErrors as exc:
        raise OperatorError("; ".join(_told(problem) for problem in exc.problems)) from None
    (pool,) = config.fleet().pools
    return pool.endpoints[0], pool.probe


def _told(problem: Problem) -> str:
    key = problem.key.removeprefix("probe.")
    option = _OPTIONS.get(problem.key) or f"--{key.rpartition('.')[2].replace('_', '-')}"
    return f"{option}: {problem.message}" + (f" ({problem.fix})" if problem.fix else "")


def _between(healthy: object, timeout: object) -> str:
    """The usual 300 ms, moved between the other two thresholds if need be."""
    try:
        low_s, high_s = seconds(healthy), seconds(timeout)
    except PydanticCustomError:
        return show_seconds(ProbePolicy().congested_ttft_s)
    return show_seconds(max(low_s, min(ProbePolicy().congested_ttft_s, (low_s + high_s) / 2)))


def _headers(given: list[str]) -> dict[str, str] | None:
    headers: dict[str, str] = {}
    for text in given:
        name, colon, value = text.partition(":")
        if not colon:
            raise OperatorError("--header: write it as 'Name: value'")
        if name in headers:
            raise OperatorError(f"--header: {name} is given twice")
        headers[name] = value.strip().replace("${", "$${")
    return headers or None


def _given(settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if value is not None and value != {}}


def _run(spec: EndpointSpec, policy: ProbePolicy, count: int | None, *, is_json: bool) -> int:
    screen = None if is_json else Screen(spec, policy)
    finding = asyncio.run(_find(spec, policy, count, screen))  # not on uvloop, whose clock counts in milliseconds
    if screen is None:
        typer.echo(json.dumps(as_json(finding, SystemClock())))
    else:
        screen.concluded(finding)
    return _EXIT_CODES[finding.verdict]


async def _find(spec: EndpointSpec, policy: ProbePolicy, count: int | None, screen: Screen | None) -> Finding:
    spec, discovery = await look_around(spec)
    memory = _Memory(discovery=discovery)

    def seen(note: ProbeNote) -> None:
        memory.look()
        if screen is not None:
            screen.probed(note, memory.discovery)

    trial = await hold_trial(
        spec,
        policy,
        probes=count,
        open_engine=memory.open,
        clock=SystemClock(),
        rng=Random(),  # noqa: S311 - nonces, not secrets
        seen=seen,
    )
    return Finding(spec=spec, policy=policy, trial=trial, discovery=memory.discovery)


@dataclass(slots=True)
class _Memory:
    """Keeps what was found out about the server: an engine forgets it when it sees the server gone."""

    client: EngineClient | None = None
    discovery: Discovery | None = None

    def open(self, spec: EndpointSpec) -> EngineClient:
        """Implements the port ``EngineFactory``."""
        self.client = open_engine(spec)
        return self.client

    def look(self) -> None:
        """Take over what the engine knows, unless more is known already."""
        if self.discovery is None and self.client is not None:
            self.discovery = self.client.discovery
