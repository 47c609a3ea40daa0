"""Frames survive every cut; what is no frame is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsegate.control.link import (
    DrainNow,
    FrameReader,
    LinkError,
    Message,
    NewSetup,
    NewSnapshot,
    Ready,
    Refused,
    Traffic,
    frame,
)
from pulsegate.core.events import TrafficSeen
from pulsegate.core.health import Reason, State
from pulsegate.core.ids import EndpointId, Incarnation, PoolName
from pulsegate.core.snapshot import EndpointView, PoolView, Snapshot

VIEW = EndpointView(
    id=EndpointId("a:1"),
    state=State.DEGRADED,
    reason=Reason.SLOW,
    weight=30,
    low_only=True,
    max_inflight=4,
    ejected=False,
    suspect=True,
    incarnation=Incarnation(2),
)
MESSAGES: list[Message] = [
    NewSetup(b"\x00secret"),
    NewSnapshot(Snapshot(version=7, pools=(PoolView(name=PoolName("m"), endpoints=(VIEW,), down=False),))),
    DrainNow(1.5),
    Ready(),
    Refused("no such file"),
    Traffic([TrafficSeen(at=1.0, endpoint=EndpointId("a:1"), tokens=3)]),
]


@given(cuts=st.lists(st.integers(min_value=1, max_value=40), max_size=60))
def test_messages_arrive_whole_however_the_stream_is_cut(cuts: list[int]) -> None:
    stream = b"".join(map(frame, MESSAGES))
    reader, heard = FrameReader(), list[Message]()
    for size in [*cuts, len(stream)]:
        heard += reader.feed(stream[:size])
        stream = stream[size:]
    assert heard == MESSAGES


@pytest.mark.parametrize("junk", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x01\xc1"])
def test_what_is_no_frame_is_refused(junk: bytes) -> None:
    with pytest.raises(LinkError):
        FrameReader().feed(junk)


def test_a_setup_does_not_show_its_secrets() -> None:
    assert "secret" not in repr(NewSetup(b"secret"))
