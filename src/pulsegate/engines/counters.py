"""Reads an engine's progress counters out of its metrics text. Decides what is summed, not what it means.

The text may be megabytes and is read while a server is in trouble, so it is searched for the wanted names instead of
parsed line by line.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pulsegate.core.probe import Counters

_SAMPLE_TAIL = re.compile(rb'(?:\{((?:[^"\n}]|"(?:[^"\\\n]|\\.)*")*)\})?[ \t]+([^\s#]+)')
_STARTED_AT: Final = (b"process_start_time_seconds",)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNames:
    """Which samples to add up. A name that a server lacks counts nothing, so old and new names stand side by side.

    ``progress``: grow with each step or token. ``rank_label`` names the label that tells data-parallel ranks apart.
    """

    progress: tuple[bytes, ...]
    running: tuple[bytes, ...] = ()
    waiting: tuple[bytes, ...] = ()
    rank_label: str | None = None


def read_prometheus(text: bytes, names: MetricNames, rank: int | None = None) -> Counters:
    """The counters in a Prometheus text; None for what it does not hold.

    Args:
        text: the exposition format, any size.
        names: what to look for.
        rank: sum only the samples of this data-parallel rank.
    """
    label = f'{names.rank_label}="{rank}"'.encode() if names.rank_label and rank is not None else None
    return Counters(
        progress=_total(text, names.progress, label),
        running=_total(text, names.running, label),
        waiting=_total(text, names.waiting, label),
        started_at=_total(text, _STARTED_AT, None),
    )


def _total(text: bytes, names: Iterable[bytes], label: bytes | None) -> float | None:
    total: float | None = None
    for name in names:
        for labels, value in _samples(text, name):
            if label is None or _has_label(labels, label):
                total = value if total is None else total + value
    return total


def _samples(text: bytes, name: bytes) -> Iterable[tuple[bytes, float]]:
    """Labels and finite value of each sample of that very name."""
    at = 0 if text.startswith(name) else text.find(b"\n" + name) + 1
    if at == 0 and not text.startswith(name):
        return
    while True:
        tail = _SAMPLE_TAIL.match(text, at + len(name))
        if tail is not None and (value := _number(tail[2])) is not None:
            yield tail[1] or b"", value
        at = text.find(b"\n" + name, at) + 1
        if at == 0:
            return


def _has_label(labels: bytes, label: bytes) -> bool:
    at = labels.find(label)
    return at == 0 or (at > 0 and labels[at - 1 : at] in (b",", b" "))


def _number(digits: bytes) -> float | None:
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusReader:
    """Counters of a server that publishes them as Prometheus text."""

    names: MetricNames
    where: str = "/metrics"

    def path(self, model: str | None) -> str:  # noqa: ARG002 - one page for all models
        """Where they are."""
        return self.where

    def read(self, body: bytes, headers: Mapping[str, str], rank: int | None) -> Counters | None:  # noqa: ARG002
        """What the page says; None if it holds none of the names."""
        counters = read_prometheus(body, self.names, rank)
        return None if counters.progress is None and counters.running is None else counters
