"""The way to the others that the configuration asks for."""

import random

from pulsegate.control.coordination import Coordinator
from pulsegate.coordination.memory import Meeting, MemoryCoordinator
from pulsegate.core.coordination import CoordinationSpec
from pulsegate.core.ids import MemberId


class MissingRedisError(ValueError):
    """What is missing, and how to get it."""

    def __init__(self) -> None:
        super().__init__(
            "coordination.backend: redis needs redis-py, which is not installed: pip install 'pulsegate[redis]'"
        )


def open_coordinator(spec: CoordinationSpec, member: MemberId) -> Coordinator:
    """Nothing is connected before it runs.

    Raises:
        MissingRedisError: a Redis is asked for, and redis-py is not installed.
    """
    if spec.redis is None:
        return MemoryCoordinator(Meeting(), member)
    try:
        # optional, and nothing that a gateway without it should wait for
        from pulsegate.coordination.redis import RedisCoordinator  # noqa: PLC0415
    except ModuleNotFoundError as exc:
        raise MissingRedisError from exc
    return RedisCoordinator(spec.redis, spec, member, random.Random())  # noqa: S311 - spreads retries
