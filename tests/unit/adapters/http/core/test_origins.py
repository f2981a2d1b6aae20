"""The origins from which a browser can call a protocol server (MCP, Transports, Security Warning: DNS rebinding)."""

import pytest
from starlette.datastructures import Headers

from wfcore.adapters.http.core.origins import Site, check_origin
from wfcore.domain.kernel.errors import Forbidden

OWN = ("flows.example.org",)
LET_IN = [
    ((), "anything.example", None),
    ((), "", None),
    ((), "127.0.0.1:8080", "http://127.0.0.1:8080"),
    ((), "[::1]:8080", "http://[::1]:8080"),
    ((), "LOCALHOST", "http://localhost"),
    (OWN, "flows.example.org", None),
    (OWN, "Flows.Example.Org:8443", "https://flows.example.org:8443"),
    (OWN, "flows.example.org", "https://FLOWS.example.org"),
    (("flows.example.org", "app.example.org"), "flows.example.org", "https://app.example.org:444"),
]
REFUSED = [
    ((), "evil.example", "http://evil.example", "host"),
    ((), "localhost.evil.example", "http://localhost.evil.example", "host"),
    ((), "127.0.0.1.evil.example", "http://127.0.0.1.evil.example", "host"),
    ((), "localhost", "http://evil.example", "origin"),
    ((), "localhost:8080", "http://localhost:9090", "origin"),
    ((), "localhost", "null", "origin"),
    ((), "localhost", "", "origin"),
    ((), "localhost", "file://localhost", "origin"),
    ((), "[::1", "http://[::1", "host"),
    (OWN, "evil.example", None, "host"),
    (OWN, "", None, "host"),
    (OWN, "flows.example.org.evil.example", None, "host"),
    (OWN, "127.0.0.1", "http://127.0.0.1", "host"),
    (OWN, "flows.example.org", "https://evil.example", "origin"),
    (OWN, "flows.example.org", "https://flows.example.org@evil.example", "origin"),
    (OWN, "flows.example.org", "https://flows.example.org, https://evil.example", "origin"),
]


def headers(host: str, *origins: str | None) -> Headers:
    sent = [("host", host), *(("origin", origin) for origin in origins if origin is not None)]
    return Headers(raw=[(name.encode(), value.encode()) for name, value in sent])


@pytest.mark.parametrize(("hosts", "host", "origin"), LET_IN)
def test_programs_and_own_pages_are_accepted(hosts: tuple[str, ...], host: str, origin: str | None) -> None:
    """A request without an origin is not from a page; a page is the server's own by address or by a known name."""
    check_origin(headers(host, origin), hosts)


@pytest.mark.parametrize(("hosts", "host", "origin", "reason"), REFUSED)
def test_foreign_pages_are_refused(hosts: tuple[str, ...], host: str, origin: str | None, reason: str) -> None:
    """A page whose own name resolves to this server is refused by its host, any other page by its origin."""
    with pytest.raises(Forbidden) as refusal:
        check_origin(headers(host, origin), hosts)
    assert refusal.value.info == {"reason": reason}


def test_every_origin_must_be_own() -> None:
    """One own origin does not make a second one acceptable."""
    with pytest.raises(Forbidden):
        check_origin(headers("localhost", "http://localhost", "http://evil.example"), ())


@pytest.mark.parametrize("sites", [["same-origin", "cross-site"], ["cross-site", "none"], ["same-origin", ""]])
def test_every_site_must_be_the_same(sites: list[str]) -> None:
    """`Sec-Fetch-Site` that comes twice says nothing unless both lines agree that the page is the server's own."""
    sent = Headers(raw=[(b"host", b"flows.example.org"), *((b"sec-fetch-site", site.encode()) for site in sites)])
    with pytest.raises(Forbidden) as refusal:
        Site().check_same_site("POST", sent)
    assert refusal.value.info == {"reason": "cross_site"}
    own = Headers(raw=[(b"host", b"flows.example.org"), *[(b"sec-fetch-site", b"same-origin")] * 2])
    Site().check_same_site("POST", own)


def test_one_text_is_no_list_of_names() -> None:
    """The letters of a text would be valid host names, and every request would be refused later."""
    for name in ("allowed_hosts", "browser_origins"):
        with pytest.raises(TypeError, match=f"`{name}` must be a list of `str`, not one `str`"):
            Site(**{name: "app.example.org"})


def test_an_origin_has_the_form_that_browsers_send() -> None:
    """A browser leaves out the default port of the scheme, and no other."""
    given = ["HTTPS://a.example:443", "http://b.example:80", "https://c.example:80", "http://d.example:443"]
    sent = {"https://a.example", "http://b.example", "https://c.example:80", "http://d.example:443"}
    assert Site((), given).browser_origins == sent
