"""Replicas that meet in a Redis or Valkey: ``Coordinator`` over the network.

A life as a member (``redis_session.py``) ends with the first thing that goes wrong; then everything is opened anew,
after a pause that differs from replica to replica, so that a Redis that comes back is not overrun.
"""

import asyncio
import random
from typing import Never

from pulsegate.control.coordination import Listener, Words
from pulsegate.coordination.redis_line import CALL_TIMEOUT_S, Gone, Place, open_line
from pulsegate.coordination.redis_scripts import Fleet
from pulsegate.coordination.redis_servers import find_server
from pulsegate.coordination.redis_session import Lines, RedisSession
from pulsegate.coordination.transcript import Known, Transcript
from pulsegate.core.coordination import CoordinationSpec, RedisSpec
from pulsegate.core.ids import MemberId

_FIRST_PAUSE_S = 0.4
_LONGEST_PAUSE_S = 2.0
"""Before trying again: by chance between half of this and all of it. It doubles each time."""


class RedisCoordinator:
    """Implements ``Coordinator`` for one member of a fleet."""

    def __init__(self, redis: RedisSpec, spec: CoordinationSpec, member: MemberId, rng: random.Random) -> None:
        self._redis = redis
        self._member = member
        self._heartbeat_s = spec.heartbeat_s
        self._fleet = Fleet(spec.fleet, member, spec.member_timeout_s)
        self._rng = rng
        self._session: RedisSession | None = None
        self._member_at: Place | None = None

    def __repr__(self) -> str:
        return f"RedisCoordinator({self._member}, {'taking part' if self._session else 'parted'})"

    def tell(self, words: Words) -> None:
        """Tell the others, soon. Dropped while parted."""
        if self._session is not None:
            self._session.tell(words)

    async def run(self, listener: Listener) -> None:
        """Take part until cancelled, then leave."""
        try:
            await self._come_and_go(listener)
        finally:
            await self._leave()

    async def _come_and_go(self, listener: Listener) -> Never:
        known, told, pause_s = Known(), False, _FIRST_PAUSE_S
        while True:
            transcript = Transcript(self._member, listener, known)
            why = await self._take_part(transcript)
            self._member_at, known = None, transcript.known
            if transcript.has_begun:
                told, pause_s = False, _FIRST_PAUSE_S
            if not told:
                listener.parted(why)
                told = True
            await asyncio.sleep(self._rng.uniform(pause_s / 2, pause_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def _take_part(self, transcript: Transcript) -> str:
        """Returns why it ended."""
        why = ""
        try:
            place = await find_server(self._redis, self._fleet.kept)
            async with open_line(place, self._redis) as asking, open_line(place, self._redis) as listening:
                session = RedisSession(
                    self._fleet, Lines(asking, listening), transcript, self._member, self._heartbeat_s
                )
                await session.subscribe()
                self._session, self._member_at = session, place
                async with asyncio.TaskGroup() as group:
                    group.create_task(session.listen())
                    await session.speak()
        except* Gone as failures:
            why = _first(failures)
        finally:
            self._session = None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # a group whose task fails just when it is cancelled itself forgets the latter
            raise asyncio.CancelledError
        return why

    async def _leave(self) -> None:
        if self._member_at is None:
            return
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S), open_line(self._member_at, self._redis) as line:
                await self._fleet.leave(line)
        except (Gone, TimeoutError):
            pass  # the others notice by themselves


def _first(failures: BaseExceptionGroup[Gone]) -> str:
    failure: BaseException = failures
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return str(failure)
