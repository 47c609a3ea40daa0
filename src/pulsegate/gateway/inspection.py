"""Whether a worker could serve by a setup, found out without serving: reads every file that it names."""

from pulsegate.gateway.access import AccessLog, open_log
from pulsegate.gateway.keys import load_keys
from pulsegate.gateway.roster import check
from pulsegate.gateway.server import server_context
from pulsegate.gateway.setup import Setup
from pulsegate.trust import client_context


def inspect(setup: Setup) -> None:
    """Look at a setup before anybody is told to serve by it.

    Raises:
        ValueError: it contradicts itself, or a file cannot be read or is not what it should be; the message says which.
    """
    check(setup)
    if setup.keys_file is not None:
        load_keys(setup.keys_file, None)
    if setup.tls is not None:
        server_context(setup.tls)
    users = {endpoint.tls: endpoint.id for pool in setup.pools for endpoint in pool.endpoints}
    for tls, endpoint in users.items():
        try:
            if tls is not None:
                client_context(tls)
        except OSError as exc:
            raise ValueError(f"endpoint {endpoint}: its TLS files cannot be read: {exc}") from exc
    AccessLog(open_log(setup.access_log)).close()
