"""Finds out which engine answers behind an address, and says how it knew. Asks for pages only, never for a token.

``/v1/models`` comes first: most engines give themselves away there by ``owned_by`` or the ``Server`` header. Only when
that does not tell are four more pages asked for, at once: ``/info`` (TGI), ``/get_model_info`` (SGLang), ``/v2``
(Triton) and ``/`` (Ollama). When nothing tells, the server is taken for a generic OpenAI-compatible one.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from pulsegate.core.fleet import EngineName
from pulsegate.core.probe import FaultClass
from pulsegate.engines.models import Fetch, Setback, entries_of, one_of, openai_models
from pulsegate.engines.page import Page

_OWNERS: Final[Mapping[str, EngineName]] = {
    "vllm": EngineName.VLLM,
    "sglang": EngineName.SGLANG,
    "tensorrt_llm": EngineName.TRTLLM,
    "lmdeploy": EngineName.LMDEPLOY,
    "llamacpp": EngineName.LLAMACPP,
}
_CLOSER: Final = ("/info", "/get_model_info", "/v2", "/")
# A listing that fails in these ways says nothing about who answers: the path is missing, or only the listing is broken.
_TELLS_NOTHING: Final = frozenset(
    {FaultClass.NOT_FOUND, FaultClass.BAD_REQUEST, FaultClass.SERVER, FaultClass.PROTOCOL, FaultClass.REDIRECT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What answers there.

    ``model`` is None if the answers did not name one; ``evidence`` is fit for people. ``sure`` is false when the
    server was too sick to tell, so that it has to be asked again.
    """

    engine: EngineName
    model: str | None
    evidence: str
    sure: bool = True


async def discover(fetch: Fetch, wanted: str | None = None) -> Discovery | Setback:
    """Find out, or say why the server could not be asked. ``wanted``: the model's public name, if it has one."""
    listing = await fetch("/v1/models")
    if not listing.ok and (listing.fault is None or listing.fault.kind not in _TELLS_NOTHING):
        return Setback(page=listing, fault=listing.fault)
    if found := _by_listing(listing, wanted):
        return found
    if found := await _by_closer_look(fetch):
        return found
    names = openai_models(listing.json()) if listing.ok else []
    seen = "/v1/models answers" if listing.ok else "nothing gave it away"
    return Discovery(
        engine=EngineName.OPENAI,
        model=one_of(names, wanted),
        evidence=f"{seen}, so it is spoken to as a generic OpenAI-compatible server",
        sure=listing.ok,
    )


def _by_listing(page: Page, wanted: str | None) -> Discovery | None:
    listing = page.json() if page.ok else None
    model = one_of(openai_models(listing), wanted)
    if page.headers.get("server", "").lower().startswith("llama.cpp"):
        return Discovery(engine=EngineName.LLAMACPP, model=model, evidence="header Server: llama.cpp")
    for entry in entries_of(listing, "data"):
        owner = entry.get("owned_by")
        if isinstance(owner, str) and (engine := _OWNERS.get(owner.lower())):
            return Discovery(engine=engine, model=model, evidence=f'owned_by "{owner}" in /v1/models')
    return None


async def _by_closer_look(fetch: Fetch) -> Discovery | None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(fetch(path)) for path in _CLOSER]
    info, sglang, triton, root = (task.result() for task in tasks)
    fields = _fields(info)
    if fields.get("router") == "text-generation-router" or {"model_id", "max_total_tokens"} <= fields.keys():
        return Discovery(engine=EngineName.TGI, model=_name(fields, "model_id"), evidence="router in /info")
    fields = _fields(sglang)
    if "model_path" in fields and "is_generation" in fields:
        model = _name(fields, "served_model_name") or _name(fields, "model_path")
        return Discovery(engine=EngineName.SGLANG, model=model, evidence="model_path in /get_model_info")
    if _fields(triton).get("name") == "triton":
        return Discovery(engine=EngineName.TRITON, model=None, evidence='name "triton" in /v2')
    if root.ok and root.body.startswith(b"Ollama is running"):
        return Discovery(engine=EngineName.OLLAMA, model=None, evidence='"Ollama is running" at /')
    return None


def _fields(page: Page) -> Mapping[str, object]:
    value = page.json() if page.ok else None
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _name(fields: Mapping[str, object], key: str) -> str | None:
    value = fields.get(key)
    return value if isinstance(value, str) and value else None
