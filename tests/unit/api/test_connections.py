"""The shapes of connections: headers, and the fields that a patch can remove."""

import pytest

from wfcore.api.connections import CONFIGS, PATCH_CONFIGS
from wfcore.domain.json.codec import check, schemas_of


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("X-A", "v", True), ("X-A", "a b", True), ("X.A", "v", True), ("X A", "v", False), ("X:A", "v", False),
        ("", "v", False), ("X-Ä", "v", False), ("X-A", "", False), ("X-A", "a\r\nB: c", False), ("X-A", "a\n", False),
        ("X-A", " a", False), ("X-A", "ä", False), ("X-A\n", "v", False), ("X-A", 1, False),
    ],
)  # fmt: skip
def test_form_of_headers(name: str, value: object, good: bool) -> None:
    """RFC 9110, 5.1 and 5.5: a name is a token, a value visible ASCII with spaces inside; line breaks are refused."""
    issues = check(CONFIGS["mcp"], {"url": "https://x.org", "headers": {name: value}}, "config")
    assert (issues == []) == good


def test_required_fields_cannot_be_removed() -> None:
    """Null for a required field is malformed; every optional field may be null in a patch."""
    for kind, needed in {"api_key": {"apiKey"}, "oauth2": {"clientId", "tokenUrl"}, "mcp": {"url"}}.items():
        assert {issue.path for issue in check(CONFIGS[kind], {})} == needed
        patch = PATCH_CONFIGS[kind]
        names = schemas_of([patch])[patch.__name__]["properties"].keys() - {"headers"}
        assert {issue.path for issue in check(patch, dict.fromkeys(names))} == needed
