"""Which host names of a configuration are not found, each with its place. How a name is looked up is the caller's part.

Not part of what makes a file right: a server that is not there yet is not a mistake, unless somebody asks.
"""

from collections.abc import Callable, Iterator, Sequence

from pulsegate.config.document import Document
from pulsegate.config.errors import Problem
from pulsegate.config.models import ModelSection
from pulsegate.config.redaction import KeyPath
from pulsegate.config.services import ProviderSection

Resolve = Callable[[str], str | None]
"""Looks a host name up; says why it is not found, None if it is."""

_FIX = "correct the name, or check without --resolve while it does not exist yet"


def problems(
    document: Document, models: Sequence[ModelSection], providers: Sequence[ProviderSection], resolve: Resolve
) -> Iterator[Problem]:
    """One problem for each place that names a host which is not found. Each name is looked up once."""
    answers: dict[str, str | None] = {"": None}  # a Unix socket has no host
    for path, host in _hosts(models, providers):
        if host not in answers:
            answers[host] = resolve(host)
        reason = answers[host]
        if reason is not None:
            yield document.problem(path, f"`{host}` cannot be resolved here: {reason}", _FIX)


def _hosts(models: Sequence[ModelSection], providers: Sequence[ProviderSection]) -> Iterator[tuple[KeyPath, str]]:
    for number, model in enumerate(models):
        for index, endpoint in enumerate(model.endpoints):
            yield ("models", number, "endpoints", index, "url"), endpoint.url.host
    for number, provider in enumerate(providers):
        yield ("providers", number, "base_url"), provider.base_url.host
