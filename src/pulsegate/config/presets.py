"""What is known of hosted providers, so that a name and a key are enough.

``base_url`` stands for ``/v1`` of OpenAI's paths. ``idle_s`` is how long a connection that nobody uses may be kept:
long, because a kept one spares a TLS handshake over half the world, and less than the minute after which the edges of
hosted APIs close it. What their refusals look like is in ``core/provider_fault.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One provider."""

    base_url: str
    idle_s: float


PRESETS: Final[Mapping[str, Preset]] = MappingProxyType(
    {
        "deepseek": Preset(base_url="https://api.deepseek.com/v1", idle_s=50.0),
        "zhipu": Preset(base_url="https://open.bigmodel.cn/api/paas/v4", idle_s=50.0),
        "dashscope": Preset(base_url="https://dashscope.aliyuncs.com/compatible-mode/v1", idle_s=50.0),
        "moonshot": Preset(base_url="https://api.moonshot.cn/v1", idle_s=50.0),
        "siliconflow": Preset(base_url="https://api.siliconflow.cn/v1", idle_s=50.0),
        "openai": Preset(base_url="https://api.openai.com/v1", idle_s=60.0),
        "openrouter": Preset(base_url="https://openrouter.ai/api/v1", idle_s=60.0),
    }
)
OF_YOUR_OWN: Final = Preset(base_url="", idle_s=4.0)
"""For any other URL: nothing is known of what stands there."""
