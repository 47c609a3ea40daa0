"""What the demo tells: one of two engines hangs behind an open port, the verdict changes, it heals and comes back."""

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from pulsegate.cli.demo_control import ControlProcess, Seen
from pulsegate.control.ports import Clock
from pulsegate.core.health import State
from pulsegate.embedded.engine import OwnEngine

_CALM_BEFORE_S = 4.0
_ALL_HEALTHY_WITHIN_S = 90.0
_VERDICT_WITHIN_S = 30.0
_FROZEN_FOR_S = 3.0
_RECOVERY_WITHIN_S = 120.0

_STYLES = {
    State.WARMING: "cyan",
    State.HEALTHY: "green",
    State.DEGRADED: "yellow",
    State.UNHEALTHY: "bold red",
    State.MISCONFIGURED: "magenta",
    State.DRAINING: "blue",
}


class StoryError(Exception):
    """What should have been seen was not seen in time."""


class Teller:
    """Writes one line per change, with the time since the zero that was set last."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._zero = clock.now()

    def start_clock(self) -> float:
        """Times count from now; returns it."""
        self._zero = self._clock.now()
        return self._zero

    def say(self, text: str) -> None:
        """A line of narration."""
        self._console.print(Text(text, style="bold"))

    def head(self) -> None:
        """The table's head."""
        self._console.print(
            Text(f"{'time':>9}  {'endpoint':<10} {'state':<13} {'reason':<14} {'weight':>6}", style="dim")
        )

    def row(self, seen: Seen, note: str = "") -> None:
        """One endpoint as it is seen."""
        line = Text(f"{seen.at - self._zero:>7.1f} s  {seen.id:<10} ")
        line.append(f"{seen.state:<13}", style=_STYLES[seen.state])
        line.append(f" {seen.reason:<14} {seen.weight:>6}")
        if note:
            line.append(f"  {note}", style="italic")
        self._console.print(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Who plays: the control process, the engine that will hang and the endpoint id that it has there."""

    control: ControlProcess
    engine: OwnEngine
    endpoint: str
    clock: Clock
    teller: Teller


def tell(stage: Stage) -> None:
    """Run the whole story.

    Raises:
        StoryError: a verdict did not come.
    """
    teller = stage.teller
    teller.head()
    _until_all_healthy(stage)
    teller.say(f"All healthy. In {_CALM_BEFORE_S:.0f} s {stage.endpoint} will hang.")
    _follow(stage, _CALM_BEFORE_S)

    how = stage.engine.freeze()
    frozen_at = teller.start_clock()
    teller.say(f"FROZEN: {how}.")
    verdict = _until_unhealthy(stage)
    health = stage.engine.health_status()
    still = f"while its /health still says {health}" if health is not None else "its /health hangs too"
    teller.say(f"Out of routing {verdict.at - frozen_at:.1f} s after the freeze, {still}.")
    _follow(stage, _FROZEN_FOR_S)

    stage.engine.thaw()
    teller.start_clock()
    teller.say(f"THAWED: {stage.endpoint} runs again. It comes back step by step.")
    _until_recovered(stage)
    teller.say(
        f"Healthy again. {stage.endpoint} gets its share of traffic back over the next half minute (slow start)."
    )


def _follow(stage: Stage, seconds: float) -> None:
    changes = iter(stage.control.watch(seconds))
    known = {seen.id: seen.verdict for seen in stage.control.look()}
    for seen in changes:
        if known.get(seen.id) != seen.verdict:
            known[seen.id] = seen.verdict
            stage.teller.row(seen)


def _until_all_healthy(stage: Stage) -> None:
    states: dict[str, State] = {}
    for seen in stage.control.watch(_ALL_HEALTHY_WITHIN_S):
        stage.teller.row(seen)
        states[seen.id] = seen.state
        if set(states.values()) == {State.HEALTHY}:
            return
    raise StoryError(f"not every endpoint became healthy within {_ALL_HEALTHY_WITHIN_S:.0f} s")


def _until_unhealthy(stage: Stage) -> Seen:
    for seen in stage.control.watch(_VERDICT_WITHIN_S):
        if seen.id != stage.endpoint:
            continue
        stage.teller.row(seen, _MEANING.get(seen.state, ""))
        if seen.state is State.UNHEALTHY:
            return seen
    raise StoryError(f"no verdict within {_VERDICT_WITHIN_S:.0f} s")


def _until_recovered(stage: Stage) -> None:
    through: set[State] = set()
    for seen in stage.control.watch(_RECOVERY_WITHIN_S):
        if seen.id != stage.endpoint:
            continue
        stage.teller.row(seen)
        if seen.state is State.HEALTHY:
            if State.DEGRADED not in through:
                raise StoryError("it became healthy without being degraded first")
            return
        through.add(seen.state)
    raise StoryError(f"not healthy again within {_RECOVERY_WITHIN_S:.0f} s")


_MEANING = {
    State.HEALTHY: "nobody has noticed yet",
    State.DEGRADED: "suspicion: most traffic goes elsewhere, a second probe confirms",
    State.UNHEALTHY: "verdict: no request goes there any more",
}
