"""Many probes of one real engine through Pulsegate's own client, half of them broken off at their deadline."""

import asyncio
from collections import Counter

from pulsegate.core.fleet import EndpointSpec, EngineName
from pulsegate.core.ids import EndpointId, PoolName
from pulsegate.core.probe import Ending, ProbeAsk, ProbeKind
from pulsegate.core.prompts import MICRO, nonce, spoken
from pulsegate.engines.factory import open_engine

_POOL = PoolName("leaks")
_PATIENT_S = 5.0


async def probe_many(url: str, engine: EngineName, model: str, *, count: int, short_deadline_s: float) -> Counter[str]:
    """Take ``count`` probes, every second one with a deadline that cannot be met; how they ended."""
    spec = EndpointSpec(id=EndpointId("e"), pool=_POOL, url=url, engine=engine, model=model)
    client = open_engine(spec)
    endings: Counter[str] = Counter()
    try:
        for number in range(count):
            broken_off = number % 2 == 1
            prompt = MICRO[number % len(MICRO)]
            fresh = nonce(1, _POOL, number, 0)
            result = await client.probe(
                ProbeAsk(
                    kind=ProbeKind.MICRO,
                    prompt_id=prompt.id,
                    prompt=spoken(prompt, fresh),
                    nonce=fresh,
                    max_tokens=1,
                    deadline_s=short_deadline_s if broken_off else _PATIENT_S,
                )
            )
            endings[result.ending] += 1
            assert broken_off or result.ending in (Ending.COMPLETE, Ending.LEFT), result
    finally:
        await client.close()
    await asyncio.sleep(0)
    return endings
