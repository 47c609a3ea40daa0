"""Which Redis server to talk to: asked anew whenever a connection is made, because it may have changed.

Everything is said to one server: to the only one, to the one that the Sentinels call the master, or to the one that
holds the fleet's slot of a cluster. There the messages are heard too, so that they come in the order in which they were
written.
"""

from typing import cast

from redis.exceptions import AuthenticationError, MovedError, ResponseError

from pulsegate.coordination.redis_line import Gone, Line, Place, open_line
from pulsegate.core.coordination import RedisAddress, RedisKind, RedisSpec

_MOST_MOVES = 3


async def find_server(spec: RedisSpec, key: str) -> Place:
    """Where ``key`` lives.

    Raises:
        Gone: nobody says.
    """
    if spec.unix_path is not None:
        return spec.unix_path
    if spec.kind is RedisKind.SERVER:
        return spec.addresses[0]
    ask = _ask_sentinel if spec.kind is RedisKind.SENTINEL else _ask_node
    failure = Gone("no address to ask at")
    for address in spec.addresses:
        try:
            return await ask(address, spec, key)
        except Gone as exc:
            failure = exc
    raise failure


async def _ask_sentinel(address: RedisAddress, spec: RedisSpec, _key: str) -> RedisAddress:
    """Sentinels seldom ask for a password; one that does is given that of the server."""
    async with open_line(address, spec, anonymous=True) as line:
        with line.blame():
            try:
                return await _master(line, spec.service)
            except (AuthenticationError, ResponseError):
                if spec.password is None:
                    raise
    async with open_line(address, spec) as line:
        with line.blame():
            return await _master(line, spec.service)


async def _master(line: Line, service: str) -> RedisAddress:
    match await line.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service):
        case [bytes(host), bytes(port)]:
            return RedisAddress(host.decode(), int(port))
        case _:
            raise Gone(f"{line.name}: this Sentinel knows no service {service}")


async def _ask_node(address: RedisAddress, spec: RedisSpec, key: str) -> RedisAddress:
    """A node that does not hold the key says who does."""
    for _ in range(_MOST_MOVES):
        async with open_line(address, spec) as line:
            with line.blame():
                try:
                    await line.ask("HLEN", key)
                except MovedError as moved:
                    address = _where(moved, address)
                else:
                    return address
    raise Gone(f"redis at {address}: the cluster sends us round in circles")


def _where(moved: MovedError, asked: RedisAddress) -> RedisAddress:
    """A node that does not know its own host names none and means the one that was asked."""
    host, port = cast("tuple[str, int]", (moved.host, moved.port))  # pyright: ignore[reportUnknownMemberType] - untyped
    return RedisAddress(host or asked.host, port)
