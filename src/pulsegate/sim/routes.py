"""Which route and which group of paths a request belongs to."""

import re

from pulsegate.sim.dialects import Dialect, Served
from pulsegate.sim.request import Request
from pulsegate.sim.script import Group

_MODEL_IN_PATH = re.compile(r"(/v2/models/)([^/]+)(/.*)?")
_MODELS = frozenset({"/v1/models", "/models", "/api/tags", "/api/ps", "/info", "/get_model_info", "/v2"})
_METRICS = frozenset({"/metrics", "/prometheus/metrics"})
_GEN = frozenset({Group.GEN})
_HEALTH = frozenset({Group.HEALTH})
_MODEL_LIST = frozenset({Group.MODELS})
_METRIC_PAGE = frozenset({Group.METRICS})
_OTHER: frozenset[Group] = frozenset({Group.ANY})


def pattern_of(path: str) -> tuple[str, str | None]:
    """The path with the model's name taken out, and that name: ``/v2/models/{model}/generate``."""
    found = _MODEL_IN_PATH.fullmatch(path)
    if found is None:
        return path, None
    before, model, after = found.groups()
    return f"{before}{{model}}{after or ''}", model


def find_route(dialect: Dialect, request: Request) -> tuple[Served, str | None] | None:
    """The generation route of a POST and the model named in its path."""
    if request.method != "POST":
        return None
    served = dialect.routes.get(request.path)
    if served is not None:
        return served, None
    pattern, model = pattern_of(request.path)
    served = dialect.routes.get(pattern)
    return (served, model) if served is not None else None


def groups_of(dialect: Dialect, request: Request) -> frozenset[Group]:
    """The group that the path of ``request`` belongs to."""
    if find_route(dialect, request) is not None:
        return _GEN
    pattern, _ = pattern_of(request.path)
    if pattern in dialect.health:
        return _HEALTH
    if request.path in _METRICS:
        return _METRIC_PAGE
    return (
        _MODEL_LIST
        if request.path in _MODELS or request.path == dialect.models or pattern == "/v2/models/{model}"
        else _OTHER
    )
