"""One side speaks TLS and the other does not: how that shows, and what to put right."""

import re
from typing import Final

USE_HTTPS: Final = "the server speaks TLS: use https://"
USE_HTTP: Final = "the server does not speak TLS: use http://"

TLS_RECORD: Final = re.compile(rb"[\x14-\x17]\x03")
"""How an answer begins that is TLS and no HTTP, such as the alert that most servers send when asked in HTTP."""

_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})


def is_no_tls(reason: str | None) -> bool:
    """Whether this is how OpenSSL says that what came is no TLS at all (``ssl.SSLError.reason``)."""
    return reason in _NOT_TLS
