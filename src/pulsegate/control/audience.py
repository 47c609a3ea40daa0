"""Who is told what: the data plane first, then everybody who watches the board or the prober."""

from collections.abc import Sequence
from dataclasses import dataclass

from pulsegate.control.ports import CrashObserver, Observer, ProbeObserver, Publisher
from pulsegate.control.reports import ProbeReport
from pulsegate.core.events import Effect
from pulsegate.core.fleet import EndpointSpec, Fleet
from pulsegate.core.probe import Counters
from pulsegate.core.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """A ``Publisher`` and observers of each kind, told one after the other."""

    publisher: Publisher
    crashes: CrashObserver
    observers: Sequence[Observer] = ()
    probe_observers: Sequence[ProbeObserver] = ()

    def offer(self, snapshot: Snapshot) -> None:
        """There is a new routing table."""
        self.publisher.offer(snapshot)

    def saw(self, effect: Effect) -> None:
        """The board wants or says something."""
        for observer in self.observers:
            observer.saw(effect)

    def watching(self, fleet: Fleet) -> None:
        """This is probed from now on."""
        for observer in self.probe_observers:
            observer.watching(fleet)

    def probed(self, report: ProbeReport) -> None:
        """A probe is over."""
        for observer in self.probe_observers:
            observer.probed(report)

    def counted(self, spec: EndpointSpec, counters: Counters | None) -> None:
        """Counters were read."""
        for observer in self.probe_observers:
            observer.counted(spec, counters)

    def crashed(self, what: str, exc: BaseException) -> None:
        """We made a mistake."""
        self.crashes.crashed(what, exc)
