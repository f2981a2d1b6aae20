"""Reading a variation, and the difference of two (interface, Variations)."""

import pytest
from bench import Bench, act, one

from wfcore.domain.kernel.errors import Forbidden, Invalid, NotFound

pytestmark = pytest.mark.anyio


async def edited(bench: Bench) -> tuple[int, str, str]:
    """A deployed workflow with a draft, and the ids of both variations. Colleagues can only use it."""
    group = (await bench.core.directory.create_group(bench.org, "makers")).id
    bench.me = await bench.joined("maker", "member", group)
    groups = {bench.org: {"use": True, "manage": False}, group: {"use": True, "manage": True}}
    access = {"visibility": "shared", "groupPermissions": groups}
    number = await bench.deployed(one(act("echo", value=1)), access=access)
    view = await bench.core.workflows.patch(bench.me, number, structure=one(act("echo", value=2)))
    return number, str(view.resource.active_variation_id), str(view.resource.draft_variation_id)


async def test_a_variation_is_read(bench: Bench) -> None:
    """A deployed one by everybody who sees the workflow, a draft by managers."""
    number, active, draft = await edited(bench)
    flows = bench.core.workflows
    found = (await flows.variation(bench.other, number, active)).to_wire()
    assert (found["id"], found["isActive"]) == (active, True)
    assert found["variation"]["workflowStructure"]["nodes"][1]["data"]["params"] == {"value": 1}
    assert (await flows.variation(bench.me, number, draft)).to_wire()["deployedAt"] is None
    with pytest.raises(Forbidden):
        await flows.variation(bench.other, number, draft)
    with pytest.raises(NotFound):
        await flows.variation(bench.me, number, "none")


async def test_two_variations_are_compared(bench: Bench) -> None:
    """The active one and the draft, or those that are named."""
    number, active, draft = await edited(bench)
    flows = bench.core.workflows
    expected = [{"id": "a", "paths": ["data.params.value"]}]
    for chosen in ((), (active, draft), ("active", "draft")):
        assert (await flows.diff(bench.me, number, *chosen)).to_wire()["nodes"]["changed"] == expected
    assert (await flows.diff(bench.other, number, "active", active)).nodes.changed == ()
    for chosen in (("active", "draft"), (draft, "active")):
        with pytest.raises(Forbidden):
            await flows.diff(bench.other, number, *chosen)
    for chosen in (("none", "draft"), ("active", "none")):
        with pytest.raises(Invalid):
            await flows.diff(bench.me, number, *chosen)


async def test_the_first_draft_is_compared_with_nothing(bench: Bench) -> None:
    """Everything is added. A skill differs in its fields."""
    made = await bench.core.workflows.create(bench.me, name="A flow", structure=one(act("echo", value=1)))
    assert (await bench.core.workflows.diff(bench.me, made.id)).nodes.added == ("s", "a")
    skill = await bench.core.skills.create(bench.me, name="skill", instructions=["Be kind."])
    assert (await bench.core.skills.diff(bench.me, skill.id)).fields == ("instructions",)
