"""Which dialect goes by which name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pulsegate.core.fleet import EngineName
from pulsegate.engines.dialect import Dialect
from pulsegate.engines.dialects.llamacpp import LLAMACPP
from pulsegate.engines.dialects.lmdeploy import LMDEPLOY
from pulsegate.engines.dialects.ollama import OLLAMA
from pulsegate.engines.dialects.openai import OPENAI
from pulsegate.engines.dialects.sglang import SGLANG
from pulsegate.engines.dialects.tgi import TGI
from pulsegate.engines.dialects.triton import TRITON
from pulsegate.engines.dialects.trtllm import TRTLLM
from pulsegate.engines.dialects.vllm import VLLM

DIALECTS: Final[Mapping[EngineName, Dialect]] = MappingProxyType(
    {dialect.name: dialect for dialect in (VLLM, SGLANG, TGI, TRTLLM, TRITON, LLAMACPP, OLLAMA, LMDEPLOY, OPENAI)}
)
"""Every engine but ``auto``, which is found out first."""
