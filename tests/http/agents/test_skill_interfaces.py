"""Interfaces of skills: a chat page and an MCP tool without a workflow around it (interface, Scope)."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx
import httpx2
import mcp
import pytest
from clients import Connect, Json, World, assert_envelope, chain, deployed, frames, new_world, node, serving
from mcp.client.streamable_http import streamable_http_client
from waiting import HANG

import wfcore.bootstrap
from wfcore.adapters.http import app
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.core import Core
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

BOTH: list[Json] = [
    {"kind": "chatapp", "config": {"frameAncestors": ["https://app.example.org"]}},
    {"kind": "mcp", "config": {"title": "Help desk"}},
]


@pytest.fixture(scope="module")
async def server(anyio_backend: str) -> AsyncIterator[tuple[Core, Connect]]:
    options: Any = {"models": {"default": ScriptedModel()}, "settings": Settings(grace=0)}
    async with (
        wfcore.bootstrap.open("sqlite://", secrets=b"k" * 32, **options) as core,
        serving(app(core, secret=b"s" * 32)) as port,
    ):
        yield core, partial(httpx.AsyncClient, base_url=f"http://127.0.0.1:{port}", timeout=HANG, trust_env=False)


@pytest.fixture
async def office(server: tuple[Core, Connect]) -> AsyncIterator[World]:
    async with AsyncExitStack() as closing:
        yield await new_world(*server, closing)


async def a_skill(client: httpx.AsyncClient, **fields: Any) -> int:
    """The id of a new skill that is not deployed."""
    made = await client.post("/api/v1/skills", json={"name": "Helper", "instructions": ["Help."], **fields})
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


async def deploy(client: httpx.AsyncClient, number: int) -> None:
    answer = await client.post(f"/api/v1/skills/{number}/deploy")
    assert answer.status_code == 200, answer.text


async def urls(client: httpx.AsyncClient, number: int) -> dict[str, str]:
    """The URLs of the active variation, by kind."""
    content = (await client.get(f"/api/v1/skills/{number}")).json()["variation"]
    return {entry["kind"]: entry["url"] for entry in content["interfaces"]}


async def change(client: httpx.AsyncClient, number: int, interfaces: list[Json]) -> None:
    answer = await client.patch(f"/api/v1/skills/{number}", json={"interfaces": interfaces})
    assert answer.status_code == 200, answer.text
    await deploy(client, number)


@asynccontextmanager
async def mcp_client(client: httpx.AsyncClient, path: str) -> AsyncIterator[mcp.Client]:
    url, headers = str(client.base_url).rstrip("/") + path, {"Authorization": client.headers["Authorization"]}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        mcp.Client(streamable_http_client(url, http_client=http), cache=None) as made,
    ):
        yield made


class TestLife:
    """`interfaces` is content: what is deployed decides."""

    async def test_a_deploy_opens_and_closes(self, office: World) -> None:
        """The URL of a kind is the same for ever; it works while the active variation has the entry."""
        ada = await office.user("ada")
        number = await a_skill(ada, interfaces=BOTH)
        draft = (await ada.get(f"/api/v1/skills/{number}", params={"view": "draft"})).json()["variation"]
        assert draft["interfaces"] == BOTH
        await deploy(ada, number)
        first = await urls(ada, number)
        assert first.keys() == {"chatapp", "mcp"}
        page = await ada.get(first["chatapp"])
        assert page.status_code == 200
        assert "frame-ancestors https://app.example.org" in page.headers["Content-Security-Policy"]
        await change(ada, number, [BOTH[1]])
        assert await urls(ada, number) == {"mcp": first["mcp"]}
        assert (await ada.get(first["chatapp"])).status_code == 404
        await change(ada, number, [{"kind": "chatapp"}, BOTH[1]])
        assert await urls(ada, number) == first
        assert "frame-ancestors 'none'" in (await ada.get(first["chatapp"])).headers["Content-Security-Policy"]
        await ada.delete(f"/api/v1/skills/{number}")
        assert (await ada.get(first["chatapp"])).status_code == 404

    async def test_what_is_read_can_be_written(self, office: World) -> None:
        """The URLs of a GET are ignored: no draft begins, and a copy gets URLs of its own."""
        ada = await office.user("ada")
        number = await a_skill(ada, interfaces=BOTH)
        await deploy(ada, number)
        read = (await ada.get(f"/api/v1/skills/{number}")).json()["variation"]["interfaces"]
        same = await ada.patch(f"/api/v1/skills/{number}", json={"interfaces": read})
        assert same.json()["hasUnpublishedChanges"] is False
        copy = await a_skill(ada, interfaces=read)
        await deploy(ada, copy)
        assert set((await urls(ada, copy)).values()).isdisjoint((await urls(ada, number)).values())

    @pytest.mark.parametrize(
        ("interfaces", "path", "status"),
        [
            ([{"kind": "teamchat"}], "interfaces[0].kind", 422),
            ([{}], "interfaces[0].kind", 400),
            ([{"kind": "mcp"}, {"kind": "mcp"}], "interfaces[1].kind", 422),
            ([{"kind": "mcp", "config": {"title": 1}}], "interfaces[0].config.title", 400),
            ([{"kind": "chatapp", "config": {"frameAncestors": ["x"]}}], "interfaces[0].config.frameAncestors[0]", 422),
            ([{"kind": "mcp", "more": 1}], "interfaces[0].more", 422),
        ],
        ids=str,
    )
    async def test_faults_are_named(self, office: World, interfaces: list[Json], path: str, status: int) -> None:
        ada = await office.user("ada")
        body = {"name": "Helper", "interfaces": interfaces}
        answer = await ada.post("/api/v1/skills", json=body)
        assert answer.status_code == status, answer.text
        assert [issue["path"] for issue in answer.json()["error"]["info"]["errors"]] == [path]
        issues = (await ada.post("/api/v1/skills/validate", json=body)).json()["issues"]
        assert path in [issue["path"] for issue in issues]


class TestUse:
    """Who can use the skill can use its interfaces."""

    async def test_the_chat_is_with_the_skill(self, office: World) -> None:
        """The page reads the skill; its runs are the skill's."""
        ada, bob = await office.user("ada"), await office.user("bob", scopes=["workflows:invoke"])
        number = await a_skill(ada, interfaces=[BOTH[0]], description="Ask away")
        await deploy(ada, number)
        place = f"{(await urls(ada, number))['chatapp']}/workflow"
        read = (await bob.get(place)).json()
        expected = {"workflowId": None, "skillId": number, "name": "Helper", "description": "Ask away"}
        assert read == {"id": read["id"], "takesMessage": False, **expected}
        stranger = await office.user("eve", scopes=["workflows:read"])
        assert_envelope(await stranger.get(place), 403, "FORBIDDEN", "PERMISSION_DENIED")
        body = {"skillId": number, "message": "hello", "sessionId": "s", "origin": "chatapp"}
        said = frames((await bob.post("/agent/v1/runs", json=body)).text)
        assert "hello" in said[-1][1]["output"]

    async def test_the_skill_is_a_tool(self, office: World) -> None:
        """It takes a message; its result is the answer. Other arguments are refused."""
        ada, bob = await office.user("ada"), await office.user("bob", scopes=["workflows:invoke"])
        number = await a_skill(ada, interfaces=[BOTH[1]])
        await deploy(ada, number)
        async with mcp_client(bob, (await urls(ada, number))["mcp"]) as client:
            (tool,) = (await client.list_tools()).tools
            assert (tool.name, tool.title) == ("helper", "Help desk")
            assert (tool.input_schema["required"], list(tool.input_schema["properties"])) == (["message"], ["message"])
            assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
            answer = await client.call_tool("helper", {"message": "hello"})
            refused = await client.call_tool("helper", {"text": "hello"})
        assert not answer.is_error
        assert "hello" in answer.content[0].text
        assert refused.is_error
        assert "`message`: " in refused.content[0].text
        (run,) = (await ada.get("/agent/v1/runs", params={"skillId": number})).json()["runs"]
        assert (run["startedBy"], run["origin"]) == ({"userId": "bob", "kind": "mcp"}, "mcp")

    @pytest.mark.parametrize(("data", "keys"), [({}, ["message"]), ({"message": "fixed"}, [])], ids=str)
    async def test_a_workflow_of_an_agent_takes_a_message(self, office: World, data: Json, keys: list[str]) -> None:
        """Without an `inputSchema`, when an agent without a message of its own receives that of the run."""
        ada = await office.user("ada")
        skill = await a_skill(ada)
        await deploy(ada, skill)
        flow = await deployed(ada, chain(node("agent", "agent", agent_id=skill, **data)))
        row = await ada.post(f"/api/v1/workflows/{flow}/interfaces", json={"kind": "mcp"})
        async with mcp_client(ada, httpx.URL(row.json()["url"]).path) as client:
            (tool,) = (await client.list_tools()).tools
            assert list(tool.input_schema.get("properties", {})) == keys
            answer = await client.call_tool(tool.name, {"message": "hello"} if keys else {})
        assert ("hello" if keys else "fixed") in answer.content[0].text
