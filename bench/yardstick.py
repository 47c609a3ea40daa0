"""What an ordinary HTTP client costs on this machine at this moment: the figures of ``bench.prober`` mean little alone.

One protocol object per endpoint, h11, a stream read to its end, the first token looked for: no deadlines, no limits, no
judgement, no metrics. Same number of endpoints, same rate, same simulated engines.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11
import uvloop

BURST_S = 0.02
HEADERS = [("Host", "sim"), ("Content-Type", "application/json"), ("X-LLM-Probe", "true")]
BODY = json.dumps({"model": "m", "prompt": "k7 one two three", "max_tokens": 1, "stream": True}).encode()


@dataclass
class Tally:
    answered: int = 0


class Client(asyncio.Protocol):
    def __init__(self, path: str, tally: Tally) -> None:
        self.path = path
        self.tally = tally
        self.http = h11.Connection(h11.CLIENT)
        self.transport: asyncio.Transport

    def connection_made(self, transport) -> None:
        self.transport = transport

    def ask(self) -> None:
        headers = [*HEADERS, ("Content-Length", str(len(BODY)))]
        head = self.http.send(h11.Request(method="POST", target=f"{self.path}/v1/completions", headers=headers))
        self.transport.write((head or b"") + (self.http.send(h11.Data(data=BODY)) or b""))
        self.http.send(h11.EndOfMessage())

    def data_received(self, data: bytes) -> None:
        self.http.receive_data(data)
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Data):
                self.look_for_token(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self.http.start_next_cycle()
                return

    def look_for_token(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line.startswith(b"data: {"):
                choices = json.loads(line[6:]).get("choices")
                self.tally.answered += bool(choices and choices[0].get("text"))


def cost_us(urls: list[str], interval_s: float, seconds: float) -> float:
    """CPU per exchange in microseconds, of the whole process."""

    async def run() -> float:
        loop, tally = asyncio.get_running_loop(), Tally()
        clients = []
        for url in urls:
            parts = urlsplit(url)
            _, client = await loop.create_connection(
                lambda path=parts.path: Client(path, tally), parts.hostname, parts.port
            )
            clients.append(client)
        began, cpu_s, asked = loop.time(), time.process_time(), 0
        while (passed_s := loop.time() - began) < seconds:
            while asked < passed_s * len(clients) / interval_s:
                clients[asked % len(clients)].ask()
                asked += 1
            await asyncio.sleep(BURST_S)
        cpu_s = time.process_time() - cpu_s
        for client in clients:
            client.transport.abort()
        return 1e6 * cpu_s / max(1, tally.answered)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run())
