"""The contract of clients that send wfcore's own requests, as a suite to inherit.

    class TestMyOutbound(OutboundContract):
        def make(self) -> Outbound:
            return MyOutbound()

`make` returns a client that can reach 127.0.0.1. Needs the extra `testing`.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from wfcore.ports.outbound import Outbound, Undelivered
from wfcore.testing.on_asyncio import limited

BODY = b'{"text": "\xc3\xa9"}'


class Receiver:
    """A server on this machine that records requests and responds with the given bytes."""

    def __init__(self, answer: bytes = b"") -> None:
        self.answer = answer
        self.heads: list[list[str]] = []
        self.bodies: list[bytes] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Start the server; its address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/a?b=c"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode().splitlines())
        self.bodies.append(await reader.readexactly(len(BODY)))
        writer.write(self.answer)
        writer.close()


class OutboundContract:
    """Inherit, name the class `Test...`, and write `make`."""

    pytestmark = pytest.mark.anyio

    @abstractmethod
    def make(self) -> Outbound: ...

    @pytest.mark.parametrize("status", [200, 204, 404, 500])
    async def test_a_message_arrives_as_it_was_given(self, status: int) -> None:
        """One request with these headers and bytes; its status is the result, whatever it is."""
        receiver = Receiver(f"HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n".encode())
        async with receiver.open() as url:
            assert await self.make().post(url, {"content-type": "application/json", "webhook-id": "m"}, BODY) == status
        (head,) = receiver.heads
        assert head[0] == "POST /a?b=c HTTP/1.1"
        assert {"content-type: application/json", "webhook-id: m"} <= {line.lower() for line in head[1:]}
        assert receiver.bodies == [BODY]

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    async def test_a_redirect_is_not_followed(self, status: int) -> None:
        """Its status is the result, and no other server receives the message."""
        other = Receiver(b"HTTP/1.1 200 So\r\ncontent-length: 0\r\n\r\n")
        async with other.open() as elsewhere:
            head = f"HTTP/1.1 {status} So\r\nlocation: {elsewhere}\r\ncontent-length: 0\r\n\r\n"
            async with Receiver(head.encode()).open() as url:
                assert await self.make().post(url, {"webhook-id": "m"}, BODY) == status
        assert other.heads == []

    @pytest.mark.parametrize("head", ["content-length: 99999999", "content-encoding: gzip\r\ncontent-length: 5"])
    async def test_only_the_status_counts(self, head: str) -> None:
        """The status is the result, whatever the body of the response is, even if it never ends."""
        async with Receiver(f"HTTP/1.1 200 So\r\n{head}\r\n\r\nhello".encode()).open() as url:
            assert await self.make().post(url, {}, BODY) == 200

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-le", b"hello"])
    async def test_an_incomplete_response(self, answer: bytes) -> None:
        """`Undelivered` if the connection ends before a response, or the bytes are not a response."""
        receiver = Receiver(answer)
        async with receiver.open() as url:
            with pytest.raises(Undelivered):
                await self.make().post(url, {}, BODY)

    async def test_nobody_there(self) -> None:
        """`Undelivered` if no server listens, and for an invalid address."""
        async with Receiver().open() as url:
            gone = url
        for nowhere in (gone, "http://", "ftp://127.0.0.1/"):
            with pytest.raises(Undelivered):
                await self.make().post(nowhere, {}, BODY)

    async def test_a_request_returns_the_whole_response(self) -> None:
        """Status, headers and body of any status; a redirect is not followed; other methods have no body."""
        other = Receiver(b"HTTP/1.1 200 So\r\ncontent-length: 0\r\n\r\n")
        async with other.open() as elsewhere:
            head = f"HTTP/1.1 302 So\r\nlocation: {elsewhere}\r\nX-A: b\r\ncontent-length: 5\r\n\r\nhello"
            receiver = Receiver(head.encode())
            async with receiver.open() as url:
                found = await self.make().request("POST", url, {"authorization": "Basic x"}, BODY)
        assert (found.status, found.headers["x-a"], found.body) == (302, "b", b"hello")
        assert "authorization: Basic x" in {
            line.replace("Authorization", "authorization") for line in receiver.heads[0]
        }
        assert (receiver.bodies, other.heads) == ([BODY], [])

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello"])
    async def test_a_cut_response(self, answer: bytes) -> None:
        """`Undelivered` if the connection ends before the response is complete, and for a body that is too long."""
        async with Receiver(answer).open() as url:
            with pytest.raises(Undelivered):
                await self.make().request("POST", url, {}, BODY)
        long = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % 2**22 + bytes(2**22)
        async with Receiver(long).open() as url:
            with pytest.raises(Undelivered):
                await self.make().request("POST", url, {}, BODY)

    async def test_a_cancelled_message(self) -> None:
        """The waiting caller returns at once; the next message arrives."""
        arrived = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            arrived.set()
            await reader.read()
            writer.close()

        outbound, receiver = self.make(), Receiver(b"HTTP/1.1 200 So\r\ncontent-length: 0\r\n\r\n")
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server, limited():
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            task = asyncio.create_task(outbound.post(url, {}, BODY))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with receiver.open() as url:
            assert await outbound.post(url, {}, BODY) == 200

    async def test_messages_at_once(self) -> None:
        """Each has the status of its own response."""
        receivers = [Receiver(f"HTTP/1.1 {status} So\r\ncontent-length: 0\r\n\r\n".encode()) for status in (200, 404)]
        outbound = self.make()
        async with receivers[0].open() as one, receivers[1].open() as other:
            found = await asyncio.gather(*(outbound.post(url, {}, BODY) for url in (one, other, one, other)))
        assert found == [200, 404, 200, 404]
        assert [receiver.bodies for receiver in receivers] == [[BODY] * 2] * 2
