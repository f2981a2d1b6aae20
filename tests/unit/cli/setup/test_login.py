"""`wfcore login` and `logout`."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from wfcore.cli.client import CommandTarget, signed_in
from wfcore.cli.credentials import Credentials, location, read_credentials, write_credentials
from wfcore.cli.main import main

SERVER = "https://flows.example.org"

Reply = tuple[int, Any]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("WFCORE_SERVER", "WFCORE_TOKEN", "WFCORE_ORG", "WFCORE_USER_ID"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def respond(monkeypatch: pytest.MonkeyPatch, reply: Callable[[Request, bytes], Reply]) -> None:
    """Every server is this one."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        status, body = reply(request, await request.body())
        response = Response(status_code=status) if body is None else JSONResponse(body, status)
        await response(scope, receive, send)

    app: ASGIApp = application
    monkeypatch.setattr("httpx2.AsyncClient", partial(httpx2.AsyncClient, transport=httpx2.ASGITransport(app)))


def flows(good: str) -> Callable[[Request, bytes], Reply]:
    """A server that knows one token."""

    def reply(request: Request, _: bytes) -> Reply:
        if request.headers["authorization"] != f"Bearer {good}":
            return 401, {"error": {"message": "the access token is missing, invalid or expired"}}
        return 200, {"workflows": [], "nextPageToken": None}

    return reply


def test_a_pasted_token_is_stored_for_the_user_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After the server has accepted it; later commands need neither server nor token, until the logout."""
    respond(monkeypatch, flows("good"))
    monkeypatch.setattr("sys.stdin", io.StringIO("good\n"))
    assert main(["login", f"{SERVER}/"]) == 0
    assert (location().stat().st_mode & 0o777, location().parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert main(["workflow", "list", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert main(["workflow", "list", "--server", SERVER]) == 0
    assert main(["logout"]) == 0
    assert (main(["workflow", "list"]), main(["logout"]), main(["logout", SERVER])) == (2, 2, 2)


def test_a_token_that_the_server_refuses_is_not_stored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one before stays. One that lacks the scope for workflows is accepted."""
    respond(monkeypatch, flows("good"))
    assert main(["login", SERVER, "--token", "bad"]) == 1
    assert "missing, invalid or expired" in capsys.readouterr().err
    assert read_credentials() == Credentials()
    respond(monkeypatch, lambda *_: (403, {"error": {"message": "scope"}}))
    assert main(["login", SERVER, "--token", "usage-only"]) == 0
    assert read_credentials() == Credentials(SERVER, {SERVER: "usage-only"})


def test_a_token_at_the_terminal_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read without an echo."""
    respond(monkeypatch, flows("good"))
    monkeypatch.setattr("sys.stdin", type("Terminal", (io.StringIO,), {"isatty": lambda self: True})())
    monkeypatch.setattr("getpass.getpass", lambda prompt, stream: " good ")
    assert main(["login", SERVER]) == 0
    monkeypatch.setattr("getpass.getpass", lambda prompt, stream: "")
    assert main(["login", SERVER]) == 2


@pytest.mark.parametrize("address", ["flows.example.org", "ftp://x", "https://a b"])
def test_the_address_must_be_one(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its scheme."""
    assert main(["login", address, "--token", "x"]) == 2
    assert "is not an address" in capsys.readouterr().err


