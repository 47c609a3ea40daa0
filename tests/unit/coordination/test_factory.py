from pulsegate.coordination.factory import open_coordinator
from pulsegate.coordination.memory import MemoryCoordinator
from pulsegate.coordination.redis import RedisCoordinator
from pulsegate.core.coordination import CoordinationSpec, RedisAddress, RedisSpec
from pulsegate.core.ids import MemberId


def test_opens_what_the_configuration_asks_for():
    redis = RedisSpec(addresses=(RedisAddress("127.0.0.1", 1),), password="secret-word")
    assert isinstance(open_coordinator(CoordinationSpec(), MemberId("a")), MemoryCoordinator)
    opened = open_coordinator(CoordinationSpec(redis=redis), MemberId("a"))
    assert isinstance(opened, RedisCoordinator)
    assert repr(opened) == "RedisCoordinator(a, parted)"
