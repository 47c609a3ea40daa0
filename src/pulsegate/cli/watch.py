"""``pulsegate status --watch``: the table of endpoints, live, until q or Ctrl-C. Survives the server going away."""

import select
import sys
import termios
import tty
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from pulsegate.cli import ExitCode
from pulsegate.cli.admin_client import AdminClient, AdminError
from pulsegate.cli.status_table import Beat, Row, age, fitting, table
from pulsegate.control.ports import Clock
from pulsegate.control.ready_document import ReadyDocument
from pulsegate.status.shapes import Endpoint, EndpointDetail, Probe

EVERY_S: Final = 1.0
MANY: Final = 200  # from so many endpoints on the list is asked for less often: it is made by the prober's own process
MANY_EVERY_S: Final = 3.0
KEPT_BEATS: Final = 60
_FRAME_LINES: Final = 4  # summary, header, foot, and one spare so that nothing scrolls
_KEPT_SUCCESSES: Final = 8  # what the server keeps: of older ones only the failures are left


def watch(client: AdminClient, clock: Clock) -> int:
    """Shows the table until q or Ctrl-C."""
    view = View(client, clock)
    console = Console(highlight=False)
    try:
        with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                view.refresh(console.height - _FRAME_LINES)
                live.update(view.picture(console.width, console.height - _FRAME_LINES), refresh=True)
                if _pressed(EVERY_S if len(view.endpoints) < MANY else MANY_EVERY_S) in {"q", "Q", "\x1b"}:
                    return ExitCode.OK
    except KeyboardInterrupt:
        return ExitCode.OK  # the usual way to leave


@dataclass(slots=True)
class View:
    """What is known of the server, kept while it does not answer."""

    client: AdminClient
    clock: Clock
    endpoints: Sequence[Endpoint] = ()
    readiness: ReadyDocument | None = None
    histories: dict[str, "History"] = field(default_factory=dict[str, "History"])
    answered_at: float | None = None
    trouble: str = ""

    def refresh(self, rows: int) -> None:
        """Ask anew. Histories are asked for only where there is a new probe, and only for those that are shown."""
        try:
            self.endpoints, self.readiness = self.client.endpoints(), self.client.readiness()
            known = {endpoint.id for endpoint in self.endpoints}
            self.histories = {name: history for name, history in self.histories.items() if name in known}
            for endpoint in (self.endpoints[index] for index in fitting(self.endpoints, rows)):
                if self._is_stale(endpoint):
                    history = self.histories.setdefault(endpoint.id, History())
                    history.take(self.client.endpoint(endpoint.id))
            self.answered_at, self.trouble = self.clock.now(), ""
        except AdminError as exc:
            self.trouble = str(exc)

    def _is_stale(self, endpoint: Endpoint) -> bool:
        history = self.histories.get(endpoint.id)
        return history is None or (history.incarnation, history.probes) != (endpoint.incarnation, endpoint.probes)

    def picture(self, width: int, height: int) -> Group:
        """What to show in a terminal of that size."""
        rows = [Row(endpoint=endpoint, beats=self._beats(endpoint.id)) for endpoint in self.endpoints]
        readiness = None if self.trouble else self.readiness
        return Group(table(rows, readiness, now=self.clock.wall(), width=width, height=height), self._foot())

    def _beats(self, name: str) -> tuple[Beat, ...]:
        history = self.histories.get(name)
        return history.beats() if history else ()

    def _foot(self) -> Text:
        if not self.trouble:
            return Text(f"{self.client.url}  q leaves", style="dim")
        since = "" if self.answered_at is None else f" for {age(self.clock.now() - self.answered_at)}"
        stale = "; this is what was known then" if self.endpoints else ""
        return Text(f"{self.client.url} does not answer{since}: {self.trouble}{stale}  (q leaves)", style="bold red")


@dataclass(slots=True)
class History:
    """The last probes of one endpoint, pieced together from what the server keeps."""

    incarnation: int = 0
    probes: int = -1
    _seen: deque[tuple[str, Beat]] = field(default_factory=lambda: deque[tuple[str, Beat]](maxlen=KEPT_BEATS))

    def take(self, detail: EndpointDetail) -> None:
        """Add what is new in this answer."""
        self.incarnation, self.probes = detail.incarnation, detail.probes
        last = self._seen[-1][0] if self._seen else ""
        for probe in _unbroken(detail.last_probes):
            if probe.at > last:  # ISO 8601 in one zone and one precision sorts as text
                self._seen.append((probe.at, _beat(probe)))

    def beats(self) -> tuple[Beat, ...]:
        """Newest last."""
        return tuple(beat for _, beat in self._seen)


def _unbroken(probes: Sequence[Probe]) -> Sequence[Probe]:
    """Without old failures: the successes among them are forgotten, and a wall of failures would be a lie."""
    successes = [index for index, probe in enumerate(probes) if probe.ttft_ms is not None]
    return probes[successes[0] :] if len(successes) >= _KEPT_SUCCESSES else probes


def _beat(probe: Probe) -> Beat:
    brought_one = probe.outcome in {"token", "truncated"}
    return Beat(ttft_ms=probe.ttft_ms if brought_one else None, fast=probe.reason == "ok")


@contextmanager
def _keys() -> Generator[None]:
    """Keys come one by one and are not shown, until the end."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _pressed(within_s: float) -> str:
    ready, _, _ = select.select([sys.stdin], [], [], within_s)
    return sys.stdin.read(1) if ready else ""
