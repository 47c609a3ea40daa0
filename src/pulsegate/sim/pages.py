"""The pages of each engine that are not generations: health, models, version, what auto-detection looks at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec.json import encode

from pulsegate.sim.engine import Phase, SimEngine
from pulsegate.sim.metrics import metrics_page
from pulsegate.sim.request import Request
from pulsegate.sim.routes import pattern_of

_SICK = frozenset({Phase.DEAD, Phase.LOADING})


@dataclass(frozen=True, slots=True)
class Page:
    """One whole answer."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def page(engine: SimEngine, request: Request) -> Page | None:
    """The page at this path, None if this engine has none there."""
    pattern, model = pattern_of(request.path)
    if pattern in engine.dialect.health and request.method in {"GET", "HEAD"}:
        return _health(engine, pattern, model)
    if engine.phase is Phase.LOADING and engine.dialect.name == "llamacpp":
        return _LOADING
    if request.path in {"/metrics", "/prometheus/metrics"}:
        found = metrics_page(engine, request.path)
        # llama.cpp says when it started in a header; in truth it counts microseconds since boot.
        started = (("Process-Start-Time-Unix", str(int(engine.started_at * 1e6))),)
        headers = started if engine.dialect.name == "llamacpp" else ()
        return Page(200, *found, headers) if found is not None else None
    if request.path == engine.dialect.models and engine.dialect.name != "triton":
        return _json(_models(engine))
    content = _own(engine).get(request.path)
    return _json(content) if content is not None else None


def _json(content: object, status: int = 200) -> Page:
    return Page(status, encode(content), "application/json")


def _health(engine: SimEngine, pattern: str, model: str | None) -> Page:
    sick = engine.phase in _SICK
    match engine.dialect.name, pattern:
        case "vllm", "/load":
            found = _json({"server_load": engine.counters.open})
        case "tgi", _ if sick:
            found = _json({"error": "unhealthy", "error_type": "healthcheck"}, 503)
        case "trtllm", "/health_generate":
            found = Page(500 if sick else 200, b"Generation health check OK", "text/plain; charset=utf-8")
        case "trtllm", _ if sick:
            found = Page(503, b"LLM is unavailable. Please check the server logs.", "text/plain; charset=utf-8")
        case "triton", _:
            ready = not sick and model in {None, engine.config.model}
            found = Page(200 if ready or pattern == "/v2/health/live" else 400)
        case "llamacpp", _:
            found = _LOADING if engine.phase is Phase.LOADING else _json({"status": "ok"})
        case "ollama", _:
            found = Page(200, b"Ollama is running", "text/plain; charset=utf-8")
        case "lmdeploy", _:
            name = _LMDEPLOY_STATUS.get(engine.phase, "healthy")
            found = _json({"status": name, "message": name}, 503 if sick else 200)
        case _:
            found = Page(503 if sick else 200)
    return found