def test_a_file_that_others_can_read_is_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    """The error says how to change that; a damaged file is an error too."""
    write_credentials(Credentials(SERVER, {SERVER: "good"}))
    location().chmod(0o644)
    assert main(["workflow", "list"]) == 2
    assert "chmod 600" in capsys.readouterr().err
    location().chmod(0o600)
    location().write_text("{")
    assert main(["workflow", "list"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_what_a_command_names_comes_first() -> None:
    """A token, an organization of a database, or another server are not replaced."""
    write_credentials(Credentials(SERVER, {SERVER: "good"}))
    for given in (CommandTarget(server=SERVER, token="t"), CommandTarget(org="o"), CommandTarget(user_id="u")):
        assert signed_in(given) == given
    assert signed_in(CommandTarget(server="https://other")).token is None
    assert signed_in(CommandTarget()) == CommandTarget(server=SERVER, token="good")


DATABASE = ("--database", "sqlite:///staging.db")
MEMBER = ("--org", "o", "--user-id", "u")


@pytest.mark.parametrize("variable", ["WFCORE_SERVER", None])
@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        ([*DATABASE, *MEMBER], {}, (1, "does not exist: run `wfcore db upgrade`")),
        (MEMBER, {}, (1, "does not exist: run `wfcore db upgrade`")),
        (DATABASE, {"WFCORE_ORG": "o", "WFCORE_USER_ID": "u"}, (1, "does not exist: run `wfcore db upgrade`")),
        (DATABASE, {}, (2, "a database needs --org and --user-id")),
        (("--org", "o"), {}, (2, "a database needs --org and --user-id")),
        ((*DATABASE, *MEMBER, "--server", SERVER), {}, (2, "name either a server or a database")),
        ((*DATABASE, *MEMBER, "--token", "t"), {}, (2, "name either a server or a database")),
    ],
)
def test_an_option_for_a_database_overrides_a_server(
    options: list[str],
    environment: dict[str, str],
    expected: tuple[int, str],
    variable: str | None,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whether the environment or the last login names the server: no command changes another target."""
    monkeypatch.chdir(home)
    write_credentials(Credentials(SERVER, {SERVER: "good"}))
    for name, value in environment.items() | ({(variable, SERVER)} if variable else set()):
        monkeypatch.setenv(name, value)
    respond(monkeypatch, lambda *_: pytest.fail("the server received a request"))
    status = main(["workflow", "delete", "7", "--yes", *options])
    assert (status, expected[1] in capsys.readouterr().err) == (expected[0], True)


class Issuer:
    """An issuer with the device grant (RFC 8628): the user consents at the third poll."""

    def __init__(self, *ends: Reply) -> None:
        self.ends = list(ends)
        self.forms: list[dict[str, list[str]]] = []

    def __call__(self, request: Request, body: bytes) -> Reply:
        match request.url.path:
            case "/.well-known/oauth-protected-resource":
                return 200, {"authorization_servers": ["https://id.example.org/"]}
            case "/.well-known/openid-configuration":
                at = "https://id.example.org"
                return 200, {"device_authorization_endpoint": f"{at}/device", "token_endpoint": f"{at}/token"}
            case "/device":
                self.forms.append(parse_qs(body.decode()))
                return 200, {"device_code": "d", "user_code": "ABCD", "verification_uri": "https://id.example.org/d",
                             "interval": 1, "verification_uri_complete": "https://id.example.org/d?c=ABCD"}  # fmt: skip
            case "/token":
                self.forms.append(parse_qs(body.decode()))
                return self.ends.pop(0)
            case "/api/v1/workflows":
                return flows("from-device")(request, body)
        return 404, None


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between two polls, which take no time."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("wfcore.cli.setup.device.asyncio", type("Clock", (), {"sleep": staticmethod(sleep)}))
    return found


def test_a_sign_in_with_a_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], waits: list[float]
) -> None:
    """The code is shown, and the issuer is polled as slowly as it says until the user has consented."""
    pending, slow = (400, {"error": "authorization_pending"}), (400, {"error": "slow_down"})
    issuer = Issuer(pending, slow, (200, {"access_token": "from-device"}))
    respond(monkeypatch, issuer)
    assert main(["login", SERVER, "--client-id", "cli", "--scope", "workflows:read"]) == 0
    shown = capsys.readouterr().err
    assert "enter the code ABCD" in shown
    assert "https://id.example.org/d?c=ABCD" in shown
    assert waits == [1, 1, 6]
    assert issuer.forms[0] == {"client_id": ["cli"], "scope": ["workflows:read"], "resource": [SERVER]}
    assert issuer.forms[1]["grant_type"] == ["urn:ietf:params:oauth:grant-type:device_code"]
    assert read_credentials().tokens == {SERVER: "from-device"}


def test_a_sign_in_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], waits: list[float]
) -> None:
    """The reason of the issuer is shown, and nothing is stored."""
    respond(monkeypatch, Issuer((400, {"error": "access_denied", "error_description": "Ann said no"})))
    assert main(["login", SERVER, "--client-id", "cli"]) == 1
    assert "the sign-in failed: Ann said no" in capsys.readouterr().err
    assert waits == [1]
    assert read_credentials() == Credentials()


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ({}, "has no issuer of access tokens"),
        ({"/.well-known/oauth-protected-resource": {"authorization_servers": ["https://id"]}}, "has no metadata"),
        ({"/.well-known/oauth-protected-resource": {"authorization_servers": ["https://id"]},
          "/.well-known/oauth-authorization-server": {"issuer": "x"}}, "offers no sign-in with a code"),
        ({"/.well-known/oauth-protected-resource": {"authorization_servers": ["https://id"]},
          "/.well-known/oauth-authorization-server": {
              "device_authorization_endpoint": "https://id/d", "token_endpoint": "https://id/t"},
          "/d": {"error": "invalid_client"}}, "refused the sign-in: invalid_client"),
    ],
)  # fmt: skip
def test_a_server_without_such_a_sign_in(
    replies: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error says which part is missing."""
    respond(
        monkeypatch, lambda request, _: (200 if request.url.path in replies else 404, replies.get(request.url.path))
    )
    assert main(["login", SERVER, "--client-id", "cli"]) == 1
    assert expected in capsys.readouterr().err
