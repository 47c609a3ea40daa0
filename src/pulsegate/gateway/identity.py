"""A request's id: the client's own when it is presentable, else a new one."""

import re
from collections.abc import Callable
from itertools import count

from pulsegate.core.ids import PRESENTABLE

_PRESENTABLE = re.compile(PRESENTABLE.encode())


def request_ids(random_bits: Callable[[int], int]) -> Callable[[], bytes]:
    """A maker of ids: 32 hexadecimal digits, of which the first half tells makers apart and the second requests.

    Drawing 128 random bits for each request would cost more than parsing its headers.
    """
    template = b"%016x%%016x" % random_bits(64)
    following = count(random_bits(32)).__next__

    def make() -> bytes:
        return template % following()

    return make


def presentable(given: bytes | None) -> bool:
    """Whether a client's id may be taken over: anything else could forge log lines."""
    return given is not None and _PRESENTABLE.fullmatch(given) is not None
