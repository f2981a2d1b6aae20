"""The configuration of connections: secret fields, merging, URLs and headers."""

from datetime import UTC, datetime

import attrs
import pytest

from wfcore.domain.agents.connections import (
    Connection,
    ConnectionKind,
    Ownership,
    config_issues,
    expand_null_headers,
    goes_to,
    grant_fingerprint,
    grant_issues,
    joined,
    keeps_grants,
    kept_secret_issues,
    merged,
    ownership_issues,
    split,
)

GOOD = ["https://x.org", "http://x.org:8080/a?b=c", "HTTPS://X.org/", "http://127.0.0.1", "http://[::1]:9/a%20b"]
BAD = [
    "", "x.org", "//x.org", "ftp://x.org", "file:///etc/passwd", "https://", "https:///a", "https://:80",
    "https://u@x.org", "https://u:canary@x.org", "https://@x.org", "https://x.org/#f", "https://x.org#",
    "https://x.org:99999", "https://x.org:a", "https://[::1", "https://x.org/a b", "https://x.org/\n",
    "https://x.org\\@y.org", "https://bücher.de", "java\tscript:x", " https://x.org",
]  # fmt: skip


@pytest.mark.parametrize("url", GOOD)
@pytest.mark.parametrize("name", ["url", "tokenUrl", "revocationUrl", "authorizeUrl"])
def test_urls_that_are_accepted(name: str, url: str) -> None:
    """http or https, a host, and optionally a port, path and query."""
    assert config_issues({name: url}) == []


@pytest.mark.parametrize("url", BAD)
def test_other_urls_are_refused_without_being_repeated(url: str) -> None:
    """There is one issue at the field; the message does not show a password."""
    [issue] = config_issues({"tokenUrl": url})
    assert (issue.path, issue.rule) == ("config.tokenUrl", "url")
    assert "canary" not in issue.message


def test_header_names_ignore_case() -> None:
    """RFC 9110, 5.1: `X-A` and `x-a` are one header; there are at most 50."""
    assert [issue.rule for issue in config_issues({"headers": {"X-A": "1", "x-a": "2"}})] == ["duplicate"]
    assert config_issues({"headers": {f"h{n}": "1" for n in range(50)}}) == []
    assert [issue.rule for issue in config_issues({"headers": {f"h{n}": "1" for n in range(51)}})] == ["maxItems"]


def test_secrets_are_split_from_visible_fields() -> None:
    """`apiKey`, `clientSecret` and every header are secret; `joined` is the inverse of `split`."""
    config = {"url": "u", "clientSecret": "s", "apiKey": "k", "headers": {"A": "1"}, "scopes": ["x"]}
    plain, secret = split(config)
    assert plain == {"url": "u", "scopes": ["x"]}
    assert secret == {"clientSecret": "s", "apiKey": "k", "headers.A": "1"}
    assert joined(plain, secret) == config
    assert split({}) == ({}, {})


def test_a_patch_is_merged() -> None:
    """RFC 7396: missing fields are kept, null removes, others are replaced; header names ignore case."""
    old = {"a": 1, "headers.X-A": 1, "headers.B": 1}
    assert merged(old, {"headers.x-a": 2, "headers.b": None, "c": 3}) == {"a": 1, "headers.x-a": 2, "c": 3}


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"url": "https://x.org/b"}, False), ({"url": "https://X.ORG/a"}, False),
        ({"authorizeUrl": "https://z"}, False),
        ({"url": "https://y.org/a"}, True), ({"url": "http://x.org/a"}, True), ({"url": "https://x.org:444/a"}, True),
    ],
)  # fmt: skip
def test_kept_secrets_stay_with_their_receiver(change: dict[str, str], moved: bool) -> None:
    """Another scheme, host, port or provider requires every secret again; another path does not."""

    def connection(provider: str, config: dict[str, str]) -> Connection:
        return Connection("1", "n", provider, ConnectionKind.MCP, config, {"headers.A": "", "headers.B": ""})

    base = {"url": "https://x.org/a"}
    old, new = connection("p", base), connection("p", base | change)
    assert [issue.path for issue in kept_secret_issues(old, new, {"headers.A"})] == ["config.headers.B"] * moved
    assert kept_secret_issues(old, new, {"headers.A", "headers.B"}) == []
    assert len(kept_secret_issues(old, connection("q", base), {})) == 2


