from pathlib import Path

import pytest

from pulsegate.embedded.weights import Missing, find_llamacpp
from support.real.vllm import VENV, make_model


@pytest.fixture(scope="session")
def weights() -> Path:
    found = find_llamacpp()
    if isinstance(found, Missing):
        pytest.skip(f"{found.what}; `make setup` installs it where it exists")
    return found.weights


@pytest.fixture(scope="session")
def vllm_installed() -> None:
    if not (VENV / "bin/vllm").exists():
        pytest.skip(f"no vLLM in {VENV}: bash scripts/install-vllm.sh build/vllm")
    make_model()
