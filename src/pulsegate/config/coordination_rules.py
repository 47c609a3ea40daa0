"""What holds between the keys of the section ``coordination``."""

from collections.abc import Iterator
from contextlib import suppress

from pydantic_core import PydanticCustomError

from pulsegate.config import raw
from pulsegate.config.combinations import half_a_pair
from pulsegate.config.coordination import CoordinationSection
from pulsegate.config.document import Document
from pulsegate.config.errors import Problem
from pulsegate.config.raw import Raw
from pulsegate.config.redis_url import redis_url
from pulsegate.config.units import seconds, show_seconds

_OF_REDIS = ("url", "username", "password", "tls")


def problems(document: Document) -> Iterator[Problem]:
    """Everything that is wrong between them."""
    section = raw.mapping(document.data, "coordination")
    if section.get("backend", "memory") == "memory":
        for key in _OF_REDIS:
            if key in section:
                message = "is not looked at without `backend: redis`"
                yield document.problem(("coordination", key), message, "add `backend: redis`", at_key=True)
    elif section.get("backend") == "redis" and "url" not in section:
        fix = "write url: redis://host:port"
        yield document.problem(("coordination", "backend"), "needs a `url` beside it", fix, at_key=True)
    yield from _beside_the_url(document, section)
    yield from _heartbeat(document, section)


def _beside_the_url(document: Document, section: Raw) -> Iterator[Problem]:
    tls = raw.mapping(section, "tls")
    yield from half_a_pair(document, ("coordination", "tls"), tls)
    if "url" not in section:
        return
    try:
        url = redis_url(section["url"])
    except PydanticCustomError:
        return
    for key, in_url in (("username", url.username), ("password", url.password)):
        if key in section and in_url is not None:
            message = f"stands beside a URL that holds a {key}"
            yield document.problem(("coordination", key), message, "keep one of them", at_key=True)
    if tls and url.tls is None:
        message = "stands beside a URL without TLS"
        yield document.problem(("coordination", "tls"), message, "write rediss:// or remove it", at_key=True)


def _heartbeat(document: Document, section: Raw) -> Iterator[Problem]:
    """A member that misses one heartbeat must not be given up for it."""
    default = CoordinationSection()
    heartbeat_s, timeout_s = default.heartbeat_s, default.member_timeout_s
    with suppress(PydanticCustomError):
        heartbeat_s = seconds(section["heartbeat"]) if "heartbeat" in section else heartbeat_s
        timeout_s = seconds(section["member_timeout"]) if "member_timeout" in section else timeout_s
        if heartbeat_s >= timeout_s / 2:
            key = "heartbeat" if "heartbeat" in section else "member_timeout"
            message = (
                f"`heartbeat` is {show_seconds(heartbeat_s)} and must be less than half of `member_timeout`, "
                f"{show_seconds(timeout_s)}"
            )
            fix = f"lower `heartbeat`, or raise `member_timeout` above {show_seconds(2 * heartbeat_s)}"
            yield document.problem(("coordination", key), message, fix)