def test_headers_of_the_connection_are_reserved() -> None:
    """A customer sets neither `Host` nor the header of a key to one of the transport."""
    issues = config_issues({"headers": {"Host": "x", "X-A": "1"}, "header": "Connection"})
    assert [(issue.path, issue.rule) for issue in issues] == [
        ("config.headers.Host", "reserved"),
        ("config.header", "reserved"),
    ]
    assert config_issues({"header": None, "headers": None}) == []


def test_null_for_all_headers() -> None:
    """It becomes null for each stored header; other changes stay unchanged."""
    change = {"url": "u"}
    assert expand_null_headers(change, {"headers.A": "s"}) is change
    assert expand_null_headers({"headers": None}, {"headers.A": "s", "apiKey": "s"}) == {"headers": {"A": None}}
    assert expand_null_headers({"headers": None}, {}) == {"headers": {}}


def test_the_wire_form_hides_secrets() -> None:
    """Each secret is shown as set; a connection that was never used has no time."""
    connection = Connection(
        "1", "n", "p", ConnectionKind.MCP, {"url": "u"}, {"headers.A": "sealed", "apiKey": "sealed"}
    )
    assert connection.to_wire() == {
        "id": "1",
        "name": "n",
        "provider": "p",
        "kind": "mcp",
        "config": {"url": "u", "apiKey": {"set": True}, "headers": {"A": {"set": True}}},
        "ownership": "organization",
        "status": "active",
        "statusReason": None,
        "lastCheckedAt": None,
    }
    used = attrs.evolve(connection, last_checked_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert used.to_wire()["lastCheckedAt"] == "2026-01-01T00:00:00.000Z"
    assert "sealed=" not in repr(connection)


@pytest.mark.parametrize(
    ("host", "url", "goes"),
    [
        ("api.x.org", "https://API.x.org/a", True), ("api.x.org", "http://api.x.org:80/", True),
        ("api.x.org", "https://api.x.org:8443", False), ("api.x.org:8443", "https://api.x.org:8443", True),
        ("api.x.org", "https://evil-api.x.org", False), ("api.x.org", "https://api.x.org.evil.org", False),
        ("*.x.org", "https://a.b.x.org", True), ("*.x.org", "https://x.org", False),
        ("*.x.org", "https://ax.org", False), ("127.0.0.1:9000", "http://127.0.0.1:9000/x", True),
        ("127.0.0.1:9000", "http://127.0.0.1:9001/x", False), ("[::1]:9", "http://[::1]:9/", True),
        ("api.x.org", "ftp://api.x.org", False), ("api.x.org", "https://api.x.org:x", False),
        ("https://api.x.org", "https://api.x.org", False), ("api.x.org", "https://[", False),
        ("[0:0:0:0:0:0:0:1]:9", "http://[::1]:9/", True), ("[::1]", "http://[0:0:0:0:0:0:0:1]", True),
        ("[::1]", "http://[::2]", False), ("[::::]", "http://[:::::]", False), ("[::1]", "http://x.org", False),
    ],
)  # fmt: skip
def test_hosts_that_credentials_go_to(host: str, url: str, goes: bool) -> None:
    """An exact host with its port or the default one, or every name below a domain; nothing else."""
    assert goes_to([host], url) is goes
    assert goes_to([], url) is False


@pytest.mark.parametrize(
    "host",
    [
        "",
        "http://x.org",
        "x.org/",
        "a b",
        "*",
        "x.*.org",
        "x.org:999999",
        "x.org:0",
        "x.org:65536",
        "[::1",
        "[::::]",
        "u@x.org",
    ],
)
def test_invalid_hosts(host: str) -> None:
    """Each is an issue at its place."""
    issues = config_issues({"hosts": ["x.org", host]})
    assert [(issue.path, issue.rule) for issue in issues] == [("config.hosts[1]", "host")]


def test_what_a_grant_requires() -> None:
    """An address to authorize at, or a secret for `client_credentials`."""
    base = {"clientId": "c", "tokenUrl": "https://x.org"}
    for more, path in (({}, "config.authorizeUrl"), ({"grant": "client_credentials"}, "config.clientSecret")):
        assert [(issue.path, issue.rule) for issue in grant_issues({**base, **more})] == [(path, "required_if")]
    for whole in ({}, {**base, "authorizeUrl": "u"}, {**base, "grant": "client_credentials", "clientSecret": "s"}):
        assert list(grant_issues(whole)) == []


def test_what_keeps_grants() -> None:
    """Not another owner, client or receiver; for MCP not another address or scopes either."""
    config = {"clientId": "c", "tokenUrl": "https://x.org", "hosts": ["a.org", "b.org"]}
    old = Connection("1", "n", "p", ConnectionKind.OAUTH2, config, {"clientSecret": ""})
    assert keeps_grants(old, attrs.evolve(old, name="m", config={**config, "hosts": ["b.org"], "scopes": ["x"]}))
    for change in ({"clientId": "d"}, {"tokenUrl": "https://y.org"}, {"hosts": ["a.org", "c.org"]}):
        assert not keeps_grants(old, attrs.evolve(old, config={**config, **change}))
    assert not keeps_grants(old, attrs.evolve(old, ownership=Ownership.USER))
    server = Connection("1", "n", "p", ConnectionKind.MCP, {"url": "https://x.org/a"}, {})
    assert not keeps_grants(server, attrs.evolve(server, config={"url": "https://x.org/b"}))
    key = Connection("1", "n", "p", ConnectionKind.API_KEY, {}, {"apiKey": ""})
    assert [issue.path for issue in kept_secret_issues(key, attrs.evolve(key, config={"hosts": ["a"]}), ())] == [
        "config.apiKey"
    ]


def test_the_fingerprint_of_what_a_user_authorizes() -> None:
    """It differs with the owner, the client and each receiver, and with nothing else."""
    config = {"clientId": "c", "tokenUrl": "https://x.org/t", "hosts": ["a.org", "b.org"]}
    old = Connection("1", "n", "p", ConnectionKind.OAUTH2, config, {"clientSecret": "1"})
    same = attrs.evolve(old, name="m", sealed={"clientSecret": "2"}, config={**config, "hosts": ["b.org", "a.org"]})
    changes = [{"clientId": "d"}, {"tokenUrl": "https://y.org/t"}, {"hosts": ["a.org", "c.org"]}]
    others = [attrs.evolve(old, config={**config, **change}) for change in changes]
    others += [attrs.evolve(old, ownership=Ownership.USER), attrs.evolve(old, provider="q")]
    assert grant_fingerprint(same) == grant_fingerprint(old)
    assert len({grant_fingerprint(one) for one in [old, *others]}) == 6


def test_who_can_own_a_connection() -> None:
    """Each user owns an authorization only of what users authorize."""
    server = Connection("1", "n", "p", ConnectionKind.MCP, {"url": "u"}, {"headers.Authorization": ""})
    key = Connection("1", "n", "p", ConnectionKind.API_KEY, {}, {"apiKey": ""})
    client = Connection("1", "n", "p", ConnectionKind.OAUTH2, {"grant": "client_credentials"}, {})
    for one in (server, key, client):
        assert not one.can_authorize
        assert list(ownership_issues(one)) == []
        assert [issue.path for issue in ownership_issues(attrs.evolve(one, ownership=Ownership.USER))] == ["ownership"]
    assert list(ownership_issues(attrs.evolve(server, sealed={}, ownership=Ownership.USER))) == []
