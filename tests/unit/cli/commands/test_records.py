"""Members, groups, tokens, schedules, audit and usage of an organization."""

import asyncio
import json
from pathlib import Path

import pytest
from managing import ECHO, Organization

import wfcore

DAILY = {
    "trigger_type": "schedule",
    "schedule": {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:30"},
}


def test_members_are_listed_and_removed(acme: Organization) -> None:
    """By their ids; a removal is confirmed."""
    assert [row[0] for row in acme.call("member", "list").rows] == ["ada", "bob"]
    assert acme.call("member", "show", "bob").json["email"] == "bob@example.org"
    assert acme.call("member", "remove", "bob").status == 2
    assert acme.call("member", "remove", "bob", "--yes").status == 0
    assert [row["userId"] for row in acme.call("member", "list", "--json").json] == ["ada"]


@pytest.mark.parametrize("user", ["bob#x", "bob?x", "bob/x", "bob%23x", "b ob"])
def test_an_id_can_have_any_character(acme: Organization, user: str) -> None:
    """The command works on that member: not on `bob`, whose id is the part before a `#`."""
    assert acme.call("member", "add", "--user-id", user, "--email", "x@example.org").status == 0
    assert acme.call("member", "show", user).json["userId"] == user
    assert acme.call("member", "remove", user, "--yes").json["userId"] == user
    assert [row[0] for row in acme.call("member", "list").rows] == ["ada", "bob"]


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("token show x", "token `x`"),
        ("token revoke x --yes", "token `x`"),
        ("member show x#y", "member `x#y`"),
        ("member erase x --yes", "member `x`"),
        ("member export x --to data.zip", "member `x`"),
        ("policy remove x --yes", "policy `x`"),
        ("hook show x", "hook `x`"),
        ("connection show x", "connection `x`"),
        ("group remove x --yes", "group `x`"),
        ("schedule next 9", "workflow `9`"),
        ("workflow deploy 9", "workflow `9`"),
        ("skill show 9", "skill `9`"),
        ("run start 9", "workflow `9`"),
        ("run start --skill 9 --message hi", "skill `9`"),
        ("run show x", "run `x`"),
        ("run cancel x", "run `x`"),
        ("answer x approve", "run `x`"),
    ],
)
def test_what_is_not_found_is_named(acme: Organization, command: str, named: str) -> None:
    shown = acme.call(*command.split())
    assert (shown.status, shown.out, shown.err) == (1, "", f"error: {named} not found\n")


def test_groups_and_organizations(acme: Organization) -> None:
    """Every list is an array with `--json`."""
    assert [row["name"] for row in acme.call("group", "list", "--json").json] == ["Finance"]
    assert acme.call("org", "list", "--json").json == [{"id": acme.id, "name": "Acme"}]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("org create", "`name`: must not have a lone surrogate"),
        ("org show", "an argument is not UTF-8"),
        ("group create", "`name`: must not have a lone surrogate"),
    ],
)
def test_an_argument_that_is_not_utf_8_is_wrong_usage(acme: Organization, command: str, message: str) -> None:
    """It has no traceback, and nothing is created."""
    refused = acme.call(*command.split(), "\udcff")
    assert (refused.status, refused.out, refused.err) == (2, "", f"error: {message}\n")
    assert len(acme.call("org", "list").rows) == 1


def test_tokens_are_revoked(acme: Organization) -> None:
    """A token is listed without its secret."""
    secret = acme.call("token", "create", "--scope", "workflows:read").out.strip()
    (row,) = acme.call("token", "list", "--json").json
    assert secret.split("_")[2] == row["id"]
    assert secret not in acme.call("token", "list").out
    assert acme.call("token", "revoke", row["id"], "--yes").json["revokedAt"]


def test_schedules(acme: Organization) -> None:
    """Workflows without a schedule are not listed; the next times are."""

    async def schedule() -> None:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            me = core.principal(acme.id, user="ada", role="owner")
            flow = await core.workflows.create(me, name="Daily", structure=ECHO, trigger=DAILY)
            await core.workflows.deploy(me, flow.id)

    acme.deployed(("Echo", ECHO))
    asyncio.run(schedule())
    assert [row["slug"] for row in acme.call("schedule", "list", "--json").json] == ["daily"]
    assert len(acme.call("schedule", "next", "daily").rows) == 10


