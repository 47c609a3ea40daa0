"""``pulsegate status`` against an admin API on a real socket."""
# ruff: noqa: RUF001 - the cross for a probe without a token is one on purpose

import io
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest
from rich.console import Console

from pulsegate.cli import run
from pulsegate.cli.admin_client import AdminClient, AdminError
from pulsegate.cli.status_table import Beat, Row, age, bars, fitting, table
from pulsegate.cli.watch import View
from pulsegate.control.ready_document import ReadyDocument
from pulsegate.status.shapes import Endpoint, EndpointDetail, Probe

NOW = 1_750_000_000.0


def endpoint(name="a:8000", state="healthy", **more):
    given = {
        "id": name,
        "model": "m",
        "url": f"http://{name}",
        "engine": "vllm",
        "served_model": None,
        "state": state,
        "reason": "ok" if state == "healthy" else "hung",
        "detail": "",
        "since": "2025-06-15T15:06:30.000+00:00",
        "weight": 100,
        "low_only": False,
        "max_inflight": None,
        "suspect": False,
        "ejected": False,
        "ejection_detected": False,
        "ttft_ms": 20.4,
        "inflight": 2,
        "incarnation": 1,
        "probes": 3,
        "last_probe_at": "2025-06-15T15:06:39.000+00:00",
        "next_probe_at": None,
        "owner": None,
    }
    return given | more


def probe_of(second, ttft_ms, reason="ok"):
    return {
        "at": f"2025-06-15T15:06:{second:02}.000+00:00",
        "kind": "micro",
        "outcome": "timeout" if ttft_ms is None else "token",
        "reason": "timeout" if ttft_ms is None else reason,
        "detail": "",
        "ttft_ms": ttft_ms,
        "phases_ms": {},
        "ending": "complete",
        "text": "",
        "tokens": None,
        "chunks": 1,
        "finish_reason": None,
        "fault": None,
        "bytes_read": 1,
        "reused_connection": True,
        "loop_lag_ms": 0.0,
    }


class Admin:
    """What the fake admin API says, and what it was asked."""

    def __init__(self):
        self.endpoints = [endpoint()]
        self.details = {}
        self.ready = {
            "status": "ready",
            "detail": "",
            "models": [],
            "providers": [],
            "cost": {"status": "open", "detail": "", "total_cny": None, "limit_cny": None, "remaining_cny": None},
            "reasons": [],
            "pools": {},
            "snapshot_version": 1,
            "checked_at": "now",
        }
        self.raw = None
        self.asked = []

    def answer(self, path):
        if self.raw is not None:
            return self.raw
        if path == "/health/ready":
            return (503 if self.ready["status"] == "not_ready" else 200), json.dumps(self.ready)
        if path == "/api/endpoints":
            return 200, json.dumps({"endpoints": self.endpoints, "added_later": True})
        name = path.removeprefix("/api/endpoints/")
        known = {one["id"].replace(":", "%3A").replace("#", "%23"): one for one in self.endpoints}
        history = {"judged": "healthy", "hold_until": None, "last_probes": [], "transitions": []}
        return 200, json.dumps(known[name] | history | self.details.get(name, {}))


@contextmanager
def serving(admin, port=0):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            admin.asked.append(self.path)
            status, body = admin.answer(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else body.encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def admin():
    return Admin()


@pytest.mark.parametrize(("readiness", "code"), [("ready", 0), ("degraded", 1), ("not_ready", 2)])
def test_the_exit_code_is_the_readiness(admin, readiness, code, capsys):
    admin.ready["status"] = readiness
    with serving(admin) as url:
        assert run(["status", "--admin", url]) == code
        assert run(["status", "--admin", url.removeprefix("http://"), "--json"]) == code
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["readiness"]["status"] == readiness
    assert told["endpoints"] == [endpoint()]


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ((404, "no"), "/health/ready answers with status 404"),
        ((200, "<html>"), "what answers there is not Pulsegate's admin API"),
        ((200, "{}"), "what answers there is not Pulsegate's admin API: Object missing required field"),
        ((200, b"\xff\x00"), "what answers there is not Pulsegate's admin API"),
    ],
)
def test_something_else_answers(admin, raw, told, capsys):
    admin.raw = raw
    with serving(admin) as url:
        assert run(["status", "--admin", url]) == 3
    assert told in capsys.readouterr().err


def test_nobody_answers(admin, capsys):
    with serving(admin) as url:
        pass
    assert run(["status", "--admin", url]) == 3
    error = capsys.readouterr().err
    assert error == (
        f"pulsegate: {url} cannot be asked: Connection refused. "
        "Is `pulsegate serve` running? --admin URL names another address.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--watch", "--json"], "--watch and --json do not go together"),
        (["--watch"], "--watch needs a terminal"),
        (["--admin", "ftp://a"], "--admin: `ftp://a` has the scheme ftp"),
    ],
)
def test_wrong_arguments(arguments, told, capsys):
    assert run(["status", *arguments]) == 3
    assert told in capsys.readouterr().err


