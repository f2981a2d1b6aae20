"""The configuration of connections: secret fields, merging, URLs and headers."""

import pytest

from wfcore.api.connections import CONFIGS, PATCH_CONFIGS
from wfcore.domain.agents.connections import (
    Connection,
    ConnectionKind,
    config_issues,
    joined,
    kept_secret_issues,
    merged,
    split,
)
from wfcore.domain.json.codec import check

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


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("X-A", "v", True), ("X-A", "a b", True), ("X.A", "v", True), ("X A", "v", False), ("X:A", "v", False),
        ("", "v", False), ("X-Ä", "v", False), ("X-A", "", False), ("X-A", "a\r\nB: c", False), ("X-A", "a\n", False),
        ("X-A", " a", False), ("X-A", "ä", False), ("X-A\n", "v", False), ("X-A", 1, False),
    ],
)  # fmt: skip
def test_headers_have_the_form_of_the_wire(name: str, value: object, good: bool) -> None:
    """RFC 9110, 5.1 and 5.5: a name is a token, a value visible ASCII with spaces inside; line breaks are refused."""
    issues = check(CONFIGS["mcp"], {"url": "https://x.org", "headers": {name: value}}, "config")
    assert (issues == []) == good


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


def test_required_fields_cannot_be_removed() -> None:
    """Null for a required field is malformed; every optional field may be null in a patch."""
    for kind, needed in {"api_key": {"apiKey"}, "oauth2": {"clientId", "tokenUrl"}, "mcp": {"url"}}.items():
        assert {issue.path for issue in check(CONFIGS[kind], {})} == needed
        names = PATCH_CONFIGS[kind].__annotations__.keys() - {"headers"}
        refused = {issue.path for issue in check(PATCH_CONFIGS[kind], dict.fromkeys(names))}
        assert refused == needed
