"""A fast fake engine for load tests: answers from prepared bytes, so that what is measured is whoever stands before it.

``python -m bench.backend 9001 [--gap-ms 20] [--chunks 64] [--ttft-ms 0]``: streams when the body says
``"stream":true``, else one JSON answer.
"""

import argparse
import asyncio

import httptools
import uvloop

ANSWER = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Hello! How can I help you today?"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}'
)
JSON_REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    len(ANSWER),
    ANSWER,
)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def event(fields: bytes) -> bytes:
    data = (
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",%b}\n\n'
        % fields
    )
    return b"%x\r\n%b\r\n" % (len(data), data)


ROLE = event(b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]')
TOKEN = event(b'"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]')
STOP = event(b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]')
USAGE = event(b'"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":64,"total_tokens":76}')
PROBE_WORDS = (b" one", b" two", b" three", b" four")  # a prober would not believe in a server that repeats itself
PROBE_EVENTS = tuple(event(b'"choices":[{"index":0,"text":"%b","finish_reason":null}]' % word) for word in PROBE_WORDS)
PROBE_STOP = event(b'"choices":[{"index":0,"text":"","finish_reason":"length"}]')
DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Engine(asyncio.Protocol):
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.parser = httptools.HttpRequestParser(self)
        self.body = b""
        self.left = 0
        self.usage = False
        self.probe = False

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.loop = asyncio.get_running_loop()

    def connection_lost(self, _exc) -> None:
        self.left = -1
        self.parser = None

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_header(self, name: bytes, _value: bytes) -> None:
        if name.lower() == b"x-llm-probe":
            self.probe = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        body, self.body = self.body, b""
        if self.probe:
            self.probe = False
            few = PROBE_EVENTS[:1] if b'"max_tokens":1,' in body else PROBE_EVENTS
            self.transport.write(STREAM_HEAD + b"".join(few) + PROBE_STOP + DONE)
            return
        if b'"stream":true' not in body and b'"stream": true' not in body:
            self.transport.write(JSON_REPLY)
            return
        self.usage = b"include_usage" in body
        self.left = self.options.chunks
        if self.options.ttft_ms:
            self.loop.call_later(self.options.ttft_ms / 1000, self.first)
        else:
            self.first()

    def first(self) -> None:
        if self.left < 0:
            return
        self.transport.write(STREAM_HEAD + ROLE)
        self.due = self.loop.time()
        self.more()

    def more(self) -> None:
        if self.left < 0:
            return
        if self.left == 0:
            self.transport.write(STOP + (USAGE if self.usage else b"") + DONE)
            return
        self.left -= 1
        self.transport.write(TOKEN)
        self.due += self.options.gap_ms / 1000
        self.loop.call_at(self.due, self.more)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--gap-ms", type=float, default=20)
    parser.add_argument("--chunks", type=int, default=64)
    parser.add_argument("--ttft-ms", type=float, default=0)
    options = parser.parse_args()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Engine(options), "127.0.0.1", options.port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
