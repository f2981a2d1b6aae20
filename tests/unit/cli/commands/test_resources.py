"""`wfcore workflow`: lists, records, deployment, deletion."""

import pytest
from managing import ASK, ECHO, FAILING, Organization

from wfcore.testing.histories import sketch

DAILY = {"trigger_type": "schedule", "schedule": {
    "frequency": "daily", "timezone": "Europe/Berlin", "time_of_day": "09:00"}}  # fmt: skip


def test_workflows_are_listed_and_shown(acme: Organization) -> None:
    """A table for people and an array for programs; one is named by number or slug."""
    acme.deployed(("Refund", ASK), ("Echo it", ECHO))
    assert sorted(row[1] for row in acme.call("workflow", "list").rows) == ["echo-it", "refund"]
    assert {row["name"] for row in acme.call("workflow", "list", "--json").json} == {"Refund", "Echo it"}
    assert [acme.call("workflow", "show", name).json["id"] for name in ("1", "echo-it")] == [1, 2]
    assert len(acme.call("workflow", "list", "--limit", "1", "--json").json) == 1


def test_a_deleted_workflow_is_restored(acme: Organization) -> None:
    """Deletion needs a confirmation, which `--yes` gives; the deleted one is listed with `--deleted`."""
    acme.deployed(("Refund", ASK))
    asked = acme.call("workflow", "delete", "refund")
    assert (asked.status, "--yes" in asked.err) == (2, True)
    assert acme.call("workflow", "delete", "refund", "--yes").json["status"] == "deleted"
    assert acme.call("workflow", "list", "--json").json == []
    assert [row["id"] for row in acme.call("workflow", "list", "--deleted", "--json").json] == [1]
    unknown = acme.call("workflow", "restore", "nope")
    assert (unknown.status, unknown.err) == (1, "error: no deleted workflow has the slug `nope`\n")
    assert acme.call("workflow", "restore", "refund").json["status"] == "active"


def test_an_earlier_variation_is_deployed_again(acme: Organization) -> None:
    """`deploy` publishes the draft, `rollback` an earlier variation."""
    acme.deployed(("Refund", ASK))
    first = acme.call("workflow", "show", "refund").json["activeVariationId"]
    assert acme.call("workflow", "deploy", "refund").json["activeVariationId"] == first
    assert acme.call("workflow", "rollback", "refund", first).json["activeVariationId"] == first
    assert acme.call("workflow", "show", "refund", "--draft").status == 0


def test_the_impact_of_a_deploy(acme: Organization) -> None:
    """A line for each fact, then the tag to which a deploy can be bound."""
    acme.deployed(("Refund", ASK))
    assert acme.call("workflow", "impact", "refund").out.splitlines()[0] == "no difference from what is deployed"
    acme.call("run", "start", "refund", "--key", "r", "--input", '{"order": 1}', "--follow")
    step = {"toolId": "core.transform", "params": {"value": 1}}
    acme.changed(1, sketch("s -> n", "n -> t", t=step, n=step), trigger=DAILY, deploy=False)
    *lines, tag = acme.call("workflow", "impact", "refund").out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "+ node n", "- node w", "~ node t", "~ edge edge 1", "~ edge edge 2", "~ trigger", "waiting",
        "  node `w` has begun, and is not in the other graph", "schedule", "a run used 0 + 0 tokens (mean of 1)",
    ]  # fmt: skip
    assert acme.call("workflow", "impact", "refund", "--json").json["etag"] == tag
    stale = acme.call("workflow", "deploy", "refund", "--impact", '"impact-old"')
    assert (stale.status, "has changed since" in stale.err) == (1, True)
    assert acme.call("workflow", "deploy", "refund", "--impact", tag).status == 0


@pytest.mark.parametrize("reference", ["9", "unknown"])
def test_an_unknown_one(acme: Organization, reference: str) -> None:
    """Neither its number nor its slug is known: exit status 1, and nothing on stdout."""
    shown = acme.call("workflow", "show", reference)
    assert (shown.status, shown.out) == (1, "")
    assert "not found" in shown.err or "`unknown`" in shown.err


def test_skills_have_the_same_commands(acme: Organization) -> None:
    """An organization without skills has an empty list."""
    assert acme.call("skill", "list", "--json").json == []


def test_the_member_must_be_known(acme: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not a member can do nothing; without a member the error names the options."""
    acme.deployed(("Fails", FAILING))
    assert "is not a member" in acme.call("workflow", "list", "--user-id", "eve").err
    monkeypatch.delenv("WFCORE_USER_ID")
    missing = acme.call("workflow", "list")
    assert (missing.status, "--user-id" in missing.err) == (2, True)
    assert "--token" in acme.call("workflow", "list", "--server", "http://127.0.0.1:1").err
    refused = acme.call("workflow", "list", "--server", "http://127.0.0.1:1", "--token", "x")
    assert (refused.status, "does not respond" in refused.err) == (1, True)


def test_a_skill_is_deployed_with_force(acme: Organization) -> None:
    """Although a required evaluation has not run."""
    case = {"id": "a", "required": True, "input": {"message": "x"}, "checks": [{"kind": "contains", "value": "x"}]}
    acme.skill("Helper", evaluations=[case])
    refused = acme.call("skill", "deploy", "helper")
    assert (refused.status, "1 required evaluation has not passed" in refused.err) == (1, True)
    assert acme.call("skill", "deploy", "helper", "--force").json["status"] == "active"
