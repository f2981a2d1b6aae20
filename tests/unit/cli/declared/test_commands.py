"""`wfcore apply`, `diff` and `export`."""

from pathlib import Path

import pytest
from managing import ASK, Organization

from wfcore.workflow_files import write_yaml

START = {"nodes": [{"id": "s", "type": "start"}], "edges": []}


def write(kind: str, slug: str, **body: object) -> None:
    folder = Path("files") / f"{kind}s"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{slug}.yaml").write_text(write_yaml(body))  # type: ignore[arg-type]


def calls(child: str) -> dict[str, object]:
    node = {"id": "c", "type": "action", "data": {"toolId": "core.workflow", "params": {"workflowId": child}}}
    edges = [{"id": "e", "source": "s", "target": "c"}]
    return {"nodes": [*START["nodes"], node], "edges": edges}


def agent(skill: str) -> dict[str, object]:
    node = {"id": "a", "type": "agent", "data": {"agent_id": skill, "message": "x"}}
    return {"nodes": [*START["nodes"], node], "edges": [{"id": "e", "source": "s", "target": "a"}]}


def test_a_folder_is_applied_and_deployed(acme: Organization) -> None:
    """Skills come first, a file is named by its slug, and the same folder changes nothing the second time."""
    write("skill", "helper", instructions=["Be kind."])
    write("workflow", "a-refund", name="Refund", workflowStructure=agent("helper"))
    first = acme.call("apply", "files", "--deploy")
    assert (first.status, first.out.splitlines()) == (0, [
        "create  skill helper", "create  workflow a-refund", "deploy  skill helper", "deploy  workflow a-refund"
    ]), first.err  # fmt: skip
    assert acme.call("workflow", "show", "a-refund").json["name"] == "Refund"
    assert acme.call("apply", "files", "--deploy").out == "nothing to change\n"
    assert acme.call("diff", "files").status == 0


def test_null_within_a_file_is_absent(acme: Organization) -> None:
    """As in a create body: YAML has it for a key without a value. A second apply changes nothing."""
    nodes = [{"id": "s", "type": "start", "position": None}, {"id": "t", "type": "agent", "data": {"message": "x"}}]
    edges = [{"id": "e", "source": "s", "target": "t", "sourceHandle": None}]
    access = {"visibility": "shared", "groupPermissions": {acme.id: {"use": True, "manage": True}}, "guardrails": None}
    write("workflow", "a", accessConfig=access, workflowStructure={"nodes": nodes, "edges": edges})
    write("skill", "b", toolset={"core.http": {"enabled": True, "requiresApproval": None}}, budget={"maxTokens": None})
    assert acme.call("apply", "files").out.splitlines() == ["create  skill b", "create  workflow a"]
    assert acme.call("apply", "files").out == "nothing to change\n"
    assert acme.call("simulate", "files/workflows/a.yaml").status == 0


def test_a_difference_is_shown_and_removed(acme: Organization) -> None:
    """`diff` exits with 1 and shows what differs on the server; `apply` names the parts, and sends only them."""
    acme.deployed(("Refund", ASK))
    assert acme.call("export", "files").status == 0
    text = Path("files/workflows/refund.yaml").read_text()
    Path("files/workflows/refund.yaml").write_text(text.replace("Refund?", "Really?").replace("Refund\n", "Money\n"))
    shown = acme.call("workflow", "diff", "files")
    assert shown.status == 1
    assert {"-name: Refund", "+name: Money", "-      message: Refund?", "+      message: Really?"} <= {
        *shown.out.splitlines()
    }
    steps = acme.call("diff", "files", "--json").json
    assert steps == [
        {"action": "change", "kind": "workflow", "slug": "refund", "paths": ["name", "node w: data.message"]}
    ]
    assert acme.call("apply", "files", "--json").json == steps
    view = acme.call("workflow", "show", "refund", "--draft").json
    assert (view["name"], view["hasUnpublishedChanges"], view["slug"]) == ("Money", True, "refund")
    assert acme.call("diff", "files").status == 0


def test_what_has_no_file_is_deleted_after_a_confirmation(acme: Organization) -> None:
    """Only with `--prune`; a later apply of its file restores it under the same number."""
    acme.deployed(("Refund", ASK), ("Echo", START))
    acme.call("export", "files")
    (kept,) = Path("files/workflows").glob("echo.yaml")
    text = kept.read_text()
    kept.unlink()
    assert "no file: workflow echo" in acme.call("apply", "files").err
    assert acme.call("diff", "files").status == 1
    refused = acme.call("apply", "files", "--prune")
    assert (refused.status, "--yes" in refused.err) == (2, True)
    assert acme.call("apply", "files", "--prune", "--yes").out == "delete  workflow echo\n"
    assert [row["slug"] for row in acme.call("workflow", "list", "--json").json] == ["refund"]
    kept.write_text(text.replace("everyone:\n      use: true", "everyone:\n      use: false"))
    restored = acme.call("workflow", "apply", "files")
    assert restored.out == "restore workflow echo  accessConfig\n", restored.err
    assert [row["id"] for row in acme.call("workflow", "list", "--json").json] == [1, 2]
    assert acme.call("diff", "files").status == 0
    kept.write_text("name: [")
    assert acme.call("diff", "files").status == 2


