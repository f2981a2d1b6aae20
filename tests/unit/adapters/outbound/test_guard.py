"""The address guard: public addresses, spellings of a host, and what an operator allows."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.adapters.outbound.guard import (
    AddressGuard,
    AddressRefused,
    AllowedAddress,
    check_url,
    is_public,
    parse_host,
)

INNER_V4 = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254
168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1
192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255
240.0.0.1 255.255.255.255 192.31.196.1 192.52.193.1 192.175.48.1
"""
INNER_V6 = """
:: ::1 ::127.0.0.1 ::7f00:1 ::8.8.8.8 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8 100::1 2001::1 2001:0:4136:e378::7f00:1
2001:0:0808:0808::1 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::1 2002:a9fe:a9fe:: 2002:808:808::1
2620:4f:8000::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::a9fe:a9fe febf::1 fec0::1 ff02::1 ff0e::1
4000::1 e000::1
"""
OUTER = """
1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 93.184.216.34 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0
223.255.255.255 2606:4700:4700::1111 2a00:1450::1 2001:200::1 2001:4860:4860::8888 64:ff9b::8.8.8.8
"""
SPECIAL = INNER_V4.split() + INNER_V6.split()


@pytest.mark.parametrize("text", SPECIAL)
def test_special_addresses_are_not_public(text: str) -> None:
    """Each special-purpose network is refused, and so is every IPv6 form that embeds such an IPv4 address."""
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", OUTER.split())
def test_public_addresses_pass(text: str) -> None:
    """Public addresses pass, also those beside a special network and public ones through NAT64."""
    assert is_public(ip_address(text))


@given(st.ip_addresses())
def test_public_addresses_are_global_to_python(address: IPv4Address | IPv6Address) -> None:
    """Every public address is global and not multicast for the standard library too."""
    if is_public(address):
        assert address.is_global
        assert not address.is_multicast


@given(st.ip_addresses(v=4))
def test_an_embedded_address_decides(inner: IPv4Address) -> None:
    """No IPv6 form of an IPv4 address is public if the IPv4 address is not."""
    number = int(inner)
    wrapped = [number, 0xFFFF << 32 | number, 0x2002 << 112 | number << 80, 0x20010000 << 96 | number ^ 0xFFFF_FFFF]
    assert not any(is_public(IPv6Address(each)) for each in wrapped)
    assert is_public(IPv6Address(0x64FF9B << 96 | number)) == is_public(inner)


ZONES = ["fe80::1%eth0", "2606:4700::1%1", "2606:4700::1%25lo", "64:ff9b::8.8.8.8%1"]


@pytest.mark.parametrize("text", ZONES)
def test_an_address_of_one_interface_is_not_public(text: str) -> None:
    """An address with a zone is valid on one machine only."""
    assert not is_public(ip_address(text))


ODD_HOSTS = """
127.1 127.0.1 1 0 2130706433 017700000001 0x7f000001 0x7f.0.0.1 0x7f.1 0x 0177.0.0.1 0177.0.0.01 127.0.0.01 127.0.0.0x1
010.0.0.1 1.2.3.4.5 1.2.3 256.1.1.1 127.0.0.1. localhost. example.com. . .. .example.com example..com a.0x7f a.1
-a.example a-.example a%2eb %31%32%37.0.0.1 127.0.0.1%00 a!b a$b a,b a*b (a) a'b a+b a~b a=b a;b a&b a"b a|b a{b} a`b
A.example
"""
ODDER_HOSTS = [
    "",
    " ",
    "a b",
    "a\tb",
    "a\n",
    "a" * 64,
    "a." * 127 + "b",
    "::1%lo",
    "::g",
    "1::2::3",
    "[::1]",
    "1:2",
    "\u0663.example",
    "\uff11\uff12\uff17.0.0.1",
    "\u24dbocalhost",
]


@pytest.mark.parametrize("host", [*ODD_HOSTS.split(), *ODDER_HOSTS])
def test_ambiguous_hosts_are_refused(host: str) -> None:
    """A host that is neither a plain name nor a canonical address is not resolved: resolvers differ."""
    with pytest.raises(AddressRefused):
        parse_host(host)


