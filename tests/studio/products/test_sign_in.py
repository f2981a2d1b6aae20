"""Sign-in with an OAuth issuer: authorization code with PKCE (RFC 7636), in a real browser."""

import base64
import hashlib
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route, expect
from watching import Open

ISSUER = "http://issuer.test"
CORS = {"Access-Control-Allow-Origin": "*"}


@pytest.mark.parametrize(("path", "heading"), [("/c/studio/workflows", "Workflows"), ("chat", "Helper")])
def test_authorization_code_with_pkce(open_page: Open, product: dict[str, Any], path: str, heading: str) -> None:
    """The user returns to the page that was opened, that of a chat too; no token is in an address.

    The verifier fits the challenge.
    """
    path = f"/c{product['chat']}" if path == "chat" else path
    asked: dict[str, str] = {}
    sent: dict[str, str] = {}

    def authorize(route: Route) -> None:
        asked.update({name: values[0] for name, values in parse_qs(urlsplit(route.request.url).query).items()})
        back = f"{asked['redirect_uri']}?code=the-code&state={asked['state']}"
        route.fulfill(status=302, headers={"Location": back})

    def token(route: Route) -> None:
        sent.update({name: values[0] for name, values in parse_qs(route.request.post_data or "").items()})
        route.fulfill(json={"access_token": "access-token", "token_type": "Bearer"}, headers=CORS)

    endpoints = {"authorization_endpoint": f"{ISSUER}/authorize", "token_endpoint": f"{ISSUER}/token"}
    origin = f"http://127.0.0.1:{product['port']}"
    page = open_page(path, token=None, origin=origin, others=(ISSUER,))
    page.route(f"{ISSUER}/.well-known/openid-configuration", lambda route: route.fulfill(json=endpoints, headers=CORS))
    page.route(re.compile(f"{ISSUER}/authorize"), authorize)
    page.route(f"{ISSUER}/token", token)
    page.get_by_role("button", name="Continue with your organization").click()
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    assert page.url == f"{origin}{path}"
    digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
    assert asked["code_challenge"] == base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert (asked["code_challenge_method"], asked["client_id"], asked["response_type"]) == ("S256", "studio", "code")
    assert (sent["code"], sent["redirect_uri"]) == ("the-code", asked["redirect_uri"])
    assert page.evaluate("sessionStorage.getItem('studio-sign-in')") is None