_LOADING = _json({"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, 503)
_LMDEPLOY_STATUS: Mapping[Phase, str] = {
    Phase.LOADING: "initializing",
    Phase.ASLEEP: "sleeping",
    Phase.DEAD: "unhealthy",
}


def _models(engine: SimEngine) -> dict[str, object]:
    model = engine.config.model
    entry: dict[str, object] = {
        "id": model,
        "object": "model",
        "created": engine.unix_time(),
        "owned_by": _OWNERS.get(engine.dialect.name, "system"),
    }
    if engine.dialect.name in {"vllm", "sglang"}:
        entry |= {"root": f"/models/{model}", "parent": None, "max_model_len": engine.load.max_model_len}
    listing: dict[str, object] = {"object": "list", "data": [entry]}
    if engine.dialect.name == "llamacpp":
        entry["meta"] = {"vocab_type": 2, "n_vocab": 49152, "n_ctx_train": engine.load.max_model_len}
        listing["models"] = [{"name": model, "model": model, "type": "model", "details": {"format": "gguf"}}]
    return listing


_OWNERS: Mapping[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tgi": "huggingface",
    "trtllm": "tensorrt_llm",
    "llamacpp": "llamacpp",
    "ollama": "library",
    "lmdeploy": "lmdeploy",
}


def _own(engine: SimEngine) -> dict[str, object]:
    """The pages that only this engine has, by path."""
    make = _OWN.get(engine.dialect.name)
    return make(engine) if make is not None else {}


def _sleep_page(engine: SimEngine) -> dict[str, object]:
    return {"/is_sleeping": {"is_sleeping": engine.phase is Phase.ASLEEP}}


def _vllm_pages(engine: SimEngine) -> dict[str, object]:
    return {"/version": {"version": "0.32.0"}, **_sleep_page(engine)}


def _sglang_pages(engine: SimEngine) -> dict[str, object]:
    path = f"/models/{engine.config.model}"
    info = {"model_path": path, "tokenizer_path": path, "is_generation": True}
    server = {"version": "0.5.6", "model_path": path, "dp_size": len(engine.ranks)}
    return {"/get_model_info": info, "/model_info": info, "/get_server_info": server, "/server_info": server}


def _llamacpp_pages(engine: SimEngine) -> dict[str, object]:
    load, taken = engine.load, engine.ranks[0].slots.taken
    props: dict[str, object] = {
        "default_generation_settings": {"n_ctx": load.max_model_len, "params": {"temperature": 0.8}},
        "total_slots": load.slots,
        "model_alias": engine.config.model,
        "model_path": f"/models/{engine.config.model}.gguf",
        "is_sleeping": engine.phase is Phase.ASLEEP,
        "build_info": "b0-sim",
    }
    return {
        "/props": props,
        "/slots": [{"id": n, "n_ctx": 4096, "is_processing": n < taken} for n in range(load.slots)],
    }


def _ollama_pages(engine: SimEngine) -> dict[str, object]:
    model = engine.config.model
    details = {"format": "gguf", "family": "llama", "parameter_size": "135M", "quantization_level": "Q4_0"}
    entry = {"name": model, "model": model, "size": 96_576_768, "digest": "0" * 64, "details": details}
    return {"/api/tags": {"models": [entry]}, "/api/ps": {"models": [entry]}, "/api/version": {"version": "0.12.6"}}


def _tgi_pages(engine: SimEngine) -> dict[str, object]:
    info = {
        "model_id": engine.config.model,
        "model_sha": None,
        "max_concurrent_requests": engine.load.slots,
        "max_input_tokens": engine.load.max_model_len - 1,
        "max_total_tokens": engine.load.max_model_len,
        "router": "text-generation-router",
        "version": "3.3.6",
        "sha": None,
        "docker_label": None,
    }
    return {"/info": info}


def _triton_pages(engine: SimEngine) -> dict[str, object]:
    model, tally = engine.config.model, engine.ranks[0].tally
    answers = {"success": {"count": tally.tokens + int(engine.rise()), "ns": 0}}
    stats = {"name": model, "version": "1", "inference_count": tally.finished, "response_stats": {"0": answers}}
    return {
        f"/v2/models/{model}/stats": {"model_stats": [stats]},
        "/v2": {
            "name": "triton",
            "version": "2.58.0",
            "extensions": ["classification", "sequence", "model_repository"],
        },
        "/v2/repository/index": [{"name": model, "version": "1", "state": "READY"}],
        f"/v2/models/{model}": {
            "name": model,
            "versions": ["1"],
            "platform": "tensorrtllm",
            "inputs": [],
            "outputs": [],
        },
    }


_OWN: Mapping[str, Callable[[SimEngine], dict[str, object]]] = {
    "vllm": _vllm_pages,
    "sglang": _sglang_pages,
    "tgi": _tgi_pages,
    "trtllm": lambda _engine: {"/version": {"version": "1.2.0"}},
    "triton": _triton_pages,
    "llamacpp": _llamacpp_pages,
    "ollama": _ollama_pages,
    "lmdeploy": _sleep_page,
}
