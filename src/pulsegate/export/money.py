"""What becomes of money and ledger: log lines for people, series for Prometheus."""

from prometheus_client import CollectorRegistry, Gauge
from structlog.typing import FilteringBoundLogger

from pulsegate.core.cost_gate import Gate, Standing

_LEVELS = {Gate.OPEN: 0, Gate.WARNING: 1, Gate.CLOSED: 2}


class MoneyNews:
    """A ``MoneyObserver``."""

    def __init__(self, log: FilteringBoundLogger, registry: CollectorRegistry) -> None:
        self._log = log
        self._gate = Gauge(
            "pulsegate_cost_gate",
            "How a cost limit stands: 0 open, 1 nearly reached, 2 spent. Scopes: all, provider, key.",
            ["scope", "name"],
            registry=registry,
        )
        self._ledger = Gauge("pulsegate_ledger_up", "Whether the ledger can be written and read.", registry=registry)
        self._ledger.set(1)

    def gate_moved(self, standing: Standing) -> None:
        """Once for each change."""
        purse = standing.purse
        self._gate.labels(purse.scope.value, purse.name).set(_LEVELS[standing.gate])
        say = self._log.info if standing.gate is Gate.OPEN else self._log.warning
        say(
            "cost limit",
            gate=standing.gate.value,
            scope=purse.scope.value,
            name=purse.name,
            spent_cny=f"{standing.spent_cny:f}",
            limit_cny=f"{standing.limit_cny:f}",
        )

    def ledger_troubled(self, problem: str | None) -> None:
        """Once for each change."""
        self._ledger.set(problem is None)
        if problem is None:
            self._log.info("the ledger is kept again")
        else:
            self._log.error("the ledger cannot be kept", problem=problem)
