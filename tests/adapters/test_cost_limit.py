"""A cost limit kept by a real service: many paid requests at once, and hardly any money left."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from pulsegate.control.clock import SystemClock
from pulsegate.ledger.verifying import verify
from support.fake_providers import fake_provider, whole
from support.fake_server import Reply
from support.gateways import ask_for
from support.ledgers import entry, writer
from support.service import started

BURST = 200
LIMIT, LEFT = Decimal(1), Decimal("0.05")
PRICE = {"input": 0, "output": 100}  # CNY per million: a hundredth for 100 tokens
MOST_TOKENS = 100
ESTIMATE = Decimal("0.01")


def answering(tokens: int) -> Reply:
    """An answer that takes its time, so that all of a burst are on their way at once."""
    body = {**whole("hi"), "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}
    return Reply(head_delay_s=0.3, pieces=((0.0, json.dumps(body).encode()),))


def document(base_url: str, ledger: str) -> dict[str, Any]:
    return {
        "gateway": {"listen": "127.0.0.1:0", "workers": 2},
        "admin": {"listen": "127.0.0.1:0"},
        "providers": [{"name": "deepseek", "base_url": base_url, "api_key": "sk", "ping_interval": "off"}],
        "models": [{"name": "chat", "provider": "deepseek", "price": PRICE}],
        "costs": {"ledger": ledger, "window": "total", "limit_cny": int(LIMIT)},
    }


@pytest.mark.parametrize(("tokens", "beyond"), [(100, 0), (60, 0), (110, 10)], ids=["all", "less", "more than asked"])
async def test_a_burst_spends_no_more_than_is_left_but_for_what_answers_take_beyond_their_limit(
    tmp_path, tokens, beyond
):
    path = tmp_path / "l.jsonl"
    book = writer(path)
    book.book(entry(cost=LIMIT - LEFT, ts=SystemClock().wall()))
    book.close()
    async with fake_provider("deepseek") as deepseek:
        deepseek.answer = lambda _stream: answering(tokens)
        with started(tmp_path, document(deepseek.base_url, str(path))) as run:
            await run.serving()
            body = ask_for(model="chat", max_tokens=MOST_TOKENS)
            replies = await asyncio.gather(*[run.ask(body) for _ in range(BURST)])
    statuses = [reply.status for reply in replies]
    served = statuses.count(200)
    assert served == len(deepseek.asked) >= LEFT / ESTIMATE
    assert statuses.count(402) == BURST - served
    beyond_limit = verify(path).total_cny - LIMIT
    assert beyond_limit <= served * beyond * ESTIMATE / MOST_TOKENS
