"""What `wfcore serve` prints beside its address, the dates of its responses, and the link of `wfcore dev`."""

import sys

import httpx
import pytest
from starlette.responses import PlainTextResponse

from wfcore.cli.commands.dev import COOKIE, SIGN_IN, with_sign_in
from wfcore.cli.commands.serve import TICKS, _print_next_steps, server_of
from wfcore.settings.server import ServerSettings
from wfcore.testing.fakes import FakeClock


@pytest.mark.parametrize(("at_terminal", "has_studio"), [(True, True), (True, False), (False, True)])
def test_next_steps_are_for_people(
    at_terminal: bool, has_studio: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, at a terminal only: the studio if it is served, the document, how to make a first token."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: at_terminal)
    _print_next_steps("http://127.0.0.1:1", has_studio)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("http://127.0.0.1:1/docs" in captured.err) == at_terminal
    assert ("http://127.0.0.1:1/studio/" in captured.err) == (at_terminal and has_studio)
    assert ("wfcore token create" in captured.err) == at_terminal


@pytest.mark.anyio
async def test_only_the_secret_signs_in() -> None:
    """Every other path goes to the application; the cookie cannot be read by scripts or sent by other sites."""
    transport = httpx.ASGITransport(with_sign_in(PlainTextResponse("application"), "s3cret"))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for path in ("/", SIGN_IN, f"{SIGN_IN}s3cre", f"{SIGN_IN}s3cret/", f"{SIGN_IN}é", "/api/v1/me"):
            assert (await client.get(path)).text == "application", path
        entered = await client.get(f"{SIGN_IN}s3cret")
        assert (entered.status_code, entered.headers["Location"]) == (303, "/studio/")
        assert entered.headers["Set-Cookie"] == f"{COOKIE}=s3cret; HttpOnly; Path=/; SameSite=strict"


@pytest.mark.anyio
async def test_responses_have_the_date_of_the_clock() -> None:
    """The header `Date` is renewed each second: clients compare the times in responses with it."""
    clock = FakeClock()
    server = server_of(PlainTextResponse("application"), "http://127.0.0.1", ServerSettings(), clock.now)
    for tick in range(2 * TICKS):
        await server.on_tick(tick)
        clock.advance(1 / TICKS)
    assert server.server_state.default_headers == [(b"date", b"Thu, 01 Jan 2026 12:00:01 GMT")]
