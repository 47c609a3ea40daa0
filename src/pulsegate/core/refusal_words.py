"""The words and codes by which a refusal says what it is about, be it a provider's or that of a server of one's own.

Decides nothing: which of them count, and before which others, differs by who refuses.
"""

import re
from typing import Final


def any_of(*patterns: str) -> re.Pattern[str]:
    """Matches where one of these does, in whatever case."""
    return re.compile("|".join(patterns), re.IGNORECASE)


BILLING_WORDS: Final = any_of(
    r"insufficient[ _](?:account )?(?:balance|quota|credit|funds)|\bno (?:balance|credit)",
    r"balance (?:is )?(?:insufficient|not enough|too low)|requires? more credits",
    r"exceeded[ _](?:your )?current[ _]quota|quota exceeded for billing|billing[ _](?:hard[ _])?limit|\barrearage\b",
    r"out of credits|payment required|freetieronly|余额不足|欠费|无可用资源包",
)
BILLING_CODES: Final = frozenset(
    {
        "1113",  # Zhipu: in arrears, or the key of another plan
        "1309",  # Zhipu: the plan has expired
        "insufficient_quota",  # OpenAI
        "billing_not_active",
        "billing_hard_limit_reached",
        "arrearage",  # DashScope
        "allocationquota.freetieronly",
        "accessdenied.unpurchased",
        "exceeded_current_quota_error",  # Moonshot
        "30001",  # SiliconFlow
    }
)
TOO_LARGE_WORDS: Final = any_of(
    r"request too large|prompt is too long|maximum context length|context size|context[ _]length[ _]exceeded",
    r"range of input length should be",  # DashScope
)