@pytest.mark.parametrize("host", ["a", "localhost", "a.example", "a-b.c_d.xn--bcher-kva", "1a.b2", "a" * 63, "0x7f.a"])
def test_names(host: str) -> None:
    """Letters, digits, hyphens and underscores form a name, if its last label is not a number."""
    assert parse_host(host) is None


@given(st.ip_addresses())
def test_addresses_are_read(address: IPv4Address | IPv6Address) -> None:
    """An address in the form of the standard library is that address."""
    assert parse_host(str(address)) == address


BAD_URLS = [
    "", "http", "http:", "http:/a.example", "http:///a.example", "//a.example", "a.example", "/etc/passwd",
    "ftp://a.example", "file:///etc/passwd", "gopher://a.example:70/_x", "dict://a.example", "ldap://a.example",
    "ws://a.example", "wss://a.example", "data:text/plain,x", "javascript:alert(1)", "unix:///var/run/docker.sock",
    "http+unix://%2fvar%2frun/x", "jar:http://a.example!/", "httpx://a.example", "http ://a.example", " http://a.example",
    "http://", "http://:80", "http://?x", "http://#x", "http://user@a.example", "http://user:pass@a.example/",
    "http://@a.example", "http://a.example@127.0.0.1/", "http://a.example:80@127.0.0.1/", "http://a@b@c/",
    "http://a.example\\@127.0.0.1/", "http:\\\\a.example", "http://a.example\\.b/", "http://a.example:0/",
    "http://a.example:65536/", "http://a.example:99999/", "http://a.example:-1/", "http://a.example:+80/",
    "http://a.example:8_0/", "http://a.example: 80/", "http://a.example:\u0668\u0660/", "http://a.example:80:80/",
    "http://a.example:http/", "http://a.example:000080/", "http://[::1/", "http://::1/", "http://[::1]]/",
    "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[v1.x]/", "http://[a.example]/", "http://a[.example/",
    "http://a.example\r\nHost: b/", "http://a.example /", "http://a.example\t/", "http://a.example/\n", "http://a.example/\r",
    "http://a.example/" + "a" * 8_000,
]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_urls_that_cannot_be_called(url: str) -> None:
    """Another scheme, a user, no host, an invalid port, or an ambiguous form is refused."""
    with pytest.raises(AddressRefused):
        check_url(url)


GOOD_URLS = """
http://a.example https://a.example/ HTTP://A.EXAMPLE:8080?q=a@b http://a.example#x@y http://[2606:4700::1]:65535/a:b@c
http://8.8.8.8:1/\\ http://bücher.example/ä
"""


@pytest.mark.parametrize("url", GOOD_URLS.split())
def test_urls_that_can_be_called(url: str) -> None:
    """http and https with a host pass; anything can follow the host."""
    check_url(url)


def test_a_refusal_shows_no_credential() -> None:
    """The message contains neither a user in the URL nor the query: both can be secret."""
    for url in ("http://user:canary@a.example/", "ftp://a.example/?token=canary"):
        with pytest.raises(AddressRefused) as refused:
            check_url(url)
        assert "canary" not in str(refused.value)


class Names:
    """A resolver with configured names, which counts its calls."""

    def __init__(self, **names: str) -> None:
        self.names = {name.replace("_", "."): addresses.split() for name, addresses in names.items()}
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> list[str]:
        self.asked.append(name)
        if name not in self.names:
            raise OSError(f"no {name}")
        return self.names[name]


def entries(*texts: str) -> tuple[AllowedAddress, ...]:
    return tuple(map(AllowedAddress.parse, texts))


