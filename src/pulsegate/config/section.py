"""What all sections of the file have in common, and the types that several of them use."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
)

from pulsegate.config.units import Switch, rejected


class Section(BaseModel):
    """A mapping in the file. Attributes carry their units, the file's keys (aliases) do not."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


def _to_tuple(value: object) -> object:
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


Listed = BeforeValidator(_to_tuple)
"""YAML's lists are kept as tuples."""


def _regular_expression(value: str) -> str:
    try:
        re.compile(value)
    except re.error as exc:
        raise rejected(f"is not a regular expression: {exc.msg} at position {exc.pos}") from exc
    return value


def _existing_file(value: str, info: ValidationInfo) -> str:
    """Paths are relative to the configuration file, so that it does not matter where Pulsegate is started."""
    path = in_directory_of_file(value, info)
    if path.is_dir():
        raise rejected("is a directory", "name a file")
    try:
        with path.open("rb"):
            pass
    except OSError as exc:
        raise rejected(f"cannot be read: {exc.strerror}", f"looked for {path}") from exc
    return str(path)


def in_directory_of_file(value: str, info: ValidationInfo) -> Path:
    """A path of the file, made absolute."""
    context = cast("Mapping[str, object]", info.context or {})
    return Path(cast("Path", context.get("directory", Path())), Path(value).expanduser()).absolute()


def _secret(value: object) -> object:
    """Secrets are text without spaces; the value is never part of a message."""
    if not isinstance(value, str):
        raise rejected("must be text", "quote it")
    if not value:
        raise rejected("is empty", "set it, or remove the key")
    if value != value.strip():
        raise rejected("begins or ends with a space or line break", "remove it, also from the environment variable")
    if not re.fullmatch(r"[\x21-\x7e]+", value):
        raise rejected("holds a space, a control character or a letter beyond ASCII")
    return SecretStr(str(value))


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
    | {"x-llm-probe", "x-request-id", "x-data-parallel-rank"}
)


def _header_name(value: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise rejected("is not a header name", "use letters, digits and hyphens")
    if value.lower() in _OWN_HEADERS:
        raise rejected("is a header that Pulsegate sets itself", "name another header")
    return value


def _headers(value: object) -> object:
    if not isinstance(value, dict):
        raise rejected("must be a mapping of header names to values", 'write {X-Tenant: "a"}')
    headers: list[tuple[str, SecretStr]] = []
    for name, text in cast("dict[str, object]", value).items():
        # A name is shown only where it cannot be a value that lost its colon.
        if not _TOKEN.fullmatch(name):
            raise rejected("holds something that is not a header name", "write {Name: value}")
        if not isinstance(text, str):
            raise rejected("holds a name without a text beside it", 'write {Name: "value"}')
        if name.lower() in _OWN_HEADERS:
            raise rejected(f"names `{name}`, which Pulsegate sets itself", "remove it")
        if not re.fullmatch(r"[\x20-\x7e]*", text) or text != text.strip():
            raise rejected(f"has a value for `{name}` that a header cannot carry", "use printable ASCII, in quotes")
        headers.append((name, SecretStr(str(text))))
    if len({name.lower() for name, _ in headers}) < len(headers):
        raise rejected("names a header twice (upper and lower case do not matter)", "keep one of them")
    return tuple(headers)


Text = Annotated[str, Field(min_length=1)]
Pattern = Annotated[str, AfterValidator(_regular_expression)]
ExistingFile = Annotated[str, Field(min_length=1), AfterValidator(_existing_file)]
Secret = Annotated[SecretStr, BeforeValidator(_secret)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
Headers = Annotated[tuple[tuple[str, SecretStr], ...], BeforeValidator(_headers)]


class ServerTls(Section):
    """How a server is trusted: a private CA, a client certificate, another name than the URL's."""

    ca_file: ExistingFile | None = None
    cert_file: ExistingFile | None = None
    key_file: ExistingFile | None = None
    server_name: Text | None = None
    verify: Switch = True
