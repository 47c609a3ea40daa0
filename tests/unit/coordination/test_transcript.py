"""What was heard, in order and without a hole."""

import pytest

from pulsegate.control.coordination import View, Words
from pulsegate.coordination.redis_line import Gone
from pulsegate.coordination.redis_scripts import Message
from pulsegate.coordination.transcript import Known, Transcript
from pulsegate.core.ids import MemberId
from support.members import Ear, Joined

ME, OTHER = MemberId("me"), MemberId("other")
BOTH = View(5, (ME, OTHER))


def said(revision: int, author: MemberId = OTHER) -> Message:
    return Message(revision, None, Words(author, 5, {}, (b"%d" % revision,)))


def members(epoch: int, *names: MemberId) -> Message:
    return Message(0, View(epoch, names), None)


def begun(revision: int = 10) -> tuple[Transcript, Ear]:
    ear = Ear()
    transcript = Transcript(ME, ear, Known())
    transcript.start(BOTH, revision, (b"kept",))
    ear.heard_of.clear()
    return transcript, ear


def test_what_came_before_the_picture_follows_it_unless_it_is_in_it():
    ear = Ear()
    transcript = Transcript(ME, ear, Known(4, 7))
    for message in (said(9), said(10), members(4, OTHER), members(6, ME), said(11)):
        transcript.message(message)
    assert ear.heard_of == []
    assert transcript.known == Known(4, 7)
    transcript.start(BOTH, 10, (b"kept",))
    assert ear.heard_of == [Joined(BOTH, frozenset({b"kept"})), View(6, (ME,)), said(11).words]
    assert transcript.known == Known(6, 11)


def test_own_words_are_counted_and_not_heard():
    transcript, ear = begun()
    transcript.message(said(11, ME))
    transcript.message(said(12))
    assert ear.passing == [b"12"]
    assert not transcript.needs_picture


def test_a_gap_needs_a_picture_and_what_comes_meanwhile_waits():
    transcript, ear = begun()
    transcript.message(said(12))
    assert transcript.needs_picture
    transcript.message(said(13))
    transcript.message(members(6, ME))
    assert ear.heard_of == []
    transcript.start(BOTH, 12, (b"new",))
    assert ear.heard_of == [Joined(BOTH, frozenset({b"new"})), said(13).words, View(6, (ME,))]
    assert not transcript.needs_picture


def test_what_must_have_come_and_did_not_needs_a_picture():
    transcript, _ = begun()
    transcript.expect(10)
    assert not transcript.needs_picture
    transcript.expect(11)
    assert transcript.needs_picture


def test_members_that_are_known_or_older_are_no_news():
    transcript, ear = begun()
    transcript.members(BOTH)
    transcript.members(View(4, (OTHER,)))
    assert ear.heard_of == []


def test_other_members_of_the_same_epoch_are_news():
    """Two servers may have counted to the same epoch, when one took over from the other and lagged behind."""
    transcript, ear = begun()
    transcript.members(View(5, (ME,)))
    assert ear.heard_of == [View(5, (ME,))]


def test_who_is_no_member_is_told_so():
    transcript, _ = begun()
    with pytest.raises(Gone, match="given up"):
        transcript.message(members(6, OTHER))
