"""The configuration of connections: secret fields, merging, URLs and headers."""

from datetime import UTC, datetime

import attrs
import pytest

from wfcore.domain.agents.connections import (
    Connection,
    ConnectionKind,
    config_issues,
    expand_null_headers,
    joined,
    kept_secret_issues,
    merged,
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
@pytest.mark.parametrize("name", ["url", "tokenUrl", "authorizeUrl"])
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
        "status": "active",
        "lastCheckedAt": None,
    }
    used = attrs.evolve(connection, last_checked_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert used.to_wire()["lastCheckedAt"] == "2026-01-01T00:00:00.000Z"
    assert "sealed=" not in repr(connection)
