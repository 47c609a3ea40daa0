"""Which routes each engine serves and how it behaves apart from its pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pulsegate.sim.request import Route
from pulsegate.sim.wires import ChatWire, CompletionsWire, Flavour, ResponsesWire, Wire
from pulsegate.sim.wires_native import LlamaCppWire, OllamaWire, SglangWire, TgiWire, TritonWire


class HeadAt(StrEnum):
    """When the status line of a streamed answer leaves."""

    ONCE = "once"  # before the request has even been queued
    SLOT = "slot"  # when a slot begins to work on it
    TOKEN = "token"  # noqa: S105 - with the first token


class WhileLoading(StrEnum):
    """What a starting engine does with a connection."""

    REFUSES = "refuses"  # nothing listens yet
    SAYS_SO = "says_so"  # 503 and the like
    WAITS = "waits"  # the request waits for the model


@dataclass(frozen=True, slots=True)
class Served:
    """One generation route."""

    route: Route
    wire: Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine's or provider's manners.

    ``hangs_frozen``: paths that need the engine loop, so they hang while it stands still. ``models``: where it lists
    its models; ``guards_models``: for those only who show a key.
    """

    name: str
    server: str
    routes: Mapping[str, Served]
    health: frozenset[str]
    head_at: HeadAt = HeadAt.ONCE
    while_loading: WhileLoading = WhileLoading.REFUSES
    hangs_frozen: frozenset[str] = frozenset()
    checks_model: bool = True
    busy_in_stream: bool = False  # a full queue is told inside a 200 stream
    json_type: str = "application/json"
    models: str = "/v1/models"
    guards_models: bool = False


def _openai(flavour: Flavour, *, responses: bool = True, embeddings: bool = True) -> dict[str, Served]:
    routes = {
        "/v1/completions": Served(Route.COMPLETIONS, CompletionsWire(flavour)),
        "/v1/chat/completions": Served(Route.CHAT, ChatWire(flavour)),
    }
    if responses:
        routes["/v1/responses"] = Served(Route.RESPONSES, ResponsesWire())
    if embeddings:
        routes["/v1/embeddings"] = Served(Route.EMBEDDINGS, CompletionsWire(flavour))
    return routes


def _vllm() -> Dialect:
    return Dialect(
        name="vllm",
        server="uvicorn",
        routes=_openai(Flavour(fingerprint="vllm-0.32.0-sim")),
        health=frozenset({"/health", "/ping", "/load"}),
    )


def _sglang() -> Dialect:
    return Dialect(
        name="sglang",
        server="uvicorn",
        routes=_openai(Flavour()) | {"/generate": Served(Route.SGLANG, SglangWire())},
        health=frozenset({"/health", "/health_generate"}),
        while_loading=WhileLoading.SAYS_SO,
        hangs_frozen=frozenset({"/health_generate"}),
        busy_in_stream=True,
    )


def _tgi() -> Dialect:
    native = {
        "/generate": Served(Route.TGI, TgiWire()),
        "/generate_stream": Served(Route.TGI_STREAM, TgiWire()),
        "/": Served(Route.TGI, TgiWire()),
    }
    return Dialect(
        name="tgi",
        server="",
        routes=_openai(Flavour(finish_apart=True, fingerprint="3.3.6-sim"), responses=False, embeddings=False) | native,
        health=frozenset({"/health", "/ping"}),
        checks_model=False,
        busy_in_stream=True,
    )


def _trtllm() -> Dialect:
    return Dialect(
        name="trtllm",
        server="uvicorn",
        routes=_openai(Flavour(), embeddings=False),
        health=frozenset({"/health", "/health_generate"}),
        hangs_frozen=frozenset({"/health_generate"}),
    )


def _triton() -> Dialect:
    wire = TritonWire()
    return Dialect(
        name="triton",
        server="",
        routes={
            "/v2/models/{model}/generate": Served(Route.TRITON, wire),
            "/v2/models/{model}/generate_stream": Served(Route.TRITON_STREAM, wire),
        },
        health=frozenset({"/v2/health/live", "/v2/health/ready", "/v2/models/{model}/ready"}),
        head_at=HeadAt.TOKEN,
        while_loading=WhileLoading.SAYS_SO,
    )


def _llamacpp() -> Dialect:
    flavour = Flavour(finish_apart=True, usage_in_finish=True, role_content=b"null", fingerprint="b0-sim")
    return Dialect(
        name="llamacpp",
        server="llama.cpp",
        routes=_openai(flavour)
        | {
            "/completion": Served(Route.LLAMACPP, LlamaCppWire()),
            "/completions": Served(Route.LLAMACPP, LlamaCppWire()),
        },
        health=frozenset({"/health", "/v1/health"}),
        head_at=HeadAt.SLOT,
        while_loading=WhileLoading.SAYS_SO,
        hangs_frozen=frozenset({"/metrics", "/slots"}),
        checks_model=False,
        json_type="application/json; charset=utf-8",
    )


def _ollama() -> Dialect:
    completions = Flavour(finish_apart=True, zero_usage=True, fingerprint="fp_ollama")
    routes = _openai(Flavour(finish_apart=True, fingerprint="fp_ollama"), responses=False)
    routes["/v1/completions"] = Served(Route.COMPLETIONS, CompletionsWire(completions))
    routes["/api/generate"] = Served(Route.OLLAMA, OllamaWire(chat=False))
    routes["/api/chat"] = Served(Route.OLLAMA_CHAT, OllamaWire(chat=True))
    return Dialect(
        name="ollama",
        server="",
        routes=routes,
        health=frozenset({"/"}),
        head_at=HeadAt.TOKEN,
        while_loading=WhileLoading.WAITS,
        json_type="application/json; charset=utf-8",
    )


def _lmdeploy() -> Dialect:
    return Dialect(
        name="lmdeploy",
        server="uvicorn",
        routes=_openai(Flavour(usage_in_finish=True), responses=False, embeddings=False),
        health=frozenset({"/health"}),
        while_loading=WhileLoading.SAYS_SO,
    )


def _generic() -> Dialect:
    return Dialect(
        name="openai",
        server="",
        routes=_openai(Flavour(finish_apart=True, fingerprint="fp_sim")),
        health=frozenset({"/health", "/healthz"}),
        while_loading=WhileLoading.SAYS_SO,
    )


def _hosted(name: str, base: str) -> Dialect:
    """A hosted provider: chat below its own base path, and nothing that tells of health."""
    return Dialect(
        name=name,
        server="",
        routes={f"{base}/chat/completions": Served(Route.CHAT, ChatWire(Flavour(finish_apart=True)))},
        health=frozenset(),
        models=f"{base}/models",
        guards_models=True,
    )


_BASES = {"deepseek": "/v1", "zhipu": "/api/paas/v4", "dashscope": "/compatible-mode/v1"}
PROVIDER_NAMES = tuple(_BASES)
_MAKERS = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tgi": _tgi,
    "trtllm": _trtllm,
    "triton": _triton,
    "llamacpp": _llamacpp,
    "ollama": _ollama,
    "lmdeploy": _lmdeploy,
    "openai": _generic,
}
ENGINE_NAMES = tuple(_MAKERS)
DIALECT_NAMES = ENGINE_NAMES + PROVIDER_NAMES


def dialect(name: str) -> Dialect:
    """The manners of one engine or provider.

    Raises:
        KeyError: there is no such engine.
    """
    base = _BASES.get(name)
    return _MAKERS[name]() if base is None else _hosted(name, base)
