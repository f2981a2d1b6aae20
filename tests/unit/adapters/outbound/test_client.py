"""The client behind the guard: its connections, its redirects, and the bounds of size and time."""

import gzip
import logging
import ssl
import tracemalloc
from pathlib import Path
from typing import Any

import httpcore2
import httpx2
import pytest
from loopback import World, answer, redirect, serving

from wfcore.adapters.outbound.client import Client, GuardedTransport, Hop, HttpResponse, RequestFailed
from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused

pytestmark = pytest.mark.anyio

PUBLIC, OTHER = "93.184.216.34", "1.1.1.1"
SECRETS = {"authorization": "Bearer canary", "cookie": "a=canary", "idempotency-key": "canary", "x-api-key": "canary"}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.put("a.example", PUBLIC)
    made.put("b.example", OTHER)
    return made


def client(world: World, *allowed: str) -> Client:
    return Client(AddressGuard(AddressGuard.allowing(allowed).allowed, world.resolve), seconds=5)


async def get(world: World, url: str, **headers: str) -> HttpResponse:
    return await client(world).send("GET", url, headers)


HOSTILE = Path(__file__).with_name("hostile_urls.txt").read_text("utf-8").split()
ODDER = [
    "", "http://a.example\r\nX: y/", "http://a.example /", "http://a.example\x00/", "http://a.example/\r",
    "http://" + "a." * 127 + "example/", "http://" + "a" * 64 + ".example/", "http://a.example/" + "a" * 9_000,
]  # fmt: skip


@pytest.mark.parametrize("url", [*HOSTILE, *ODDER])
async def test_hostile_urls_connect_to_nothing(world: World, url: str) -> None:
    """Any spelling and any resolution of a hostile URL is refused without a connection."""
    for name in ("localhost", "localhost.localdomain", "ip6-localhost", "sub.localhost"):
        world.put(name, "127.0.0.1 ::1")
    for name in ("inner.example", "mixed.example", "metadata", "169.254.169.254.nip.example"):
        world.put(name, "169.254.169.254 10.0.0.1 ::ffff:8.8.8.8 fd00::1")
    world.put("metadata.google.internal", "169.254.169.254")
    world.put("zone.example", "fe80::1%eth0 2606:4700::1%2")
    with pytest.raises(AddressRefused):
        await get(world, url)
    assert world.made == []


def test_the_corpus_is_large() -> None:
    """It has over a hundred different URLs."""
    assert len(set(HOSTILE)) > 130


@pytest.mark.parametrize(
    ("url", "address", "port"),
    [
        ("http://a.example", PUBLIC, 80),
        ("https://a.example", PUBLIC, 443),
        ("http://A.EXAMPLE:8080/x?y#z", PUBLIC, 8080),
        ("http://1.1.1.1/", OTHER, 80),
        ("http://[2606:4700::1111]:8443/", "2606:4700::1111", 8443),
        ("http://bücher.example/", PUBLIC, 80),
        ("http://a.example#@127.0.0.1@b/..@c:x@", PUBLIC, 80),
    ],
)
async def test_harmless_urls_connect_to_the_checked_address(world: World, url: str, address: str, port: int) -> None:
    """The connection is made to the address that was checked, not to the name; no response is a failure."""
    world.put("xn--bcher-kva.example", PUBLIC)
    with pytest.raises(RequestFailed, match="no connection"):
        await get(world, url)
    assert world.made == [(address, port)]
    assert len(world.asked) <= 1


async def test_a_name_that_changes_its_address(world: World) -> None:
    """For a name that is first public and then private, the first request is made and its redirect refused."""
    world.put("rebind.example", PUBLIC, "127.0.0.1")
    async with serving(redirect("/again")) as server:
        world.places = {PUBLIC: server, "127.0.0.1": server}
        with pytest.raises(AddressRefused):
            await get(world, "http://rebind.example/")
    assert world.made == [(PUBLIC, 80)]
    assert world.asked == ["rebind.example", "rebind.example"]


async def test_no_connection_is_used_twice(world: World) -> None:
    """A second request to the same host resolves and connects again."""
    async with (
        serving(answer(body=b"x", connection="keep-alive")) as server,
        GuardedTransport(AddressGuard((), world.resolve)) as transport,
    ):
        world.places = {PUBLIC: server}
        for _ in range(2):
            response = await transport.handle_async_request(httpx2.Request("GET", "http://a.example/"))
            assert await response.aread() == b"x"
    assert world.made == [(PUBLIC, 80), (PUBLIC, 80)]
    assert world.asked == ["a.example", "a.example"]


