"""The references of a skill must exist when it is deployed (interface, Scope, variation)."""

from typing import Any

import pytest
from bench import Bench, act, agent, ask, deployed_skill, one, opened, paths, private
from real_mcp import office

from wfcore.domain.kernel.errors import Invalid
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

ON, OFF = {"enabled": True}, {"enabled": False}


@pytest.mark.parametrize(
    ("content", "path", "rule"),
    [
        ({"model": "gpt-99"}, "model", "reference"),
        ({"toolset": {"nope": ON}}, "toolset.nope", "reference"),
        ({"toolset": {"mcp.nowhere.add": ON}}, "toolset.mcp.nowhere.add", "reference"),
        ({"toolset": {"skill:7": ON}}, "toolset.skill:7", "reference"),
        ({"contextSelections": [{"id": "gone"}]}, "contextSelections[0].id", "reference"),
        ({"contextSelections": [{"id": 7}]}, "contextSelections[0].id", "reference"),
        ({"contextSelections": [{"title": "Tone"}]}, "contextSelections[0].id", "required"),
    ],
)
async def test_missing_references(bench: Bench, content: Any, path: str, rule: str) -> None:
    """They can be saved but not deployed: every error has its path, and the draft stays."""
    skills = bench.core.skills
    number = (await skills.create(bench.me, name="s", **content)).id
    with pytest.raises(Invalid) as error:
        await skills.deploy(bench.me, number)
    assert paths(error) == {(path, rule)}
    assert (await skills.get(bench.me, number)).resource.draft_variation_id is not None


async def test_a_tool_that_agents_are_not_offered(bench: Bench) -> None:
    """`core.workflow`, which is for nodes: a validation warns, and a deploy goes on."""
    number = await deployed_skill(bench, toolset={"core.workflow": ON, "core.http": ON, "echo": OFF})
    issues = await bench.core.skills.validate_saved(bench.me, number)
    assert [(issue.path, issue.severity) for issue in issues] == [("toolset.core.workflow", "warning")]


async def test_existing_references(bench: Bench) -> None:
    """A configured model, tools of the catalog, subordinates, context items; a disabled tool need not exist."""
    item = await bench.core.context_items.create(bench.me, title="t", content="c")
    below = await deployed_skill(bench)
    toolset = {"echo": ON, "core.http": ON, f"skill:{below}": ON, "gone": OFF}
    number = await deployed_skill(
        bench,
        model="default",
        toolset=toolset,
        contextSelections=[{"id": item.id}],
        supervisionSubordinateIds=[str(below)],
    )
    assert (await bench.core.skills.get(bench.me, number)).resource.status == "active"


async def test_restrictions_to_a_subordinate(bench: Bench) -> None:
    """The `tool_restrictions` of a node can name a skill that its deployer can use; an action cannot call one."""
    below, secret = await deployed_skill(bench), await deployed_skill(bench, by=bench.other, accessConfig=private())
    number = await deployed_skill(bench, supervisionSubordinateIds=[str(below)])
    assert await bench.deployed(one(agent(agent_id=number, message="m", tool_restrictions=[f"skill:{below}"])))
    for node, path in (
        (agent(agent_id=number, message="m", tool_restrictions=[f"skill:{secret}"]), "tool_restrictions[0]"),
        (act(f"skill:{below}"), "toolId"),
    ):
        with pytest.raises(Invalid) as error:
            await bench.deployed(one(node))
        assert paths(error) == {(f"workflowStructure.nodes[1].data.{path}", "reference")}


@pytest.mark.parametrize("key", ["approvers", "escalateTo"])
async def test_groups_of_an_approval(bench: Bench, key: str) -> None:
    """Each group that can decide, at once or after an escalation, exists in the organization."""
    elsewhere = await bench.core.directory.create_organization("Elsewhere")
    foreign = await bench.core.directory.create_group(elsewhere.uuid, "Theirs")
    own = await bench.core.directory.create_group(bench.me.org_uuid, "Ours")
    escalation = {"escalateAfterSeconds": 60} if key == "escalateTo" else {}
    assert await bench.deployed(one(ask(**{key: {"groups": [own.id, bench.me.org_uuid]}}, **escalation)))
    with pytest.raises(Invalid) as error:
        await bench.deployed(one(ask(**{key: {"groups": [own.id, foreign.id]}}, **escalation)))
    assert paths(error) == {(f"workflowStructure.nodes[1].data.{key}.groups[1]", "reference")}


async def test_a_rollback_is_checked_too(bench: Bench) -> None:
    """A deleted context item prevents a rollback as it prevents a deploy."""
    skills, item = bench.core.skills, await bench.core.context_items.create(bench.me, title="t", content="c")
    number = await deployed_skill(bench, contextSelections=[{"id": item.id}])
    old = (await skills.get(bench.me, number)).resource.active_variation_id
    await skills.patch(bench.me, number, contextSelections=[])
    await skills.deploy(bench.me, number)
    await bench.core.context_items.delete(bench.me, item.id)
    with pytest.raises(Invalid) as error:
        await skills.rollback(bench.me, number, variation_id=old)
    assert paths(error) == {("contextSelections[0].id", "reference")}


async def test_tools_of_a_server(database: str) -> None:
    """A listed tool can be deployed, an unlisted one cannot; a tool that cannot be looked up can."""
    async with office() as server:
        allowed = Settings(http_allow=[f"127.0.0.1:{server.port}", "127.0.0.1:1"])
        async with opened(database, secrets=b"k" * 32, settings=allowed) as bench:
            made = [
                await bench.core.connections.create(bench.me, name=url, provider="o", kind="mcp", config={"url": url})
                for url in (server.url, "http://127.0.0.1:1/mcp")
            ]
            here, silent = (f"mcp.{row.id}.add" for row in made)
            await deployed_skill(bench, toolset={here: ON, silent: ON})
            with pytest.raises(Invalid) as error:
                await deployed_skill(bench, toolset={f"{here}x": ON, silent: ON})
            assert paths(error) == {(f"toolset.{here}x", "reference")}
