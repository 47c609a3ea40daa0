"""Makes what a server said fit for a log line: short, printable, on one line, without secrets.

Decides what may be repeated. Servers do repeat keys: ``Incorrect API key provided: sk-...`` is a common error body.
"""

import re
from collections.abc import Iterable

MAX_DETAIL_CHARS = 200
_MASK = "***"
_SHORTEST_SECRET_CHARS = 4  # masking shorter ones would eat ordinary words
_SCANNED_CHARS = 1024  # a message is shown by its beginning; the time to look for keys grows with its square

_KEY_SHAPES = re.compile(
    r"""
    (?P<lead>\b(?:bearer|basic)\s+)[^\s"',;]+                           # an Authorization value
  | (?P<name>\b(?:api[_-]?key|access[_-]?token|secret|password|authorization)\b["']?\s*[:=]\s*["']?)
    (?:(?:bearer|basic)\s+)?[^\s"',;}&]+
  | \bsk-[\w.*-]{4,}                                                    # OpenAI and those who copied it, masked or not
  | \b(?:hf|gsk|xai|pplx|nvapi|ghp|glpat)[_-][\w-]{8,}
  | \beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?                                 # a JSON web token
  | \b[0-9a-f]{32}\.\w{8,}                                              # Zhipu: id.secret
  | \b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9_-]{40,}                  # long and random: no word looks like this
    """,
    re.VERBOSE | re.IGNORECASE,
)


def _masked(match: re.Match[str]) -> str:
    return f"{match['lead'] or match['name'] or ''}{_MASK}"


def presentable(text: str, secrets: Iterable[str] = (), limit: int = MAX_DETAIL_CHARS) -> str:
    """At most ``limit`` printable characters of ``text`` on one line, with ``secrets`` and key-like words masked.

    Masking comes before cutting, so that no half of a key is left at the end.
    """
    text = text[:_SCANNED_CHARS]
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET_CHARS:
            text = text.replace(secret, _MASK)
    text = _KEY_SHAPES.sub(_masked, text)
    text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
