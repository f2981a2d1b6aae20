"""The network between the servers of a cluster: a proxy before each one, which can cut a server off from the others."""

import asyncio
import re
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final

from server_process import free_port

NAME: Final = re.compile(rb'"server_name":"n(\d+)"')
"""The name of the server that opens a route, in its first bytes (NATS, "Cluster Protocol", INFO)."""


class Network:
    """Forwards `ports[n]` to the port `targets[n]` of server `n`, until `close`."""

    def __init__(self, targets: Sequence[int]) -> None:
        self.ports = [free_port() for _ in targets]
        self._cut: int | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(targets)))
        self._thread.start()
        self._started.wait()

    def cut(self, server: int | None) -> None:
        """Hold back what this server sends and receives, and let everything else pass; None: cut no server off."""
        asyncio.run_coroutine_threadsafe(self._set(server), self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()

    async def _serve(self, targets: Sequence[int]) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed, self._closed = asyncio.Condition(), asyncio.Event()
        async with AsyncExitStack() as stack:
            for number, (port, target) in enumerate(zip(self.ports, targets, strict=True)):
                forward = partial(self._forward, number, target)
                await stack.enter_async_context(await asyncio.start_server(forward, "127.0.0.1", port))
            self._started.set()
            await self._closed.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    async def _set(self, server: int | None) -> None:
        async with self._changed:
            self._cut = server
            self._changed.notify_all()

    async def _forward(
        self, number: int, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One route to the server `number`, from the one that its first bytes name."""
        ends = {number}
        with suppress(OSError, asyncio.CancelledError):  # a server was killed, or this is closed
            back, on = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(self._pipe(reader, on, ends), self._pipe(back, writer, ends))
        writer.close()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ends: set[int]) -> None:
        try:
            while data := await reader.read(65_536):
                if len(ends) == 1 and (found := NAME.search(data)):
                    ends.add(int(found[1]))
                async with self._changed:
                    await self._changed.wait_for(lambda: self._cut not in ends)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
