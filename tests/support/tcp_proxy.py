"""A TCP proxy on 127.0.0.1 whose connections a test can freeze: what was half open in the field."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class TcpProxy:
    """``frozen`` holds the numbers of connections, in the order in which they were made, that carry nothing on."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self.port = 0
        self.connections = 0
        self.frozen: set[int] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._unused = asyncio.Event()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        try:
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, there_writer}
        self._unused.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(number, reader, there_writer))
                group.create_task(self._pump(number, there_reader, writer))
        except* OSError:
            pass
        finally:
            writer.close()
            there_writer.close()
            self._writers -= {writer, there_writer}
            if not self._writers:
                self._unused.set()

    async def close(self) -> None:
        """End every connection."""
        for writer in self._writers:
            writer.transport.abort()
        if self._writers:
            await self._unused.wait()

    async def _pump(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if number not in self.frozen:
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def tcp_proxy(target_port: int) -> AsyncIterator[TcpProxy]:
    """Listens until the block ends."""
    proxy = TcpProxy(target_port)
    server = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
