"""What holds between sections: names that are unique, names that exist, thresholds in order.

The rules look at the raw data, whatever else is wrong with it, so that all problems are reported at once. Values that
cannot be read are left to the schema to complain about.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from pydantic_core import PydanticCustomError

from pulsegate.config import raw
from pulsegate.config.address import Listen, endpoint_url, listen
from pulsegate.config.document import Document
from pulsegate.config.errors import Problem
from pulsegate.config.raw import Placed
from pulsegate.config.redaction import KeyPath
from pulsegate.config.services import AdminSection, GatewaySection


def problems(document: Document) -> Iterator[Problem]:
    """Everything that is wrong between sections."""
    models, providers = raw.mappings(document.data, "models"), raw.mappings(document.data, "providers")
    yield from _unique_names(document, models)
    yield from _unique_names(document, providers)
    yield from _endpoints(document, models)
    yield from _fallbacks(document, models)
    yield from _providers(document, models, providers)
    yield from _provider_limits(document, providers)
    yield from _listeners(document)


def _unique_names(document: Document, items: list[Placed]) -> Iterator[Problem]:
    first: dict[str, KeyPath] = {}
    for path, item in items:
        name = item.get("name")
        if not isinstance(name, str):
            continue
        if name in first:
            line = document.line_of((*first[name], "name"))
            yield document.problem((*path, "name"), f"`{name}` is taken, on line {line}", "give each its own name")
        first.setdefault(name, path)


def _endpoints(document: Document, models: list[Placed]) -> Iterator[Problem]:
    ids: dict[str, KeyPath] = {}
    servers: dict[tuple[str, object], KeyPath] = {}
    for path, endpoint in raw.endpoints(models):
        key = "url" if "url" in endpoint else ""
        at = (*path, key) if key else path
        try:
            url = endpoint_url(endpoint.get(key))
        except PydanticCustomError:
            continue
        server = (url.text, endpoint.get("model"))
        name = str(endpoint.get("id") or url.default_id)
        if server in servers:
            line = document.line_of(servers[server])
            yield document.problem(at, f"this server is listed already, on line {line}", "remove one of them")
        elif name in ids:
            line = document.line_of(ids[name])
            fix = f"give one of them another `id`, e.g. id: {name}-2"
            where = (*path, "id") if "id" in endpoint else at
            yield document.problem(where, f"the endpoint id `{name}` is taken, on line {line}", fix)
        servers.setdefault(server, at)
        ids.setdefault(name, at)


def _fallbacks(document: Document, models: list[Placed]) -> Iterator[Problem]:
    graph: dict[str, list[str]] = {}
    places: dict[tuple[str, str], KeyPath] = {}
    for path, item in models:
        name = item.get("name")
        if not isinstance(name, str) or name in graph:
            continue
        graph[name] = []
        for index, target in enumerate(raw.items(item, "fallbacks")):
            if isinstance(target, str) and target not in graph[name]:
                graph[name].append(target)
                places[name, target] = (*path, "fallbacks", index)
            elif isinstance(target, str):
                yield document.problem((*path, "fallbacks", index), f"`{target}` is listed already", "remove it")
    for (name, target), at in places.items():
        if target not in graph:
            yield document.problem(at, f"no model is called `{target}`", _nearest(target, list(graph)))
        elif target == name:
            yield document.problem(at, f"`{name}` falls back on itself", "remove it")
    for cycle in _cycles(graph):
        message = f"fallbacks go round in a circle: {' -> '.join((*cycle, cycle[0]))}"
        yield document.problem(places[cycle[-1], cycle[0]], message, "remove one of these fallbacks")


def _cycles(graph: Mapping[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """The circles that a walk along the fallbacks closes, each once; those of one model are reported elsewhere."""
    done: set[str] = set()
    for start in graph:
        trail: list[str] = []
        pending: list[tuple[str, bool]] = [(start, False)]
        while pending:
            name, leaving = pending.pop()
            if leaving:
                trail.pop()
                done.add(name)
            elif name in trail:
                cycle = tuple(trail[trail.index(name) :])
                if len(cycle) > 1:
                    yield cycle
            elif name in graph and name not in done:
                trail.append(name)
                pending.append((name, True))
                pending.extend((target, False) for target in reversed(graph[name]))


def _providers(document: Document, models: list[Placed], providers: list[Placed]) -> Iterator[Problem]:
    known = [name for _, item in providers if isinstance(name := item.get("name"), str)]
    for path, item in models:
        wanted = item.get("provider")
        if isinstance(wanted, str) and wanted not in known:
            message = f"no provider is called `{wanted}`"
            yield document.problem((*path, "provider"), message, _nearest(wanted, known, "add it under `providers`"))


def _provider_limits(document: Document, providers: list[Placed]) -> Iterator[Problem]:
    known = [name for _, item in providers if isinstance(name := item.get("name"), str)]
    for name in raw.mapping(raw.mapping(document.data, "costs"), "provider_limits"):
        if name not in known:
            path = ("costs", "provider_limits", name)
            yield document.problem(path, f"no provider is called `{name}`", _nearest(name, known), at_key=True)


def _nearest(name: str, known: list[str], otherwise: str | None = None) -> str | None:
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return otherwise or (f"known are {', '.join(known[:10])}" if known else None)


def _listeners(document: Document) -> Iterator[Problem]:
    defaults = {"gateway": GatewaySection().listen, "admin": AdminSection().listen}
    found: dict[str, Listen] = {}
    for name, default in defaults.items():
        section = raw.mapping(document.data, name)
        try:
            found[name] = listen(section["listen"]) if "listen" in section else default
        except PydanticCustomError:
            return
    gateway, admin = found["gateway"], found["admin"]
    if gateway == admin and admin.port:
        blamed, other = ("admin", "gateway") if ("admin", "listen") in document.values else ("gateway", "admin")
        message = f"`{admin}` is the address of `{other}.listen` too"
        yield document.problem((blamed, "listen"), message, "give them different ports")