async def test_the_second_address_is_tried_after_the_first(world: World) -> None:
    """Addresses are tried in turn, without private ones, and the request keeps the name of the host."""
    world.put("many.example", f"10.0.0.1 {OTHER} {PUBLIC}")
    async with serving(answer(200, b"x")) as server:
        world.places = {PUBLIC: server, "10.0.0.1": server}
        assert (await get(world, "http://many.example:81/")).body == b"x"
    assert world.made == [(OTHER, 81), (PUBLIC, 81)]
    assert server.received[0].headers["host"] == "many.example:81"


async def test_no_proxy_of_the_environment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies in the environment, which would bypass the guard, are not used."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving(answer()) as server:
        world.places = {PUBLIC: server}
        assert (await get(world, "http://a.example/")).status == 200
    assert world.made == [(PUBLIC, 80)]
    assert server.received[0].line == "GET / HTTP/1.1"


class Handshake(httpcore2.AsyncNetworkStream):
    """A connection that only records the start of TLS, which fails for a `problem`."""

    context: ssl.SSLContext | None = None
    name: str | None = None
    problem = OSError("the other side left")

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        self.context, self.name = ssl_context, server_hostname
        try:
            raise self.problem
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error


async def test_the_certificate_is_that_of_the_name(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is made to the address; the handshake verifies the certificate for the name."""
    stream = Handshake()

    async def connected(*_: Any) -> httpcore2.AsyncNetworkStream:
        return stream

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connected)
    with pytest.raises(RequestFailed, match=r"^no connection$"):
        await get(world, "https://a.example/")
    assert stream.name == "a.example"
    assert stream.context is not None
    assert (stream.context.check_hostname, stream.context.verify_mode) == (True, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (ssl.SSLCertVerificationError("self-signed"), "the certificate of the server is not valid for this host"),
        (ssl.SSLError("WRONG"), "no TLS connection: the server does not use TLS there, or no supported version"),
    ],
)
async def test_a_handshake_that_fails(
    world: World, monkeypatch: pytest.MonkeyPatch, problem: OSError, told: str
) -> None:
    """The message says what is wrong with the server, without the text of the TLS library."""
    stream = Handshake()
    stream.problem = problem

    async def connected(*_: Any) -> httpcore2.AsyncNetworkStream:
        return stream

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connected)
    with pytest.raises(RequestFailed, match=f"^{told}$"):
        await get(world, "https://a.example/")


async def test_a_name_that_does_not_exist(world: World) -> None:
    with pytest.raises(RequestFailed, match=r"^the name cannot be resolved$"):
        await get(world, "http://nowhere.example/")


async def test_a_request_that_is_no_http(world: World) -> None:
    """The message has nothing of the header, which can be a credential."""
    async with serving(answer()) as server:
        world.places = {PUBLIC: server}
        with pytest.raises(RequestFailed, match=r"^the request is not valid HTTP$"):
            await get(world, "http://a.example/", x="canary\n")


class TestRedirects:
    """RFC 9110, 15.4, and what a redirect must not do."""

    @pytest.mark.parametrize(
        "location",
        [
            "http://127.0.0.1/", "//127.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest/", "http://0x7f.1/",
            "http://2130706433/", "http://inner.example/", "file:///etc/passwd", "gopher://b.example/", "ftp://b.example/",
            "http://user@b.example/", "//user:pass@b.example", "http://b.example:0/", "http://[", "http://b.example:x/",
            "https:\\\\127.0.0.1", "javascript:alert(1)", "http://127.0.0.1:80\\@b.example/",
        ],
    )  # fmt: skip
    async def test_each_target_is_vetted(self, world: World, location: str) -> None:
        """A redirect to where no request may go is refused like the request itself."""
        world.put("inner.example", "10.0.0.1")
        async with serving(redirect(location), answer(200, b"secret")) as server:
            world.places = {PUBLIC: server, OTHER: server, "127.0.0.1": server}
            with pytest.raises(AddressRefused):
                await get(world, "http://a.example/")
        assert world.made == [(PUBLIC, 80)]

    @pytest.mark.parametrize(
        ("status", "method", "following"),
        [
            (301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (303, "PUT", "GET"),
            (303, "HEAD", "HEAD"), (303, "DELETE", "GET"), (301, "PUT", "PUT"), (302, "PATCH", "PATCH"),
            (307, "POST", "POST"), (308, "PUT", "PUT"), (307, "GET", "GET"), (301, "HEAD", "HEAD"),
        ],
    )  # fmt: skip
    async def test_method_and_body(self, world: World, status: int, method: str, following: str) -> None:
        """A request that becomes a GET loses its body and content headers; any other is repeated unchanged."""
        body = None if method in ("GET", "HEAD") else b"{}"
        async with serving(redirect("/b?c", status), answer()) as server:
            world.places = {PUBLIC: server}
            given = {"content-type": "application/json"} if body else {}
            await client(world).send(method, "http://a.example/a", given, body)
        first, second = server.received
        assert (first.line, first.body) == (f"{method} /a HTTP/1.1", body or b"")
        assert second.line == f"{following} /b?c HTTP/1.1"
        kept = body if following == method else None
        assert second.body == (kept or b"")
        assert ("content-type" in second.headers) == (kept is not None)

    @pytest.mark.parametrize("location", ["http://b.example/", "http://a.example:81/", "//b.example"])
    async def test_credentials_do_not_cross_origins(self, world: World, location: str) -> None:
        """Another host or port gets no header that can be a credential, nor does any later redirect."""
        async with serving(redirect(location), redirect("http://a.example/back"), answer()) as server:
            world.places = {PUBLIC: server, OTHER: server}
            await get(world, "http://a.example/", **SECRETS, accept="text/plain")
        first, *others = server.received
        assert SECRETS.items() <= first.headers.items()
        assert len(others) == 2
        for request in others:
            assert "canary" not in str(request.headers)
            assert request.headers["accept"] == "text/plain"

    async def test_credentials_stay_within_one_origin(self, world: World) -> None:
        """A redirect to another path of the same origin has all headers."""
        async with serving(redirect("http://A.example:80/x", 307), answer()) as server:
            world.places = {PUBLIC: server}
            await get(world, "http://a.example/", **SECRETS)
        assert SECRETS.items() <= server.received[1].headers.items()
        assert server.received[1].headers["host"] == "a.example"

    def test_https_does_not_become_http(self) -> None:
        """A redirect from https to http is refused; from http to https is another origin."""
        hop = Hop("GET", httpx2.URL("https://a.example/"), SECRETS, None)
        with pytest.raises(AddressRefused, match="https to http"):
            hop.redirected(302, "http://a.example/")
        upwards = Hop("GET", httpx2.URL("http://a.example/"), SECRETS, None).redirected(302, "https://a.example/")
        assert upwards.headers == {}

    @pytest.mark.parametrize(("redirects", "followed"), [(5, True), (6, False)])
    async def test_redirects_are_bounded(self, world: World, redirects: int, followed: bool) -> None:
        """Five redirects are followed, and no sixth."""
        async with serving(*[redirect(f"/{n}") for n in range(redirects)], answer(204)) as server:
            world.places = {PUBLIC: server}
            if followed:
                assert (await get(world, "http://a.example/")).status == 204
            else:
                with pytest.raises(AddressRefused, match="more than 5 redirects"):
                    await get(world, "http://a.example/")
        assert len(server.received) == 6

    @pytest.mark.parametrize("status", [300, 304, 305, 306])
    async def test_other_statuses_are_responses(self, world: World, status: int) -> None:
        """Statuses that are not redirects are responses, and so are redirects without a target."""
        async with serving(answer(status, location="http://127.0.0.1/")) as server:
            world.places = {PUBLIC: server}
            assert (await get(world, "http://a.example/")).status == status
        async with serving(answer(302)) as server:
            world.places = {PUBLIC: server}
            assert (await get(world, "http://a.example/")).status == 302

    async def test_no_cookie_is_kept(self, world: World) -> None:
        """A cookie of a redirect is not sent."""
        setting = answer(302, location="/b", set_cookie="a=b; Path=/")
        async with serving(setting, answer()) as server:
            world.places = {PUBLIC: server}
            await get(world, "http://a.example/")
        assert "cookie" not in server.received[1].headers


async def test_no_response_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Its headers can repeat a credential, in an echo or in the address of a redirect."""
    caplog.set_level(logging.DEBUG)
    async with serving(redirect("/?token=canary"), answer(200, x_echo="canary")) as server:
        world.places = {PUBLIC: server}
        assert (await get(world, "http://a.example/", **SECRETS)).headers["x-echo"] == "canary"
    assert "canary" not in caplog.text


async def test_responses_of_others_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A product that uses the same library for its own requests sees them."""
    caplog.set_level(logging.DEBUG)
    async with serving(answer()) as server:
        await Client(AddressGuard.allowing(["127.0.0.1"])).send("GET", server.url, {})
    async with serving(answer(200, x_echo="product")) as server, httpx2.AsyncClient(trust_env=False) as own:
        await own.get(server.url)
    assert "product" in caplog.text


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + end
    return answer(content_length=None, transfer_encoding="chunked") + body


MOST = 1_000


class TestBounds:
    """The bounds of size and time."""

    async def answered(self, reply: bytes | None, seconds: float = 5) -> HttpResponse:
        async with serving(reply) as server:
            small = Client(AddressGuard.allowing([f"127.0.0.1:{server.port}"]), seconds=seconds, most_bytes=MOST)
            return await small.send("GET", server.url, {})

    @pytest.mark.parametrize(
        "reply",
        [
            answer(body=b"x" * MOST),
            chunked(b"x" * 400, b"x" * 600),
            answer(content_length=None) + b"x" * MOST,
            answer(body=gzip.compress(b"x" * MOST), content_encoding="gzip"),
            answer(body=gzip.compress(b"x" * MOST), content_encoding="X-GZIP"),
        ],
    )
    async def test_a_body_up_to_the_bound_is_complete(self, reply: bytes) -> None:
        """In any framing, and decompressed where compressed."""
        found = await self.answered(reply)
        assert found.body == b"x" * MOST
        assert "content-encoding" not in found.headers
        assert found.headers.get("content-length", "1000") == "1000"

    async def test_a_compression_bomb_is_not_decompressed(self) -> None:
        """Of 50 MB in 50 KB, no more is decompressed than the bound allows."""
        bomb = answer(body=gzip.compress(bytes(50_000_000)), content_encoding="gzip")
        tracemalloc.start()
        try:
            with pytest.raises(AddressRefused):
                await self.answered(bomb)
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()

    @pytest.mark.parametrize(
        "reply",
        [
            answer(body=b"x" * (MOST + 1)),
            chunked(b"x" * 400, b"x" * 601),
            chunked(*[b"x"] * (MOST + 1)),
            answer(content_length=None) + b"x" * (MOST + 1),
            answer(body=gzip.compress(b"x" * (MOST + 1)), content_encoding="gzip"),
            answer(body=gzip.compress(bytes(20_000_000)), content_encoding="gzip"),
            answer(body=gzip.compress(b"", 0) + bytes(MOST), content_encoding="gzip"),
        ],
    )
    async def test_a_larger_body_is_refused(self, reply: bytes) -> None:
        """Beyond the bound, as sent or decompressed, there is no response."""
        with pytest.raises(AddressRefused, match="longer than 1000 bytes"):
            await self.answered(reply)

    @pytest.mark.parametrize(
        "reply",
        [
            b"",
            b"HTTP/1.1 200",
            b"nonsense\r\n\r\n",
            answer(content_length=10) + b"x" * 9,
            chunked(b"xxx", end=b""),
            chunked(b"xxx", end=b"5\r\nxx"),
            chunked(end=b"zz\r\n"),
            answer(content_length="-1"),
            answer(body=gzip.compress(b"x" * 99)[:-5], content_encoding="gzip"),
            answer(body=gzip.compress(b"x") * 2, content_encoding="gzip"),
            answer(body=b"no gzip", content_encoding="gzip"),
        ],
    )
    async def test_an_incomplete_response_fails(self, reply: bytes) -> None:
        """A part is never returned as the whole, and the message quotes nothing of it: it can repeat a credential."""
        told = r"^the (response is incomplete or not valid HTTP|body is not (valid gzip|one complete gzip member))$"
        with pytest.raises(RequestFailed, match=told):
            await self.answered(reply)

    @pytest.mark.parametrize("reply", [None, answer(content_length=5)])
    async def test_time_is_bounded(self, reply: bytes | None) -> None:
        """A server that sends nothing, or stops sending, causes a timeout."""
        async with serving(reply, None) as server:
            server.answers = [None] if reply is None else [reply]
            short = Client(AddressGuard.allowing(["127.0.0.1"]), seconds=0.05)
            with pytest.raises(RequestFailed, match=r"within 0\.05 seconds" if reply is None else "."):
                await short.send("GET", server.url, {})

    @pytest.mark.parametrize("size", [70_000, 300_000])
    async def test_headers_are_bounded(self, size: int) -> None:
        """A response with more than 64 KiB of headers is refused."""
        with pytest.raises((AddressRefused, RequestFailed), match=r"the headers of the response are .*long"):
            await self.answered(answer(x="y" * size))

    async def test_another_encoding_is_not_decoded(self) -> None:
        """An encoding that was not requested is not decompressed: body and header stay."""
        found = await self.answered(answer(body=b"abc", content_encoding="br"))
        assert (found.body, found.headers["content-encoding"]) == (b"abc", "br")

    async def test_repeated_headers_are_joined(self) -> None:
        """Names are in lower case; values of repeated headers are joined with commas."""
        found = await self.answered(b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n")
        assert found.headers["x-a"] == "1, 2"
