"""What becomes of sharing probes with other gateways: log lines for people, series for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge
from structlog.typing import FilteringBoundLogger

from pulsegate.control.coordination import View


class FellowshipNews:
    """A ``FellowshipObserver``."""

    def __init__(self, log: FilteringBoundLogger, registry: CollectorRegistry) -> None:
        self._log = log
        self._up = Gauge(
            "pulsegate_coordination_up", "Whether this gateway takes part among the others.", registry=registry
        )
        self._members = Gauge(
            "pulsegate_coordination_members", "Gateways that share the probes, this one included.", registry=registry
        )
        self._epoch = Gauge(
            "pulsegate_coordination_epoch", "Grows with every change of the members.", registry=registry
        )
        self._owned = Gauge("pulsegate_owned_endpoints", "Endpoints that this gateway probes.", registry=registry)
        self._moved = Counter(
            "pulsegate_ownership_changes_total",
            "Endpoints that this gateway began (gained) or ended (lost) to probe.",
            ["change"],
            registry=registry,
        )
        self._misread = Counter(
            "pulsegate_coordination_unreadable_total",
            "Words of other gateways that could not be read, as of another version.",
            registry=registry,
        )
        self._told_misread = False

    def joined(self, view: View) -> None:
        """It takes part."""
        self._up.set(1)
        self._note(view)
        self._log.info("joined the other gateways", members=len(view.members), epoch=view.epoch)

    def members_changed(self, view: View) -> None:
        """Others came or went."""
        self._note(view)
        self._log.info("gateways changed", members=list(view.members), epoch=view.epoch)

    def parted(self, why: str) -> None:
        """It is alone."""
        self._up.set(0)
        self._log.warning("other gateways cannot be reached, everything is probed from here", why=why)

    def dealt(self, gained: int, lost: int, owned: int) -> None:
        """Endpoints moved."""
        self._owned.set(owned)
        self._moved.labels("gained").inc(gained)
        self._moved.labels("lost").inc(lost)

    def misunderstood(self, what: str) -> None:
        """Logged once: whoever speaks another version goes on doing so."""
        self._misread.inc()
        if not self._told_misread:
            self._told_misread = True
            self._log.error("another gateway speaks another version: its verdicts are not heard", problem=what)

    def _note(self, view: View) -> None:
        self._members.set(len(view.members))
        self._epoch.set(view.epoch)
