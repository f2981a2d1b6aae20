"""Chats with a workflow: what a page shows of it, and to whom."""

import pytest
from bench import Bench, act, graph, one

from wfcore.domain.kernel.errors import NotFound

pytestmark = pytest.mark.anyio

START = {"type": "start", "data": {"inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}}}}


async def made(bench: Bench, structure: object, kind: str = "chatapp") -> tuple[int, str]:
    """A workflow, and the id of its interface of this kind."""
    number = await bench.deployed(structure)  # type: ignore[arg-type]
    row = await bench.core.workflows.interfaces.create(bench.me, number, kind=kind)  # type: ignore[arg-type]
    return number, row.id


async def test_a_chat(bench: Bench) -> None:
    """It takes the message as input unless the input schema has properties without it; the page shows the workflow."""
    number, name = await made(bench, graph("s>a", s=START, a=act("echo")))
    chat = await bench.core.chat_apps.get(bench.other, name)
    assert chat.to_wire() == {
        "id": name, "workflowId": number, "skillId": None, "name": "A flow", "description": None, "takesMessage": True,
    }  # fmt: skip
    assert (await bench.core.chat_apps.page(name)).target.id == number
    closed = {"type": "start", "data": {"inputSchema": {"type": "object", "properties": {"n": {}}}}}
    _, other = await made(bench, graph("s>a", s=closed, a=act("echo")))
    assert not (await bench.core.chat_apps.get(bench.me, other)).takes_message


async def test_what_is_not_a_chat(bench: Bench) -> None:
    """An interface of another kind, an unknown one, and that of a deleted workflow are not found."""
    number, name = await made(bench, one(act("echo")))
    _, other = await made(bench, one(act("echo")), "teamchat")
    for unknown in (other, "unknown"):
        with pytest.raises(NotFound):
            await bench.core.chat_apps.page(unknown)
    await bench.core.workflows.delete(bench.me, number)
    with pytest.raises(NotFound):
        await bench.core.chat_apps.get(bench.me, name)


async def test_a_workflow_that_was_never_deployed(bench: Bench) -> None:
    """The schema of its draft does not count."""
    closed = {"type": "start", "data": {"inputSchema": {"type": "object", "properties": {"n": {}}}}}
    view = await bench.core.workflows.create(bench.me, name="A flow", structure=graph("s>a", s=closed, a=act("echo")))
    row = await bench.core.workflows.interfaces.create(bench.me, view.id, kind="chatapp")
    assert (await bench.core.chat_apps.get(bench.me, row.id)).takes_message
