"""What holds between keys: names that are unique, names that exist, thresholds in order.

The rules look at the raw data, whatever else is wrong with it, so that all problems are reported at once. Values that
cannot be read are left to the schema to complain about.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import cast

from pydantic_core import PydanticCustomError

from pulsegate.config.address import HttpUrl, Listen, endpoint_url, listen
from pulsegate.config.document import Document
from pulsegate.config.errors import KeyPath, Problem
from pulsegate.config.services import AdminSection, GatewaySection

Items = list[tuple[KeyPath, Mapping[str, object]]]


def problems(document: Document) -> Iterator[Problem]:
    """Everything that is wrong between keys."""
    root = cast("Mapping[str, object]", document.data)
    models, providers = _mappings(root.get("models"), ("models",)), _mappings(root.get("providers"), ("providers",))
    yield from _unique_names(document, models)
    yield from _unique_names(document, providers)
    yield from _endpoints(document, models)
    yield from _fallbacks(document, models)
    yield from _providers(document, models, providers)
    yield from _listeners(document, root)


def _mappings(value: object, path: KeyPath) -> Items:
    if not isinstance(value, list):
        return []
    items = enumerate(cast("list[object]", value))
    return [((*path, index), cast("Mapping[str, object]", item)) for index, item in items if isinstance(item, dict)]


def _unique_names(document: Document, items: Items) -> Iterator[Problem]:
    first: dict[str, KeyPath] = {}
    for path, item in items:
        name = item.get("name")
        if not isinstance(name, str):
            continue
        if name in first:
            line = document.line_of((*first[name], "name"))
            yield document.problem((*path, "name"), f"`{name}` is taken, on line {line}", "give each its own name")
        first.setdefault(name, path)


def _endpoints(document: Document, models: Items) -> Iterator[Problem]:
    ids: dict[str, KeyPath] = {}
    servers: dict[tuple[str, object], KeyPath] = {}
    for path, item in models:
        for at, url, endpoint in _endpoint_items(item, path):
            server = (url.text, endpoint.get("model"))
            given = endpoint.get("id")
            name = given if isinstance(given, str) else url.default_id
            if server in servers:
                line = document.line_of(servers[server])
                yield document.problem(at, f"{url.text} is listed already, on line {line}", "remove one of them")
            elif name in ids:
                line = document.line_of(ids[name])
                fix = f"give one of them another `id`, e.g. id: {name}-2"
                yield document.problem(at, f"the endpoint id `{name}` is taken, on line {line}", fix)
            servers.setdefault(server, at)
            ids.setdefault(name, at)


def _endpoint_items(
    model: Mapping[str, object], path: KeyPath
) -> Iterator[tuple[KeyPath, HttpUrl, Mapping[str, object]]]:
    listed = model.get("endpoints")
    for index, item in enumerate(cast("list[object]", listed) if isinstance(listed, list) else []):
        at = (*path, "endpoints", index)
        endpoint: Mapping[str, object] = cast("Mapping[str, object]", item) if isinstance(item, dict) else {"url": item}
        try:
            url = endpoint_url(endpoint.get("url"))
        except PydanticCustomError:
            continue
        yield ((*at, "url") if isinstance(item, dict) else at), url, endpoint


def _fallbacks(document: Document, models: Items) -> Iterator[Problem]:
    graph: dict[str, list[str]] = {}
    places: dict[tuple[str, str], KeyPath] = {}
    for path, item in models:
        name, listed = item.get("name"), item.get("fallbacks")
        if not isinstance(name, str) or name in graph:
            continue
        targets = cast("list[object]", listed) if isinstance(listed, list) else []
        graph[name] = []
        for index, target in enumerate(targets):
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


def _providers(document: Document, models: Items, providers: Items) -> Iterator[Problem]:
    known = [name for _, item in providers if isinstance(name := item.get("name"), str)]
    for path, item in models:
        wanted = item.get("provider")
        if isinstance(wanted, str) and wanted not in known:
            message = f"no provider is called `{wanted}`"
            yield document.problem((*path, "provider"), message, _nearest(wanted, known, "add it under `providers`"))


def _nearest(name: str, known: list[str], otherwise: str | None = None) -> str | None:
    near = get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    return otherwise or (f"known are {', '.join(known[:10])}" if known else None)


def _listeners(document: Document, root: Mapping[str, object]) -> Iterator[Problem]:
    defaults = {"gateway": GatewaySection().listen, "admin": AdminSection().listen}
    found: dict[str, Listen] = {}
    for name, default in defaults.items():
        section = root.get(name)
        address = cast("Mapping[str, object]", section).get("listen") if isinstance(section, dict) else None
        try:
            found[name] = default if address is None else listen(address)
        except PydanticCustomError:
            return
    gateway, admin = found["gateway"], found["admin"]
    if gateway == admin and admin.port:
        blamed, other = ("admin", "gateway") if ("admin", "listen") in document.values else ("gateway", "admin")
        message = f"`{admin}` is the address of `{other}.listen` too"
        yield document.problem((blamed, "listen"), message, "give them different ports")
