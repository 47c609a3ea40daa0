"""What a reload changes of ledger, prices and probes, and what it leaves until the next start."""

import json
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

from support.gateways import until
from support.service import chat, configured, engines, service


def document(url: str, costs: dict[str, Any], **model: Any) -> dict[str, Any]:
    found = configured(url, costs=costs)
    found["models"][0].update(model)
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line, parse_float=Decimal) for line in path.read_text().splitlines()]


async def test_probes_get_their_price_and_the_ledger_stays_where_it_is(tmp_path):
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    async with engines() as server:
        url = server.url()
        async with service(tmp_path, document(url, {"ledger": str(here), "probes": "none"})) as run:
            assert (await run.ask(chat())).status == 200
            assert [line["kind"] for line in lines(here)] == ["request"]
            run.configure(document(url, {"ledger": str(there), "probes": "priced"}, price={"gpu_hour": 36}))
            run.signal(signal.SIGHUP)
            told = await run.log("takes effect at the next start")
            assert (told["setting"], told["running"]) == ("costs.ledger", str(here))
            await until(
                lambda: any(line["kind"] == "probe" and line["cost"] > 0 for line in lines(here)), patience_s=10
            )
            assert (await run.ask(chat())).status == 200
            assert [line["cost"] is None for line in lines(here) if line["kind"] == "request"] == [True, False]
    assert not there.exists()
