"""What ``pulsegate probe`` says: a line per probe for people, one JSON object for programs."""

from dataclasses import dataclass
from enum import StrEnum
from statistics import median

import msgspec
from rich.console import Console
from rich.text import Text

from pulsegate.config.units import show_seconds
from pulsegate.control.clock import wall_time_of
from pulsegate.control.ports import Clock
from pulsegate.control.trial import Trial
from pulsegate.core.fleet import EndpointSpec, ProbePolicy
from pulsegate.core.health import Reason, State
from pulsegate.core.outcome import OutcomeKind
from pulsegate.core.status import ProbeNote
from pulsegate.engines.discovery import Discovery
from pulsegate.status import shapes


class Verdict(StrEnum):
    """What a server is, in one word."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    MISCONFIGURED = "misconfigured"
    UNKNOWN = "unknown"


_VERDICTS = {
    State.HEALTHY: Verdict.HEALTHY,
    State.DEGRADED: Verdict.DEGRADED,
    State.UNHEALTHY: Verdict.UNHEALTHY,
    State.MISCONFIGURED: Verdict.MISCONFIGURED,
}
_STYLES = {
    Verdict.HEALTHY: "bold green",
    Verdict.DEGRADED: "bold yellow",
    Verdict.UNHEALTHY: "bold red",
    Verdict.MISCONFIGURED: "bold magenta",
    Verdict.UNKNOWN: "bold blue",
}
_TOKENS = frozenset({OutcomeKind.TOKEN, OutcomeKind.TRUNCATED})
_COLUMNS = ("dns", "connect", "tls", "send", "first byte", "first token", "end")
_NARROWEST = 8
_SHOWN_TEXT = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A trial and what was found out about the server. ``discovery`` None: it did not come so far."""

    spec: EndpointSpec
    policy: ProbePolicy
    trial: Trial
    discovery: Discovery | None

    @property
    def verdict(self) -> Verdict:
        """Probes that failed through our own fault say nothing; a server that says it is loading is not judged.

        One that says it is full is alive, and one that gives a token now and then is not well.
        """
        if all(note.outcome.kind is OutcomeKind.LOCAL for note in self.trial.notes):
            return Verdict.UNKNOWN
        starting = self.trial.status.state is State.WARMING and self.trial.status.reason is Reason.STARTING
        if starting and (self.ttfts_s or self.trial.notes[-1].outcome.kind is OutcomeKind.BUSY):
            return Verdict.DEGRADED
        return _VERDICTS.get(self.trial.status.state, Verdict.UNKNOWN)

    @property
    def reason(self) -> Reason:
        """Why. A trial's start-up deadline is short, so what the last probe met says more than that it is over."""
        if self.trial.status.reason in (Reason.STARTUP_DEADLINE, Reason.STARTING):
            return self.trial.notes[-1].outcome.reason
        return self.trial.status.reason

    @property
    def detail(self) -> str:
        """A sentence; empty if the reason says it all."""
        if self.trial.status.reason in (Reason.STARTUP_DEADLINE, Reason.STARTING) or not self.trial.status.detail:
            return self.trial.notes[-1].outcome.detail
        return self.trial.status.detail

    @property
    def ttfts_s(self) -> list[float]:
        """The times to the first token, of the probes that brought one."""
        return [
            note.outcome.ttft_s
            for note in self.trial.notes
            if note.outcome.kind in _TOKENS and note.outcome.ttft_s is not None
        ]


def as_json(finding: Finding, clock: Clock) -> dict[str, object]:
    """The stable shape of ``pulsegate probe --json``, described in docs/cli.md."""
    spec, policy, found = finding.spec, finding.policy, finding.discovery
    return {
        "url": spec.url,
        "verdict": finding.verdict.value,
        "reason": finding.reason.value,
        "detail": finding.detail,
        "ttft_ms": round(median(finding.ttfts_s) * 1000, 1) if finding.ttfts_s else None,
        "engine": None
        if found is None
        else {"name": found.engine.value, "model": found.model, "evidence": found.evidence},
        "thresholds_ms": {
            "healthy_ttft": round(policy.healthy_ttft_s * 1000, 1),
            "congested_ttft": round(policy.congested_ttft_s * 1000, 1),
            "timeout": round(policy.timeout_s * 1000, 1),
        },
        "probes": [
            msgspec.to_builtins(shapes.probe(note, lambda at: wall_time_of(clock, at))) for note in finding.trial.notes
        ],
    }


class Screen:
    """Writes to the terminal while a trial goes on."""

    def __init__(self, spec: EndpointSpec, policy: ProbePolicy) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._policy = policy
        self._rows = 0
        self._known: Discovery | None = None
        limits = (
            f"healthy up to {show_seconds(policy.healthy_ttft_s)}, "
            f"congested from {show_seconds(policy.congested_ttft_s)}, "
            f"timeout {show_seconds(policy.timeout_s)}"
        )
        self._console.print(Text.assemble((spec.url, "bold"), f"  ({limits})"))

    def probed(self, note: ProbeNote, found: Discovery | None) -> None:
        """One line per probe, after a line that says what answers there."""
        if found is not None and found != self._known:
            self._known = found
            model = f", serving {found.model}" if found.model else ""
            self._console.print(
                Text.assemble(("engine  ", "dim"), f"{found.engine}{model} ", (f"({found.evidence})", "dim"))
            )
        if self._rows == 0:
            titles = "".join(f"{title:>{_width(title)}}" for title in _COLUMNS)
            self._console.print(Text(f"  #  kind {titles}  ms", style="dim"))
        self._rows += 1
        phases = note.result.phases
        times = (
            phases.dns_s,
            phases.connect_s,
            phases.tls_s,
            phases.send_s,
            phases.first_byte_s,
            phases.first_token_s,
            phases.end_s,
        )
        cells = "".join(f"{_ms(time_s):>{_width(title)}}" for title, time_s in zip(_COLUMNS, times, strict=True))
        self._console.print(
            Text.assemble(f"{self._rows:>3}  {note.result.kind:<5}{cells}  ", _outcome(note, self._policy))
        )

    def concluded(self, finding: Finding) -> None:
        """The verdict."""
        verdict, notes = finding.verdict, finding.trial.notes
        said = f" ({finding.reason})" if verdict is not Verdict.HEALTHY else ""
        ttft = f", {_ms(median(finding.ttfts_s))} ms to the first (median)" if finding.ttfts_s else ""
        tokens = f"{len(finding.ttfts_s)} of {len(notes)} probes brought a token{ttft}"
        detail = f"; {finding.detail}" if finding.detail and verdict is not Verdict.HEALTHY else ""
        self._console.print(Text.assemble((verdict.upper() + said, _STYLES[verdict]), f": {tokens}{detail}"))


def _width(title: str) -> int:
    return max(len(title) + 2, _NARROWEST)


def _outcome(note: ProbeNote, policy: ProbePolicy) -> Text:
    kind, detail = note.outcome.kind, note.outcome.detail
    if kind in _TOKENS:
        fast = note.outcome.ttft_s is not None and note.outcome.ttft_s <= policy.healthy_ttft_s
        text = note.result.text if len(note.result.text) <= _SHOWN_TEXT else note.result.text[:_SHOWN_TEXT] + "..."
        return Text(f"{kind} {text!r}", style="green" if fast else "yellow")
    reason = "" if note.outcome.reason.value == kind.value else f" ({note.outcome.reason})"
    return Text(f"{kind}{reason}{': ' + detail if detail else ''}", style="red")


def _ms(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s * 1000:.1f}"
