"""The control process as a child, and what its admin API says: the demo sees what any operator would see."""

import json
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from pulsegate.control.ports import Clock
from pulsegate.core.health import State
from pulsegate.embedded.child import Child
from pulsegate.embedded.local_http import get

DEFAULT_ADMIN_PORT = 8081
DEFAULT_GATEWAY_PORT = 8080
_START_TIMEOUT_S = 20.0
_ANSWER_TIMEOUT_S = 5.0
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One endpoint as ``GET /api/endpoints`` showed it; ``at`` is our own monotonic time of looking."""

    at: float
    id: str
    state: State
    reason: str
    weight: int
    ttft_ms: float | None

    @property
    def verdict(self) -> tuple[State, str]:
        """What a change of is worth a line."""
        return self.state, self.reason


class ControlProcess:
    """``pulsegate serve`` over a configuration file."""

    def __init__(self, config: Path, url: str, clock: Clock) -> None:
        """Start it; see :meth:`wait_ready`."""
        self.url = url
        self._clock = clock
        command = [sys.executable, "-m", "pulsegate", "serve", "-c", str(config)]
        self.child = Child("pulsegate serve", command, leash_signal=signal.SIGTERM)

    def wait_ready(self) -> Self:
        """Come back when its admin port answers.

        Raises:
            ChildError: it ended or took too long; shows its log.
        """
        deadline = self._clock.now() + _START_TIMEOUT_S
        while self._clock.now() < deadline:
            try:
                if get(f"{self.url}/health", _ANSWER_TIMEOUT_S)[0] == 200:  # noqa: PLR2004
                    return self
            except OSError:
                if self.child.wait(_LOOK_EVERY_S) is not None:
                    break
        raise self.child.failure("did not start")

    def look(self) -> list[Seen]:
        """All endpoints now."""
        _, body = get(f"{self.url}/api/endpoints", _ANSWER_TIMEOUT_S)
        rows = cast("list[dict[str, object]]", json.loads(body)["endpoints"])
        now = self._clock.now()
        return [_seen(row, now) for row in rows]

    def watch(self, seconds: float | None) -> Iterator[Seen]:
        """Each change of state or reason as it is seen, first of all what is; for ``seconds``, None for ever.

        Raises:
            ChildError: the control process ended.
        """
        last: dict[str, tuple[State, str]] = {}
        deadline = None if seconds is None else self._clock.now() + seconds
        while deadline is None or self._clock.now() < deadline:
            try:
                rows = self.look()
            except OSError as exc:
                raise self.child.failure(f"does not answer ({exc})") from exc
            for seen in rows:
                if last.get(seen.id) != seen.verdict:
                    last[seen.id] = seen.verdict
                    yield seen
            if self.child.wait(_LOOK_EVERY_S) is not None:
                raise self.child.failure("ended")

    def stop(self) -> None:
        """End it."""
        self.child.stop()


def free_port(preferred: int) -> int:
    """``preferred`` if nobody listens there, else one that is free."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return cast("int", probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")


def _seen(row: dict[str, object], at: float) -> Seen:
    ttft = row["ttft_ms"]
    return Seen(
        at=at,
        id=str(row["id"]),
        state=State(str(row["state"])),
        reason=str(row["reason"]),
        weight=int(str(row["weight"])),
        ttft_ms=ttft if isinstance(ttft, (int, float)) else None,
    )
