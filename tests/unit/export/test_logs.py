import io
import json

import pytest

from pulsegate.core.events import Alerted, AlertKind, SnapshotChanged
from pulsegate.core.health import State
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.export.logs import LogFormat, LogObserver, open_log
from support.samples import went
from support.virtual_time import VirtualClock, VirtualTimeLoop


@pytest.fixture
def loop():
    loop = VirtualTimeLoop()
    yield loop
    loop.close()


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def observer(loop: VirtualTimeLoop, out: io.StringIO) -> LogObserver:
    clock = VirtualClock(loop)
    return LogObserver(open_log(clock, LogFormat.JSON, out), clock)


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_transition_is_one_line_with_fields_stamped_when_it_happened(
    observer: LogObserver, loop: VirtualTimeLoop, out: io.StringIO
) -> None:
    loop.stall(2.0)
    observer.saw(went(at=0.5))
    assert lines(out) == [
        {
            "event": "endpoint changed",
            "level": "error",
            "at": "2025-06-15T15:06:40.500+00:00",
            "endpoint": "e1",
            "pool": "m",
            "incarnation": 1,
            "old": "healthy",
            "new": "unhealthy",
            "old_reason": "ok",
            "reason": "hung",
            "detail": "no token in 800 ms",
        }
    ]


@pytest.mark.parametrize(
    ("new", "level"), [(State.HEALTHY, "info"), (State.DEGRADED, "warning"), (State.MISCONFIGURED, "error")]
)
def test_the_level_follows_the_state(observer: LogObserver, out: io.StringIO, new: State, level: str) -> None:
    observer.saw(went(new=new))
    assert lines(out)[0]["level"] == level


@pytest.mark.parametrize("kind", list(AlertKind))
def test_every_kind_of_alert_is_one_line(observer: LogObserver, out: io.StringIO, kind: AlertKind) -> None:
    observer.saw(Alerted(at=0.0, kind=kind, pool=PoolName("m"), endpoint=EndpointId("e1"), detail="why"))
    (line,) = lines(out)
    assert (line["event"], line["kind"], line["endpoint"], line["detail"]) == ("alert", kind.value, "e1", "why")


def test_what_is_not_an_edge_is_not_logged(observer: LogObserver, out: io.StringIO) -> None:
    observer.saw(SnapshotChanged())
    assert out.getvalue() == ""


def test_a_crash_comes_with_its_stack(observer: LogObserver, out: io.StringIO) -> None:
    try:
        _ = 1 // 0
    except ZeroDivisionError as exc:
        observer.crashed("probe of e1", exc)
    (line,) = lines(out)
    assert line["what"] == "probe of e1"
    assert "test_logs.py" in str(line["exception"])
    assert "ZeroDivisionError: " in str(line["exception"])


def test_people_get_lines_without_colour_codes_when_it_is_no_terminal(loop: VirtualTimeLoop, out: io.StringIO) -> None:
    open_log(VirtualClock(loop), LogFormat.CONSOLE, out).warning("endpoint changed", endpoint="e1")
    assert "endpoint changed" in out.getvalue()
    assert "endpoint=e1" in out.getvalue()
    assert "\x1b" not in out.getvalue()
