"""What becomes of the data plane's processes: log lines for people, their figures for Prometheus."""

from structlog.typing import FilteringBoundLogger

from pulsegate.core.figures import WorkerFigures
from pulsegate.export.traffic import TrafficSeries


class WorkerNews:
    """A ``WorkforceObserver``."""

    def __init__(self, log: FilteringBoundLogger, series: TrafficSeries) -> None:
        self._log = log
        self._series = series

    def worker_ready(self, number: int) -> None:
        """It serves."""
        self._log.info("worker serves", worker=number)

    def worker_refused(self, number: int, problem: str) -> None:
        """It keeps what it had, if it had something."""
        self._log.error("worker refused the configuration", worker=number, problem=problem)

    def worker_died(self, number: int, status: int, lived_s: float) -> None:
        """Its connections are lost; the listening socket is not."""
        self._series.died()
        self._log.error("worker died and is started again", worker=number, status=status, lived_s=round(lived_s, 3))

    def worker_not_started(self, number: int, problem: str) -> None:
        """The machine lacks something."""
        self._log.error("worker cannot be started, tried again soon", worker=number, problem=problem)

    def worker_gone(self, number: int) -> None:
        """Its totals begin anew."""
        self._series.gone(number)

    def worker_counted(self, number: int, figures: WorkerFigures) -> None:
        """All its counters."""
        self._series.counted(number, figures)
