"""The series that are per endpoint, written at scrape time from what the board says.

Nothing is kept, so a series vanishes with its endpoint. Written by hand instead of through the client library: with
5,000 endpoints these are 45,000 lines, and the prober's loop must not stand still for them.
"""

import asyncio
from collections.abc import Iterable

from pulsegate.core.health import State
from pulsegate.core.status import EndpointStatus

ENDPOINTS_PER_TURN = 100  # about 2 ms of work between two turns of the loop

_STATES = tuple(State)


class EndpointSeries:
    """Collects the lines of each family: the text format wants families in one piece each."""

    def __init__(self) -> None:
        self._states: list[str] = []
        self._weights: list[str] = []
        self._ttfts: list[str] = []
        self._inflights: list[str] = []

    async def add_all(self, statuses: Iterable[EndpointStatus]) -> None:
        """Add every endpoint, letting the loop breathe. ``statuses`` may make them while it is read."""
        for number, status in enumerate(statuses, start=1):
            self.add(status)
            if number % ENDPOINTS_PER_TURN == 0:
                await asyncio.sleep(0)

    def add(self, status: EndpointStatus) -> None:
        """Add the lines of one endpoint."""
        labels = f'endpoint="{_escaped(status.id)}",pool="{_escaped(status.pool)}"'
        for state in _STATES:
            value = 1 if state is status.state else 0
            self._states.append(f'pulsegate_endpoint_state{{{labels},state="{state.value}"}} {value}\n')
        self._weights.append(f"pulsegate_endpoint_weight{{{labels}}} {status.weight}\n")
        self._inflights.append(f"pulsegate_endpoint_inflight{{{labels}}} {status.inflight}\n")
        if status.ttft_s is not None:
            self._ttfts.append(f"pulsegate_endpoint_ttft_seconds{{{labels}}} {status.ttft_s:.6f}\n")

    def text(self) -> bytes:
        """All families in the Prometheus text format."""
        families = (
            ("state", "1 for the state that the endpoint is in, 0 for the others.", self._states),
            ("weight", "Share of traffic that it is meant to get, 0 to 100.", self._weights),
            ("ttft_seconds", "Moving average of its probes' time to the first token.", self._ttfts),
            ("inflight", "Users' requests that it holds.", self._inflights),
        )
        return "".join(_family(*family) for family in families).encode()


def _family(name: str, about: str, lines: list[str]) -> str:
    head = f"# HELP pulsegate_endpoint_{name} {about}\n# TYPE pulsegate_endpoint_{name} gauge\n"
    return head + "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
