"""Keeps secrets out of what is shown of a configuration file."""

import re

from pulsegate.config.errors import KeyPath

MASK = "***"

_SECRET_KEY = re.compile(r"key|token|secret|passw|auth|credential|cookie|headers", re.IGNORECASE)
_SECRET_IN_LINE = re.compile(
    rf"(?P<key>[\w-]*(?:{_SECRET_KEY.pattern})[\w-]*[\"']?\s*:\s*)(?P<value>[^\s#].*)",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"//[^/@\s\"']*@")
_ONLY_A_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def is_secret(path: KeyPath) -> bool:
    """Whether what stands there, or might have been meant to stand there, is a secret.

    Names of files are none; misspelt keys (``apikey``) are taken for what they resemble.
    """
    return any(
        isinstance(step, str) and _SECRET_KEY.search(step) and not step.endswith(("_file", "_header", "_headers"))
        for step in path
    )


def is_reference(text: str) -> bool:
    """Whether the text is nothing but ``${NAME}``, which may be shown."""
    return _ONLY_A_REFERENCE.fullmatch(text) is not None


def mask_userinfo(text: str) -> str:
    """Masks ``user:password@`` in URLs."""
    return _USERINFO.sub(f"//{MASK}@", text)


def mask_line(line: str) -> str:
    """Masks by looks alone, for lines that could not be parsed."""
    return mask_userinfo(_SECRET_IN_LINE.sub(rf"\g<key>{MASK}", line))
