"""Writes what happens to a log: JSON lines for machines or coloured lines for people.

Only edges are logged, once each, with fields. Specs (which hold keys and headers) never reach a log line.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor

from pulsegate.control.clock import iso8601, wall_time_of
from pulsegate.control.ports import Clock
from pulsegate.core.events import Alerted, AlertKind, Effect, Transitioned
from pulsegate.core.health import State

_TRANSITION_LEVEL = {
    State.WARMING: "info",
    State.HEALTHY: "info",
    State.DEGRADED: "warning",
    State.UNHEALTHY: "error",
    State.MISCONFIGURED: "error",
    State.DRAINING: "info",
}
_ALERT_LEVEL = {
    AlertKind.EJECTION_DETECTED: "warning",
    AlertKind.EJECTION_ENFORCED: "error",
    AlertKind.READMITTED: "info",
    AlertKind.POOL_DOWN: "critical",
    AlertKind.POOL_BACK: "info",
    AlertKind.NETWORK_SUSPECT: "error",
    AlertKind.NETWORK_CLEAR: "info",
    AlertKind.PROMPT_DROPPED: "info",
}


class LogFormat(StrEnum):
    """How a line looks."""

    JSON = "json"
    CONSOLE = "console"


def open_log(clock: Clock, log_format: LogFormat, stream: TextIO) -> FilteringBoundLogger:
    """A logger that writes to ``stream``; no global state is touched."""
    renderer: Processor
    if log_format is LogFormat.JSON:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty())
    logger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            _stamp(lambda: iso8601(clock.wall())),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        context_class=dict,
    )
    return cast("FilteringBoundLogger", logger)  # wrap_logger is typed as Any; this is its documented result


class LogObserver:
    """An ``Observer`` and a ``CrashObserver`` that writes lines."""

    def __init__(self, log: FilteringBoundLogger, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    def saw(self, effect: Effect) -> None:
        """Write one line if this is an edge."""
        match effect:
            case Transitioned():
                self._transition(effect)
            case Alerted():
                self._alert(effect)
            case _:
                pass

    def crashed(self, what: str, exc: BaseException) -> None:
        """Write down our own mistake, with its stack."""
        self._log.error("this is a bug in Pulsegate, please report it", what=what, exc_info=exc)

    def _transition(self, effect: Transitioned) -> None:
        write = self._writer(_TRANSITION_LEVEL[effect.new])
        write(
            "endpoint changed",
            endpoint=effect.endpoint,
            pool=effect.pool,
            incarnation=effect.incarnation,
            old=effect.old.value,
            new=effect.new.value,
            old_reason=effect.old_reason.value,
            reason=effect.reason.value,
            detail=effect.detail,
            at=iso8601(wall_time_of(self._clock, effect.at)),
        )

    def _alert(self, effect: Alerted) -> None:
        write = self._writer(_ALERT_LEVEL.get(effect.kind, "warning"))
        write(
            "alert",
            kind=effect.kind.value,
            pool=effect.pool,
            endpoint=effect.endpoint,
            detail=effect.detail,
            at=iso8601(wall_time_of(self._clock, effect.at)),
        )

    def _writer(self, level: str) -> Callable[..., object]:
        match level:
            case "critical":
                return self._log.critical
            case "error":
                return self._log.error
            case "warning":
                return self._log.warning
            case _:
                return self._log.info


def _stamp(now_iso: Callable[[], str]) -> Processor:
    def add_time(_logger: object, _method: str, event: EventDict) -> EventDict:
        event.setdefault("at", now_iso())
        return event

    return add_time