def test_proxies_of_the_environment_are_not_asked(admin, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with serving(admin) as url:
        assert AdminClient(url).readiness().status == "ready"


class StoppedClock:
    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at

    def wall(self):
        return NOW + self.at

    def boot(self):
        return self.at

    async def sleep(self, seconds):
        self.at += seconds


def drawn(picture, width=120):
    console = Console(width=width, height=40, record=True, file=io.StringIO())
    console.print(picture)
    return [line.rstrip() for line in console.export_text().rstrip().splitlines()]


def test_the_live_view_survives_the_server_going_away(admin):
    clock = StoppedClock()
    admin.endpoints = [endpoint(), endpoint("b:8000#dp1", "unhealthy", weight=0, ttft_ms=None)]
    admin.details = {
        "a%3A8000": {"last_probes": [probe_of(31, 12.0), probe_of(34, 250.0, "slow"), probe_of(37, None)]},
        "b%3A8000%23dp1": {"last_probes": [probe_of(31, None)]},
    }
    with serving(admin) as url:
        view = View(AdminClient(url), clock)
        view.refresh(10)
        first = drawn(view.picture(120, 10))
        port = int(url.rpartition(":")[2])
    assert first == [
        "ready: 1 healthy, 1 unhealthy",
        "ENDPOINT   STATE     REASON SINCE  WT     TTFT PROBES           INFL",
        "a:8000     healthy            10s 100    20 ms ▁▆×                 2",
        "b:8000#dp1 unhealthy hung     10s   0        - ×                   2",
        f"{url}  q leaves",
    ]
    clock.at = 7.0
    view.refresh(10)
    gone = drawn(view.picture(120, 10))
    assert gone[1:4] == [line.replace("10s", "17s") for line in first[1:4]]
    assert gone[4].startswith(f"{url} does not answer for 7s: Connection refused; this is what was known then")
    with serving(admin, port):
        view.refresh(10)
        assert drawn(view.picture(120, 10))[-1] == f"{url}  q leaves"


def test_histories_are_asked_for_only_when_there_is_a_new_probe(admin):
    with serving(admin) as url:
        view = View(AdminClient(url), StoppedClock())
        for probes in (3, 3, 4, 4):
            admin.endpoints = [endpoint(probes=probes)]
            view.refresh(10)
    assert admin.asked.count("/api/endpoints/a%3A8000") == 2


def test_only_what_is_shown_is_asked_for(admin):
    admin.endpoints = [endpoint(f"e{n}:80", "unhealthy" if n == 70 else "healthy") for n in range(100)]
    with serving(admin) as url:
        view = View(AdminClient(url), StoppedClock())
        view.refresh(4)
    assert [path for path in admin.asked if "%3A" in path] == [f"/api/endpoints/e{n}%3A80" for n in (0, 1, 70)]
    lines = drawn(view.picture(80, 4))
    assert [line.split()[0] for line in lines[2:5]] == ["e0:80", "e1:80", "e70:80"]
    assert lines[5] == "... and 97 more: 97 healthy"


@pytest.mark.parametrize("width", [30, 40, 50, 60, 80, 100, 120, 160])
def test_no_line_is_longer_than_the_terminal(width):
    shapes = [endpoint("a-long-name-of-an-endpoint-in-some-cluster:8000#dp12", "misconfigured", ttft_ms=12345.6)]
    rows = [
        Row(endpoint=msgspec.convert(one, Endpoint), beats=(Beat(ttft_ms=20, fast=True),) * 60)
        for one in [*shapes, endpoint(model="another-model")]
    ]
    ready = msgspec.convert(Admin().ready, ReadyDocument)
    lines = drawn(table(rows, ready, now=NOW, width=width), width)
    assert all(len(line) <= width for line in lines)
    assert sum("misconf" in line for line in lines) >= 1


def test_no_endpoints_at_all(admin, capsys):
    admin.endpoints, admin.ready["status"] = [], "not_ready"
    with serving(admin) as url:
        assert run(["status", "--admin", url]) == 2
    assert capsys.readouterr().out.startswith("not ready: no endpoints\n")


def test_old_failures_do_not_look_like_a_wall(admin):
    old = [probe_of(n, None) for n in range(20)]
    admin.details = {"a%3A8000": {"last_probes": old + [probe_of(20 + n, 15.0) for n in range(8)]}}
    with serving(admin) as url:
        view = View(AdminClient(url), StoppedClock())
        view.refresh(10)
    assert [beat.ttft_ms for beat in view.histories["a:8000"].beats()] == [15.0] * 8


def test_bars_grow_with_the_time_to_the_first_token():
    assert bars([Beat(ttft_ms=ms, fast=True) for ms in (1, 10, 30, 100, 300, 999, 5000)]).plain == "▁▁▂▅▆██"
    assert bars([Beat(ttft_ms=None, fast=False)]).plain == "×"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-1, "0s"), (0, "0s"), (59.9, "59s"), (60, "1m"), (7199, "119m"), (7200, "2h"), (180000, "2d")],
)
def test_ages(seconds, shown):
    assert age(seconds) == shown


def test_the_worst_stay_in_view_in_their_order():
    states = ["healthy", "degraded", "healthy", "unhealthy", "warming"]
    endpoints = [msgspec.convert(endpoint(str(n), state), Endpoint) for n, state in enumerate(states)]
    assert fitting(endpoints, 4) == [1, 3, 4]
    assert fitting(endpoints, 5) == [0, 1, 2, 3, 4]
    assert fitting(endpoints, 0) == []


def test_an_unknown_endpoint_is_an_error_of_the_server(admin):
    admin.raw = (404, "{}")
    with serving(admin) as url, pytest.raises(AdminError, match="status 404"):
        AdminClient(url).endpoint("x")


def test_the_fake_speaks_the_shapes():
    msgspec.convert(endpoint(), Endpoint)
    msgspec.convert(probe_of(1, 2.0), Probe)
    msgspec.convert(
        endpoint() | {"judged": "", "hold_until": None, "last_probes": [], "transitions": []}, EndpointDetail
    )
