"""Walks the raw data of a file for rules that look at several keys at once, whatever else is wrong with it."""

from collections.abc import Iterator, Mapping
from typing import cast

from pulsegate.config.redaction import KeyPath

Raw = Mapping[str, object]
Placed = tuple[KeyPath, Raw]
"""A mapping of the file and where it stands."""


def mapping(holder: Raw, key: str) -> Raw:
    """The mapping under that key; empty when there is none."""
    value = holder.get(key)
    return cast("Raw", value) if isinstance(value, dict) else {}


def items(holder: Raw, key: str) -> list[object]:
    """The list under that key; empty when there is none."""
    value = holder.get(key)
    return cast("list[object]", value) if isinstance(value, list) else []


def mappings(root: Raw, key: str) -> list[Placed]:
    """The mappings in the list under that key."""
    return [((key, index), cast("Raw", item)) for index, item in enumerate(items(root, key)) if isinstance(item, dict)]


def endpoints(models: list[Placed]) -> Iterator[Placed]:
    """All endpoints of all models; those given as a URL alone as ``{"": url}``, at the place of the URL."""
    for path, model in models:
        for index, item in enumerate(items(model, "endpoints")):
            yield (*path, "endpoints", index), cast("Raw", item) if isinstance(item, dict) else {"": item}
