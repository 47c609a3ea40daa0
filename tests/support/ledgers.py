"""Entries and ledgers for tests."""

from decimal import Decimal
from pathlib import Path
from typing import Any

from pulsegate.control.ledger import Entry
from pulsegate.core.booking import UsageKind
from pulsegate.core.spending import EntryKind
from pulsegate.ledger.syncing import Fsync
from pulsegate.ledger.writer import LedgerWriter, WritingRules

NOON = 1_796_126_400.0  # 2026-12-01T12:00:00Z


class WallClock:
    """A clock that stands still until it is moved."""

    def __init__(self, wall_s: float = NOON) -> None:
        self.wall_s = wall_s
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.wall_s

    def boot(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_s += seconds


def entry(number: int = 0, **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "ts": NOON,
        "op": f"op{number}",
        "attempt": 1,
        "request_id": f"r{number}",
        "kind": EntryKind.REQUEST,
        "client": None,
        "provider": "deepseek",
        "model": "deepseek-chat",
        "endpoint": "deepseek",
        "status": 200,
        "prompt_tokens": 10,
        "cached_tokens": 0,
        "completion_tokens": 5,
        "cost": Decimal("0.001"),
        "currency": "CNY",
        "price_version": "config: 2/0.5/8 CNY/M",
        "usage": UsageKind.REPORTED,
        "ttft_ms": None,
        "duration_ms": 12.5,
    }
    return Entry(**{**fields, **more})


def writer(path: Path, clock: WallClock | None = None, **more: Any) -> LedgerWriter:
    rules = WritingRules(path=path, **{"fsync": Fsync.NEVER, **more})
    return LedgerWriter(rules, clock or WallClock())
