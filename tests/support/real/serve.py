"""A real ``pulsegate serve`` over real engines, and everything that its event stream says."""

import http.client
import json
import signal
import sys
import threading
from contextlib import closing
from dataclasses import dataclass

import yaml

from pulsegate.control.clock import SystemClock
from pulsegate.core.health import State
from pulsegate.embedded.child import Child
from pulsegate.embedded.local_http import get
from support.real.vllm import free_port


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One transition; ``at`` is when the event reached us, in monotonic seconds."""

    at: float
    endpoint: str
    old: State
    state: State
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.endpoint} {self.old}->{self.state}({self.reason}) {self.detail}"


class Serve:
    """The control process with production defaults unless ``probe`` says otherwise.

    ``endpoints`` maps an id to its configuration entry (``url``, ``engine``, ...).
    """

    def __init__(self, folder, endpoints: dict[str, dict], *, probe: dict | None = None) -> None:
        self.clock = SystemClock()
        self.port = free_port()
        document = {
            "gateway": {"listen": f"127.0.0.1:{free_port()}"},
            "admin": {"listen": f"127.0.0.1:{self.port}"},
            "probe": probe or {},
            "models": [{"name": "tiny", "endpoints": [{"id": name, **entry} for name, entry in endpoints.items()]}],
        }
        config = folder / f"pulsegate-{self.port}.yaml"
        config.write_text(yaml.safe_dump(document))
        command = [sys.executable, "-m", "pulsegate", "serve", "-c", str(config)]
        self.child = Child("pulsegate serve", command, leash_signal=signal.SIGTERM)
        self.changes: list[Change] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self):
        deadline = self.clock.now() + 20
        while self._health() != 200:
            assert self.clock.now() < deadline, self.child.failure("does not answer")
            assert self.child.wait(0.1) is None, self.child.failure("ended")
        self._reader.start()
        return self

    def __exit__(self, *_exc):
        self.child.stop()
        self._reader.join(5)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def endpoints(self) -> dict[str, dict]:
        _, body = get(f"{self.url}/api/endpoints", 5)
        return {row["id"]: row for row in json.loads(body)["endpoints"]}

    def endpoint(self, name: str) -> dict:
        """Everything about one endpoint, with its last probes and transitions."""
        _, body = get(f"{self.url}/api/endpoints/{name}", 5)
        return json.loads(body)

    def states(self) -> dict[str, str]:
        return {name: row["state"] for name, row in self.endpoints().items()}

    def await_all(self, state: State, *, within_s: float) -> None:
        """Come back when every endpoint is in ``state``."""
        deadline = self.clock.now() + within_s
        while set(self.states().values()) != {state}:
            assert self.clock.now() < deadline, f"not all {state} after {within_s} s: {self.story()}"
            self.pause(0.1)

    def await_state(self, endpoint: str, state: State, *, since: float, within_s: float) -> Change:
        """The first change of ``endpoint`` to ``state`` after ``since``."""
        deadline = since + within_s
        with self._news:
            while True:
                for change in self.changes:
                    if change.endpoint == endpoint and change.state is state and change.at >= since:
                        return change
                left = deadline - self.clock.now()
                assert left > 0, f"{endpoint} not {state} within {within_s} s: {self.story(since)}"
                self._news.wait(left)

    def since(self, at: float, endpoint: str | None = None) -> list[Change]:
        with self._news:
            return [one for one in self.changes if one.at >= at and endpoint in (None, one.endpoint)]

    def story(self, since: float = 0.0) -> str:
        changes = "\n".join(f"  {one.at - since:8.2f} {one}" for one in self.since(since))
        return f"\n{changes}\n{json.dumps(self.endpoints(), indent=1)}"

    def pause(self, seconds: float) -> None:
        """Let it work; fails at once when it ends."""
        assert self.child.wait(seconds) is None, self.child.failure("ended")

    def _health(self) -> int | None:
        try:
            return get(f"{self.url}/health", 5)[0]
        except OSError:
            return None

    def _listen(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/api/events")
        event = ""
        with closing(connection), closing(connection.getresponse()) as stream:
            for raw in stream:
                line = raw.decode().rstrip()
                if line.startswith("event: "):
                    event = line.removeprefix("event: ")
                elif line.startswith("data: ") and event == "transition":
                    self._note(json.loads(line.removeprefix("data: ")))

    def _note(self, row: dict) -> None:
        with self._news:
            self.changes.append(
                Change(
                    at=self.clock.now(),
                    endpoint=row["endpoint"],
                    old=State(row["old"]),
                    state=State(row["new"]),
                    reason=row["reason"],
                    detail=row["detail"],
                )
            )
            self._news.notify_all()
