"""One life among the others: from the first heartbeat to whatever ends it. After that everything is opened anew.

There are two connections to the same server, one to ask on and one to listen on. Whatever is asked is asked by one
task, so that one call is in flight at most.
"""

import asyncio
from typing import NamedTuple, Never

from pulsegate.control.coordination import Words
from pulsegate.coordination.outbox import Outbox
from pulsegate.coordination.redis_line import CALL_TIMEOUT_S, Gone, Line
from pulsegate.coordination.redis_scripts import Fleet, read_message
from pulsegate.coordination.transcript import GIVEN_UP, Transcript
from pulsegate.core.ids import MemberId


class Lines(NamedTuple):
    """Both connections of a session."""

    asking: Line
    listening: Line


class RedisSession:
    """A member, as long as nothing goes wrong."""

    def __init__(
        self, fleet: Fleet, lines: Lines, transcript: Transcript, member: MemberId, heartbeat_s: float
    ) -> None:
        self._fleet = fleet
        self._lines = lines
        self._transcript = transcript
        self._outbox = Outbox(member)
        self._heartbeat_s = heartbeat_s
        self._admitted: int | None = None
        self._awake = asyncio.Event()
        self._pong = asyncio.Event()

    def tell(self, words: Words) -> None:
        """Say it soon; not if it is about a time when this member was none, or none yet."""
        if self._admitted is not None and words.epoch >= self._admitted:
            self._outbox.put(words)
            self._awake.set()

    async def subscribe(self) -> None:
        """Hear what is said from now on.

        Raises:
            Gone: it does not work.
        """
        listening = self._lines.listening
        await listening.say("SUBSCRIBE", self._fleet.channel)
        with listening.blame():
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await listening.hear()

    async def listen(self) -> Never:
        """Pass on what is heard.

        Raises:
            Gone: nothing more will be.
        """
        while True:
            match await self._lines.listening.hear():
                case [b"message", _, bytes(payload)]:
                    message = read_message(payload)
                    if message is not None:
                        self._transcript.message(message)
                    if self._transcript.needs_picture:
                        self._awake.set()
                case [b"pong", *_]:
                    self._pong.set()
                case _:
                    pass

    async def speak(self) -> Never:
        """Heartbeats when they are due, and what there is to say.

        Raises:
            Gone: nobody listens any more.
        """
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if loop.time() >= due or self._transcript.needs_picture:
                due = loop.time() + self._heartbeat_s
                await self._beat()
            elif self._outbox:
                await self._send()
            else:
                self._awake.clear()
                await self._wake_at(due)

    async def _wake_at(self, due: float) -> None:
        try:
            async with asyncio.timeout_at(due):
                await self._awake.wait()
        except TimeoutError:
            pass

    async def _beat(self) -> None:
        transcript, asking = self._transcript, self._lines.asking
        epoch, revision = transcript.known
        beat = await self._fleet.beat(asking, epoch=epoch, revision=revision, with_picture=transcript.needs_picture)
        if self._admitted not in {None, beat.admitted}:
            raise Gone(GIVEN_UP)
        self._admitted = beat.admitted
        if beat.picture is not None:
            transcript.start(beat.view, beat.revision, beat.picture)
        else:
            transcript.members(beat.view)
            await self._hear_everything()
            transcript.expect(beat.revision)

    async def _hear_everything(self) -> None:
        """The answer to a ping comes after all messages from before it. It also shows that the connection is alive."""
        self._pong.clear()
        await self._lines.listening.say("PING")
        with self._lines.listening.blame():
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._pong.wait()

    async def _send(self) -> None:
        if self._outbox.is_full:
            raise Gone(f"{self._lines.asking.name}: it does not keep up with what there is to tell")
        if not await self._fleet.tell(self._lines.asking, self._outbox.take()):
            raise Gone(GIVEN_UP)
