"""When is the network suspect?"""

from pulsegate.core.ids import EndpointId
from pulsegate.core.network import NetworkWatch

WINDOW_S, WINDOWS = 3.0, 3


def watch(*reached: str) -> NetworkWatch:
    network = NetworkWatch()
    for name in reached:
        network.connected(EndpointId(name))
    return network


def fail(network: NetworkWatch, at: float, *names: str) -> bool | None:
    for name in names:
        network.failed(EndpointId(name), at)
    return network.look(at, WINDOW_S, WINDOWS)


def test_half_is_not_more_than_half() -> None:
    network = watch(*"abcd")
    assert fail(network, 1.0, "a", "b") is None
    assert fail(network, 2.0, "c") is True
    assert network.suspect_since == 2.0


def test_fewer_than_four_say_nothing_about_the_network() -> None:
    assert fail(watch(*"abc"), 1.0, *"abc") is None


def test_endpoints_that_died_one_by_one_are_dead() -> None:
    network = watch(*"abcd")
    assert fail(network, 0.0, "a") is None
    assert fail(network, 100.0, "b") is None
    assert fail(network, 200.0, "c") is None


def test_endpoints_never_reached_may_still_be_starting() -> None:
    network = watch(*"abcd")
    assert fail(network, 1.0, *"efghij") is None
    assert network.quiet


def test_it_is_over_after_three_windows() -> None:
    network = watch(*"abcd")
    assert fail(network, 10.0, *"abcd") is True
    assert network.look(18.9, WINDOW_S, WINDOWS) is None
    assert network.look(19.0, WINDOW_S, WINDOWS) is False
    assert network.look(22.0, WINDOW_S, WINDOWS) is None, "what is still down then is down"


def test_it_is_over_when_most_are_back() -> None:
    network = watch(*"abcd")
    assert fail(network, 10.0, *"abcd") is True
    for name in "abc":
        assert network.look(12.0, WINDOW_S, WINDOWS) is None
        network.connected(EndpointId(name))
    assert network.look(12.0, WINDOW_S, WINDOWS) is False


def test_endpoints_that_are_gone_from_the_configuration_are_forgotten() -> None:
    network = watch(*"abcd")
    fail(network, 1.0, "a", "b")
    network.keep_only([EndpointId("c"), EndpointId("d")])
    assert network.quiet
