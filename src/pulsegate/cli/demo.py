"""``pulsegate demo``: two engines on this machine, Pulsegate over them, and one of them hangs.

With ``--stay`` nothing hangs: it serves until Ctrl-C, for looking around. Either way everything that was started is
stopped at the end and nothing is left behind.
"""

import json
import signal
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from pulsegate.cli import ExitCode
from pulsegate.cli.demo_control import DEFAULT_ADMIN_PORT, DEFAULT_GATEWAY_PORT, ControlProcess, free_port
from pulsegate.cli.demo_story import Stage, StoryError, Teller, tell
from pulsegate.control.clock import SystemClock
from pulsegate.embedded.child import ChildError
from pulsegate.embedded.fleet import OwnFleet, start_engines

# A model of 135 M weights on one shared core gives its first token in 40 to 250 ms; the default, made for GPU servers,
# would let it flicker between healthy and slow. The deadline, which decides about life, stays the default.
_HEALTHY_TTFT: Final = "500ms"
_CONGESTED_TTFT: Final = "600ms"
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """Where ``pulsegate serve`` finds its configuration and is found."""

    config: Path
    gateway_port: int
    admin_port: int

    @property
    def gateway_url(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"

    @property
    def admin_url(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"


def demo(
    *,
    stay: Annotated[bool, typer.Option("--stay", help="Hang nothing; serve until Ctrl-C.")] = False,
    simulated: Annotated[bool, typer.Option("--simulated", help="Use simulated engines.")] = False,
) -> int:
    """Exits 0 when the verdicts came as they should, 2 when they did not."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        with _interrupting((signal.SIGINT, *_STOP_SIGNALS)), ExitStack() as stack:
            try:
                _run(stack, console, stay=stay, simulated=simulated)
            finally:
                _undisturbed()
    except KeyboardInterrupt:
        console.print("Everything has been stopped.")
        return ExitCode.OK if stay else ExitCode.INTERRUPTED
    except (ChildError, StoryError) as exc:
        console.print(Text(f"The demo failed: {exc}", style="bold red"))
        return ExitCode.UNHEALTHY
    return ExitCode.OK


def _run(stack: ExitStack, console: Console, *, stay: bool, simulated: bool) -> None:
    clock = SystemClock()
    console.print("Starting two engines ...")
    fleet = stack.enter_context(start_engines(2, simulated=simulated))
    console.print(Text(fleet.description))
    names = [f"engine-{number}" for number in range(1, len(fleet.engines) + 1)]
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pulsegate-demo-"))
    served = _Served(
        config=Path(folder) / "pulsegate.yaml",
        gateway_port=free_port(DEFAULT_GATEWAY_PORT),
        admin_port=free_port(DEFAULT_ADMIN_PORT),
    )
    served.config.write_text(_configuration(fleet, names, served))
    control = ControlProcess(served.config, served.admin_url, clock)
    stack.callback(control.stop)
    control.wait_ready()
    teller = Teller(console, clock)
    if stay:
        _say_where_to_look(console, served, fleet)
        teller.head()
        for seen in control.watch(None):
            teller.row(seen)
    else:
        tell(Stage(control=control, engine=fleet.engines[0], endpoint=names[0], clock=clock, teller=teller))


def _configuration(fleet: OwnFleet, names: Sequence[str], served: _Served) -> str:
    endpoints = "\n".join(
        f"      - {{id: {name}, url: {engine.url}, engine: {engine.dialect}}}"
        for name, engine in zip(names, fleet.engines, strict=True)
    )
    return f"""\
gateway: {{listen: 127.0.0.1:{served.gateway_port}}}
admin: {{listen: 127.0.0.1:{served.admin_port}}}
probe: {{healthy_ttft: {_HEALTHY_TTFT}, congested_ttft: {_CONGESTED_TTFT}}}
models:
  - name: {fleet.model}
    endpoints:
{endpoints}
"""


def _say_where_to_look(console: Console, served: _Served, fleet: OwnFleet) -> None:
    program, admin = _program(), served.admin_url
    question = json.dumps({"model": fleet.model, "prompt": "Once upon a time", "max_tokens": 24})
    console.print()
    for what, command in (
        ("a live table", f"{program} status --watch --admin {admin}"),
        ("ask the model", f"curl -s {served.gateway_url}/v1/completions -d '{question}'"),
        ("endpoints", f"curl -s {admin}/api/endpoints"),
        ("one verdict", f"curl -si {admin}/api/endpoints/engine-1/verdict"),
        ("changes as they happen", f"curl -sN {admin}/api/events"),
        ("readiness", f"curl -s {admin}/health/ready"),
        ("metrics", f"curl -s {admin}/metrics"),
        ("take a token yourself", f"{program} probe {fleet.engines[0].url}"),
        ("the configuration", str(served.config)),
    ):
        console.print(Text(f"  {what:<24}").append(command, style="cyan"))
    console.print("\nCtrl-C stops everything.\n")


def _program() -> str:
    """How the person at the terminal called us, so that the lines shown can be pasted."""
    called = Path(sys.argv[0])
    return f"{sys.executable} -m pulsegate" if called.name == "__main__.py" else str(called)


@contextmanager
def _interrupting(signals: Sequence[signal.Signals]) -> Generator[None]:
    """These signals do what Ctrl-C does."""

    def interrupt(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    old = {signum: signal.signal(signum, interrupt) for signum in signals}
    try:
        yield
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)


def _undisturbed() -> None:
    """From here on nothing interrupts the stopping of what was started; it takes a few seconds at most."""
    for signum in (signal.SIGINT, *_STOP_SIGNALS):
        signal.signal(signum, signal.SIG_IGN)
