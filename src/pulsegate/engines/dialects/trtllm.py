"""TensorRT-LLM's ``trtllm-serve``.

Probe request
    As :mod:`~pulsegate.engines.dialects.openai`, at ``/v1/completions``.
Counters
    ``/metrics`` is a JSON list of the iterations since the page was last read: reading takes them away from other
    readers, and with none the server keeps the request for two seconds. No list within the deadline is no reading; an
    empty one means no iteration, but only from a server that has shown some before (the statistics may be off).
Errors
    Flat: ``{"object": "error", "message", "type", "code": 400}``; text bodies such as "LLM is unavailable. ...".
Cold start
    Refused connections. After a rank crashed: 503 for ever.
"""

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import Counters
from pulsegate.engines.dialects.openai import OpenAiDialect


class _Iteration(msgspec.Struct):
    iter: int | None = None
    numActiveRequests: float | None = None  # noqa: N815 - the server's name
    numQueuedRequests: float | None = None  # noqa: N815


class _IterationCounters:
    """Remembers the last iteration: an empty page has none to show."""

    def __init__(self) -> None:
        self._last: Counters | None = None

    def path(self, model: str | None) -> str:  # noqa: ARG002 - one page
        return "/metrics"

    def read(self, body: bytes, headers: Mapping[str, str], rank: int | None) -> Counters | None:  # noqa: ARG002
        try:
            iterations = msgspec.json.decode(body, type=list[_Iteration])
        except msgspec.DecodeError:
            return None
        if iterations and iterations[-1].iter is not None:
            last = iterations[-1]
            self._last = Counters(
                progress=float(cast("int", last.iter)), running=last.numActiveRequests, waiting=last.numQueuedRequests
            )
        return self._last


TRTLLM: Final = OpenAiDialect(name=EngineName.TRTLLM, counter_reader=_IterationCounters)
