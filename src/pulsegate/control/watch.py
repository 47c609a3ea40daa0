"""What the prober holds for one endpoint while it watches it."""

import asyncio

from pulsegate.control.counting import CounterReader
from pulsegate.control.ports import Engine
from pulsegate.core.fleet import EndpointSpec
from pulsegate.core.status import DueProbe


class Watch:
    """One endpoint under watch. Mutable, and owned by the prober alone.

    ``flight`` is the probe in flight and ``task`` what takes it; there is never a second one. ``reader`` exists once
    counters were wanted.
    """

    __slots__ = ("engine", "flight", "reader", "spec", "task")

    def __init__(self, spec: EndpointSpec, engine: Engine) -> None:
        self.spec = spec
        self.engine = engine
        self.flight: DueProbe | None = None
        self.task: asyncio.Task[None] | None = None
        self.reader: CounterReader | None = None

    def landed(self) -> None:
        """The probe in flight is over."""
        self.flight = None
        self.task = None
        if self.reader is not None:
            self.reader.end()

    def __repr__(self) -> str:
        return f"Watch({self.spec.id}, {'in flight' if self.flight else 'idle'})"