def test_audit_and_usage(acme: Organization) -> None:
    """The audit is filtered by action; a report of usage ends with the total."""
    acme.deployed(("Echo", ECHO))
    assert [row["action"] for row in acme.call("audit", "--action", "workflow.deploy", "--json").json] == [
        "workflow.deploy"
    ]
    assert len(acme.call("audit", "--limit", "2").rows) == 2
    assert acme.call("usage").rows[-1][0] == "total"
    assert acme.call("usage", "--json").json["totals"]["calls"] == 0


def test_policies(acme: Organization, tmp_path: Path) -> None:
    """Applied from a file by their name, listed, shown and removed; a broken one stops a deploy with its path."""
    file = tmp_path / "limits.json"
    file.write_text(json.dumps({"when": {"tool": "core.*"}, "require": {"retry": True}, "severity": "warning"}))
    made = acme.call("policy", "apply", str(file)).json
    assert (made["name"], made["severity"]) == ("limits", "warning")
    again = {"name": "limits", "when": {"tool": "core.*"}, "require": {"retry": True}}
    file.write_text(json.dumps(again))
    assert acme.call("policy", "apply", str(file)).json == {"id": made["id"], **again, "severity": "error"}
    assert [row["name"] for row in acme.call("policy", "list", "--json").json] == ["limits"]
    assert "core.*" in acme.call("policy", "list").out
    shown = acme.call("policy", "show", made["id"])
    file.write_text(shown.out)
    assert acme.call("policy", "apply", str(file)).json == shown.json
    with pytest.raises(wfcore.Invalid, match="policy `limits`"):
        acme.deployed(("Echo", ECHO))
    assert acme.call("policy", "remove", made["id"], "--yes").status == 0
    for _ in range(2):
        acme.policy(again)
    refused = acme.call("policy", "apply", str(file))
    assert refused.status == 1
    assert "2 policies have the name `limits`" in refused.err


@pytest.mark.parametrize(
    ("command", "message", "more"),
    [
        ("token show 1 2", "`2` is more than the command takes", "token show"),
        ("token frob", 'Unknown command "frob"', "token"),
        ("frob", 'Unknown command "frob"', ""),
        ("org limit x", "requires an argument", "org limit"),
        ("run start 9 --input 3", "--input: must be a JSON object", "run start"),
    ],
)
def test_wrong_usage_names_the_help_of_the_command(acme: Organization, command: str, message: str, more: str) -> None:
    shown = acme.call(*command.split())
    assert (shown.status, shown.out) == (2, "")
    assert message in shown.err
    assert shown.err.endswith(f"  see `{' '.join(['wfcore', *more.split()])} --help`\n")


@pytest.mark.parametrize(
    "command", ["run list --since nonsense", "run start --skill 9", "audit --action x" + "y" * 300]
)
def test_what_the_api_finds_wrong_is_wrong_usage_too(acme: Organization, command: str) -> None:
    """A 400 or 422 ends the command as the same fault does that it finds itself."""
    shown = acme.call(*command.split())
    assert (shown.status, shown.out) == (2, "")
    assert shown.err.startswith("error: `")


@pytest.mark.parametrize("server", ["nonsense", "flows.example.org:8080", "ftp://flows.example.org"])
def test_the_url_of_a_server_is_one_of_http(acme: Organization, server: str) -> None:
    shown = acme.call("workflow", "list", "--server", server, "--token", "x")
    assert (shown.status, shown.out) == (2, "")
    assert f"`{server}` is not the URL of a server: use http:// or https://" in shown.err


@pytest.mark.parametrize("token", ["svc_é", "svc_\u200b", "svc_\n1", "svc_\ud83d"])
def test_a_token_that_no_header_can_carry(acme: Organization, token: str) -> None:
    """It is wrong usage, and is not shown: it can be a real token with a character too many."""
    shown = acme.call("workflow", "list", "--server", "http://127.0.0.1:1", "--token", token)
    assert (shown.status, shown.out) == (2, "")
    assert "the token has a character that no token has" in shown.err
    assert "svc_" not in shown.err


@pytest.mark.parametrize("area", ["member", "group", "token"])
def test_every_command_of_an_area_says_what_it_does(acme: Organization, area: str) -> None:
    """The help of the area has a text for each."""
    lines = [line.strip("│ ") for line in acme.call(area, "--help").out.splitlines() if line.startswith("│ ")]
    assert [line for line in lines if line and " " not in line] == []
