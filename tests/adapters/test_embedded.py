"""The parts of the embedded engines that need no engine."""

import pytest

from pulsegate.embedded.child import Child, ChildError, ReadyPipe
from pulsegate.embedded.freeze import busiest_thread
from pulsegate.embedded.local_http import get, post
from pulsegate.embedded.simulated import start_simulated
from support.processes import ends_soon


def test_the_busiest_thread_is_the_one_that_computed_meanwhile():
    before = {1: 500, 2: 10}
    assert busiest_thread(before, {1: 501, 2: 40, 3: 5}) == 2
    assert busiest_thread(before, {1: 500, 2: 10, 3: 7}) == 3


def test_no_thread_is_the_busiest_when_none_computed():
    assert busiest_thread({1: 5}, {1: 5, 2: 0}) is None
    assert busiest_thread({}, {}) is None


def test_simulated_engines_can_be_frozen_one_by_one():
    first, second = start_simulated(2)
    try:
        first.freeze()
        with pytest.raises(TimeoutError):
            post(f"{first.url}/v1/completions", {"prompt": "One", "max_tokens": 1}, 0.5)
        assert first.health_status() == 200
        assert post(f"{second.url}/v1/completions", {"prompt": "One", "max_tokens": 1}, 5.0)[0] == 200
        first.thaw()
        assert post(f"{first.url}/v1/completions", {"prompt": "One", "max_tokens": 1}, 5.0)[0] == 200
    finally:
        first.stop()
        second.stop()
    with pytest.raises(ConnectionRefusedError):
        get(f"{first.url}/health", 1.0)
    assert first.health_status() is None


def test_a_child_that_says_nothing_shows_its_log():
    ready = ReadyPipe()
    child = Child("talker", ["sh", "-c", "echo out of order >&2; exit 7"], pass_fds=[ready.writer_fd])
    ready.started()
    try:
        with pytest.raises(ChildError, match=r"(?s)talker failed to start \(it ended with 7\).*out of order"):
            ready.line(child, 10.0)
    finally:
        child.stop()


def test_a_child_that_is_too_late_is_still_stopped():
    ready = ReadyPipe()
    child = Child("sleeper", ["sleep", "60"], pass_fds=[ready.writer_fd])
    ready.started()
    with pytest.raises(ChildError, match="was not ready after 0 s"):
        ready.line(child, 0.05)
    child.stop()
    assert child.ended
    child.stop()


@pytest.mark.parametrize("script", ["trap '' TERM; sleep 60 & echo $!; wait", "sleep 60 & echo $!"])
def test_nothing_that_a_child_started_outlives_it(script):
    ready = ReadyPipe()
    child = Child("stubborn", ["sh", "-c", script], stdout_fd=ready.writer_fd)
    ready.started()
    grandchild = int(ready.line(child, 10.0))
    child.stop(grace_s=0.1)
    assert child.ended
    assert ends_soon(grandchild)
