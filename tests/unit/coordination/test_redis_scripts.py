"""What others may have written into the same Redis."""

import asyncio
from typing import cast

import msgspec
import pytest

from pulsegate.coordination.redis_line import Line
from pulsegate.coordination.redis_scripts import Fleet, read_message
from pulsegate.core.ids import MemberId

GOOD = "east-1.example-4711-0a1b2c3d"
STRANGE = ("", "two words", "line\nbreak", "\x1b[31mred", "n" * 129)


class Answering:
    """A ``Line`` whose server gives the same answer to everything."""

    def __init__(self, answer: object) -> None:
        self._answer = answer

    async def run(self, *_words: object) -> object:
        return self._answer


@pytest.mark.parametrize("strange", [*(name.encode() for name in STRANGE), b"\xff\xfe"])
def test_who_has_a_name_that_no_gateway_has_is_no_member(strange: bytes) -> None:
    line = cast("Line", Answering([7, 7, 0, [strange, GOOD.encode()], None]))
    beat = asyncio.run(Fleet("f", MemberId(GOOD), 3.0).beat(line, epoch=0, revision=0, with_picture=False))
    assert beat.view.members == (GOOD,)


@pytest.mark.parametrize("strange", STRANGE)
def test_announcements_and_words_are_read_the_same_way(strange: str) -> None:
    said = msgspec.msgpack.encode([3, [7, [strange, GOOD]], None])
    message = read_message(said)
    assert message is not None
    assert message.view == (7, (GOOD,))
    assert read_message(msgspec.msgpack.encode([3, None, [strange, 7, {}, []]])) is None
    assert read_message(msgspec.msgpack.encode([3, None, [GOOD, 7, {}, []]])) is not None