def test_a_file_that_refers_to_what_is_deleted_stops_the_apply(acme: Organization) -> None:
    """Nothing is deleted then."""
    write("skill", "helper")
    acme.call("apply", "files")
    Path("files/skills/helper.yaml").unlink()
    write("workflow", "w", workflowStructure=agent("helper"))
    refused = acme.call("apply", "files", "--prune", "--yes")
    assert (refused.status, "refers to skill `helper`, which has no file" in refused.err) == (1, True)
    assert acme.call("workflow", "list", "--json").json == []


def test_every_fault_of_every_file_comes_in_one_answer(acme: Organization) -> None:
    """With the line of each, before anything is written: syntax, form, names, and what the server finds."""
    write("workflow", "good", workflowStructure=START)
    write("workflow", "form", name="", workflowStructure={"nodes": [{"id": "s", "typ": "start"}], "edges": []})
    write("workflow", "names", workflowStructure=agent("nobody"), accessConfig={
        "visibility": "shared", "groupPermissions": {"Nobody": {"use": True, "manage": True}}})  # fmt: skip
    write("skill", "cycle", supervisionSubordinateIds=["cycle"], connectionSet=[{"connectionId": "Shop"}])
    write("skill", "model", model="unknown", toolset={"mcp.x.y": {"enabled": True}})
    Path("files/skills/syntax.yaml").write_text("name: [x\n")
    Path("files/skills/twice.json").write_text('{"slug": "model"}')
    failed = acme.call("apply", "files", "--deploy")
    assert failed.status == 2
    assert acme.call("workflow", "list", "--json").json == []
    for expected in (
        "files/skills/syntax.yaml: not YAML: line 2:",
        "files/skills/twice.json:1: `slug`: `files/skills/model.yaml` already has the slug `model`",
        "files/skills/model.yaml:1: `model`: there is no model `unknown`",
        "files/skills/model.yaml:3: `toolset.mcp.x.y`: `x.y` does not begin with the name of a connection",
        "files/skills/cycle.yaml:4: `connectionSet[0].connectionId`: unknown connection `Shop`",
        "files/workflows/form.yaml:1: `name`: must not be empty",
        "files/workflows/form.yaml:5: `workflowStructure.nodes[0].typ`: `typ` is an unknown key",
        "files/workflows/names.yaml:8: `workflowStructure.nodes[1].data.agent_id`: unknown skill `nobody`",
        "files/workflows/names.yaml:17: `accessConfig.groupPermissions.Nobody`: unknown group `Nobody`",
    ):
        assert expected in failed.err, failed.err


def test_a_draft_that_cannot_run_yet_is_applied(acme: Organization) -> None:
    """Faults that only prevent a deploy stop `--deploy` alone."""
    write("workflow", "w", workflowStructure={"nodes": [], "edges": []})
    refused = acme.call("apply", "files", "--deploy")
    assert (refused.status, "must have a `start` node" in refused.err) == (2, True)
    assert acme.call("apply", "files").status == 0
    assert acme.call("diff", "files").status == 0


def test_workflows_that_call_each_other(acme: Organization) -> None:
    """Each is created first, and gets its graph when the other one exists; so does one that calls itself."""
    write("workflow", "a", workflowStructure=calls("b"))
    write("workflow", "b", workflowStructure=calls("a"))
    write("workflow", "c", workflowStructure=calls("c"))
    applied = acme.call("apply", "files")
    assert applied.status == 0, applied.err
    assert acme.call("diff", "files").status == 0


def test_agents_in_order_are_a_graph(acme: Organization) -> None:
    """A file can have an `agentSelection` with slugs; the stored graph is no difference."""
    write("skill", "helper")
    write(
        "workflow", "w", agentSelection={"type": "sequential", "agents": [{"agent_id": "helper", "priority_order": 1}]}
    )
    applied = acme.call("apply", "files")
    assert applied.status == 0, applied.err
    assert acme.call("diff", "files").status == 0


def test_a_skill_is_deployed_with_force(acme: Organization) -> None:
    """A required evaluation that has not run stops the deploy, and the step is named."""
    case = {"id": "a", "required": True, "input": {"message": "x"}, "checks": [{"kind": "contains", "value": "x"}]}
    write("skill", "helper", evaluations=[case])
    refused = acme.call("apply", "files", "--deploy")
    assert (refused.status, "cannot deploy skill `helper`: 1 required" in refused.err) == (1, True)
    assert acme.call("skill", "apply", "files", "--deploy", "--force").out == "deploy  skill helper\n"


def test_an_export_lists_files_of_others(acme: Organization) -> None:
    """Files without a resource stay, until `--prune` removes them; other files stay always."""
    acme.deployed(("Refund", ASK))
    write("workflow", "old")
    Path("files/workflows/README.md").write_text("x")
    assert "old.yaml belongs to no resource" in acme.call("workflow", "export", "files").err
    assert "removed" in acme.call("export", "files", "--prune").err
    assert sorted(file.name for file in Path("files/workflows").iterdir()) == ["README.md", "refund.yaml"]


@pytest.mark.parametrize("command", ["apply", "diff"])
def test_a_folder_is_needed(acme: Organization, command: str) -> None:
    """A path without folders of these kinds is a wrong use."""
    refused = acme.call("skill", command, "nowhere")
    assert (refused.status, "there is no folder `nowhere/skills`" in refused.err) == (2, True)
