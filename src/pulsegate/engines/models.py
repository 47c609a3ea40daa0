"""Asks a server which model it serves. Decides which one of several is probed, and asked for by users' requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import Fault, FaultClass
from pulsegate.engines.page import Page

# Triton: where an ensemble keeps its parts beside it, the whole is what users ask
_WHOLES: Final = ("ensemble", "tensorrt_llm_bls", "vllm_model")
_PARTS: Final = frozenset({"preprocessing", "postprocessing", "tensorrt_llm"})


class Fetch(Protocol):
    """Gets a page of the server, within what is left of the deadline."""

    async def __call__(self, path: str, *, method: str = "GET") -> Page:
        """The page."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """The server could not be asked: a fault, or the deadline (``fault`` None)."""

    page: Page
    fault: Fault | None


def one_of(names: Sequence[str], wanted: str | None) -> str | None:
    """The public name if the server knows it, else the first one."""
    return wanted if wanted in names else next(iter(names), None)


async def served_model(engine: EngineName, fetch: Fetch, wanted: str | None = None) -> str | Setback:
    """The name to ask that server for, or why it could not be learned. ``wanted``: the model's public name."""
    match engine:
        case EngineName.TRITON:
            pages = (("/v2/repository/index", "POST", _triton_models),)
        case EngineName.OLLAMA:
            pages = (("/api/ps", "GET", _ollama_models), ("/api/tags", "GET", _ollama_models))
        case _:
            pages = (("/v1/models", "GET", openai_models),)
    known: list[str] = []
    setback: Setback | None = None
    for path, method, names_in in pages:
        page = await fetch(path, method=method)
        if page.ok:
            known += names_in(page.json())
            setback = setback or Setback(page=page, fault=_no_model(path))
        else:
            setback = Setback(page=page, fault=page.fault)
        if wanted in known or not page.ok:
            break
    assert setback is not None  # noqa: S101 - there is at least one page
    return one_of(known, wanted) or setback


def _no_model(path: str) -> Fault:
    detail = f"{path} names no model that is ready; load one, or name the model in the configuration"
    return Fault(kind=FaultClass.NOT_FOUND, detail=detail, status=200)


def openai_models(listing: object) -> list[str]:
    """Of ``/v1/models``: base models before adapters, which name the model that they sit on as their parent."""
    entries = [entry for entry in entries_of(listing, "data") if isinstance(entry.get("id"), str)]
    entries.sort(key=lambda entry: entry.get("parent") is not None)
    return [cast("str", entry["id"]) for entry in entries]


def _ollama_models(listing: object) -> list[str]:
    entries = entries_of(listing, "models")
    names = (entry.get("model") or entry.get("name") for entry in entries)
    return [name for name in names if isinstance(name, str)]


def _triton_models(listing: object) -> list[str]:
    entries = entries_of({"models": listing}, "models")
    ready = [entry.get("name") for entry in entries if entry.get("state", "READY") == "READY"]
    names = [name for name in ready if isinstance(name, str)]
    names.sort(key=lambda name: (name not in _WHOLES, name in _PARTS))
    return names


def entries_of(listing: object, key: str) -> Sequence[Mapping[str, object]]:
    """The objects in the list under ``key``; empty for anything else."""
    if not isinstance(listing, dict):
        return ()
    entries = cast("dict[str, object]", listing).get(key)
    if not isinstance(entries, list):
        return ()
    return [cast("dict[str, object]", entry) for entry in cast("list[object]", entries) if isinstance(entry, dict)]