@pytest.mark.anyio
class TestGuard:
    async def test_a_name_is_resolved_once_and_only_public_addresses_are_given(self) -> None:
        """Of a name with several addresses those that pass come back, in the resolver's order."""
        names = Names(a_example="10.0.0.1 8.8.8.8 ::1 2606:4700::1")
        found = await AddressGuard(resolve=names).addresses("a.example", 443)
        assert list(map(str, found)) == ["8.8.8.8", "2606:4700::1"]
        assert names.asked == ["a.example"]

    @pytest.mark.parametrize("address", [*SPECIAL, *ZONES])
    async def test_a_name_of_a_special_address_is_refused(self, address: str) -> None:
        """The refusal does not contain the address."""
        with pytest.raises(AddressRefused) as refused:
            await AddressGuard(resolve=Names(a_example=address)).addresses("a.example", 80)
        assert f"`{address}`" not in str(refused.value)
        assert "`a.example`" in str(refused.value)

    @pytest.mark.parametrize("address", SPECIAL)
    async def test_an_address_needs_no_resolver(self, address: str) -> None:
        """An address is checked without the resolver."""
        names = Names()
        with pytest.raises(AddressRefused):
            await AddressGuard(resolve=names).addresses(address, 80)
        assert names.asked == []

    async def test_an_unknown_name(self) -> None:
        """The resolver's own error is raised: a retry can succeed."""
        with pytest.raises(OSError, match=r"no a\.example"):
            await AddressGuard(resolve=Names()).addresses("a.example", 80)

    @pytest.mark.parametrize(
        ("entry", "address", "port", "passes"),
        [
            ("127.0.0.1:9000", "127.0.0.1", 9000, True),
            ("127.0.0.1:9000", "127.0.0.1", 9001, False),
            ("127.0.0.1:9000", "127.0.0.2", 9000, False),
            ("127.0.0.1:9000", "::ffff:127.0.0.1", 9000, False),
            ("127.0.0.1", "127.0.0.1", 1, True),
            ("10.1.0.0/16", "10.1.255.255", 80, True),
            ("10.1.0.0/16", "10.2.0.0", 80, False),
            ("10.1.0.0/16:80", "10.1.0.1", 443, False),
            ("[::1]:9000", "::1", 9000, True),
            ("[::1]:9000", "::1", 80, False),
            ("::1", "::1", 80, True),
            ("fd00::/8", "fd12::1", 80, True),
            ("[fd00::/8]:80", "fd12::1", 81, False),
        ],
    )
    async def test_an_allowed_entry(self, entry: str, address: str, port: int, passes: bool) -> None:
        """An entry allows its addresses, at its port or at all, by address and by name, and nothing else."""
        names = Names(inner_example=address)
        guard = AddressGuard(entries(entry), names)
        for host in (address, "inner.example"):
            if passes:
                assert await guard.addresses(host, port) == [ip_address(address)]
            else:
                with pytest.raises(AddressRefused):
                    await guard.addresses(host, port)

    async def test_the_default_resolver_is_the_system(self) -> None:
        """Without a resolver, the guard asks the system: `localhost` is this machine."""
        with pytest.raises(AddressRefused):
            await AddressGuard().addresses("localhost", 80)
        found = await AddressGuard.allowing(["127.0.0.0/8", "::1"]).addresses("localhost", 80)
        assert all(address.is_loopback for address in found)


BAD_ENTRIES = """
localhost localhost:80 * *:80 127.0.0.1: 127.0.0.1:0 127.0.0.1:65536 127.0.0.1:http 127.0.0.1:80:80 127.1 10.0.0.1/8
10.0.0.0/33 ::1:80:90:1:2:3:4:5:6 [::1 ::1] [::1]x fe80::1%eth0 http://127.0.0.1 127.0.0.1/path 300.0.0.1
"""
WORSE_ENTRIES = ["", " 127.0.0.1", "127.0.0.1\n", "\u0661\u0662\u0667.0.0.1"]


@pytest.mark.parametrize("entry", [*BAD_ENTRIES.split(), *WORSE_ENTRIES])
def test_invalid_entries(entry: str) -> None:
    """A name, a pattern, an ambiguous spelling or an invalid port is refused by name."""
    with pytest.raises(ValueError, match="is not an address or network"):
        AddressGuard.allowing([entry])
