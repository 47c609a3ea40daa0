"""Names for things that are known by an id, so that one cannot be passed for another."""

from typing import Final, NewType

EndpointId = NewType("EndpointId", str)
"""Unique within one configuration, e.g. ``10.0.0.11:8000`` or ``10.0.0.11:8000#dp1``."""

PoolName = NewType("PoolName", str)
"""The public model name that a pool of endpoints stands behind."""

PromptId = NewType("PromptId", str)
"""Names a prompt of the bank: answers to the same prompt can be compared."""

Incarnation = NewType("Incarnation", int)
"""Counts the lives of one endpoint; a restart begins the next. State belongs to an incarnation."""

MemberId = NewType("MemberId", str)
"""Names one running gateway among several that share their probes; a restart is another member."""

PRESENTABLE: Final = r"[A-Za-z0-9._:-]{1,128}"
"""What an id that comes from outside must match as a whole before it goes into a log line or a page."""
