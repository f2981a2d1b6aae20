"""Two organizations in memory, and the commands for folders on each of them."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from httpx2 import ASGITransport, AsyncClient

import wfcore
from wfcore.adapters.http import app
from wfcore.cli.client import Api, CommandTarget
from wfcore.cli.declared import commands
from wfcore.cli.declared.commands import DeclaredCommands
from wfcore.cli.declared.documents import KINDS
from wfcore.core import Core
from wfcore.domain.resources.access import Principal

Json = dict[str, Any]

TEXTS = ("", "Be brief.", "two\nlines\n", "  é: - #x\n\ty ", "yes", "0x1f", "{{ input.order }}", "名前\u2028", "'\"\\")
NODE = {"id": "s", "type": "start"}


def texts_of(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text("utf-8") for file in sorted(folder.glob("*/*"))}


@attrs.frozen
class Place:
    """One organization, its owner, and what resources can refer to by name."""

    core: Core
    me: Principal
    groups: list[str]
    connections: list[str]
    items: list[str]

    async def create(self, kind: str, body: Mapping[str, Any], *, deploy: bool = False) -> Any:
        cases: Any = self.core.skills if kind == "skill" else self.core.workflows
        made = await cases.create(self.me, body)
        return await cases.deploy(self.me, made.id) if deploy else made

    async def export(self, folder: Path, **options: Any) -> dict[str, str]:
        """The files that an export writes, by path."""
        await ALL.export(folder, target=CommandTarget(org=self.me.org_uuid), **options)
        return texts_of(folder)

    async def apply(self, folder: Path, **options: Any) -> None:
        await ALL.apply(folder, target=CommandTarget(org=self.me.org_uuid), **options)

    async def diff(self, folder: Path) -> int:
        return await ALL.diff(folder, target=CommandTarget(org=self.me.org_uuid))


ALL = DeclaredCommands(KINDS)


@asynccontextmanager
async def places(monkeypatch: pytest.MonkeyPatch, count: int = 2) -> AsyncIterator[list[Place]]:
    """Organizations with the same names of groups, connections and context items, and other ids."""
    async with wfcore.open("sqlite://", worker=False, secrets=wfcore.Secrets(b"k" * 32)) as core:
        found = [await _place(core, number) for number in range(count)]
        by_org = {place.me.org_uuid: place.me for place in found}

        @asynccontextmanager
        async def connected(target: CommandTarget) -> AsyncIterator[Api]:
            me = by_org[target.org or ""]

            async def authenticate(_: object) -> Principal:
                return me

            transport = ASGITransport(app(core, authenticate=authenticate, studio=None))
            headers = {"accept": "application/json", "sec-fetch-site": "none"}
            async with AsyncClient(base_url="http://localhost", headers=headers, transport=transport) as client:
                yield Api(client, target.org)

        monkeypatch.setattr(commands, "connected", connected)
        yield found


async def _place(core: Core, number: int) -> Place:
    org = (await core.directory.create_organization(f"Org {number}")).uuid
    await core.directory.add_member(org, "ann", f"ann-{number}@x.org", role="owner")
    await core.directory.add_member(org, "bob", f"bob-{number}@x.org")
    me = core.principal(org, user="ann", email=f"ann-{number}@x.org", role="owner")
    groups = [(await core.directory.create_group(org, name)).id for name in ("Finance", "Ops: x", "twice", "twice")]
    config = {"url": "https://shop.example.org/mcp"}
    connections, items = [], []
    for name in ("Shop", "a.b", "a", "CRM 2"):
        connections.append((await core.connections.create(me, name=name, provider=name, kind="mcp", config=config)).id)
        items.append((await core.context_items.create(me, title=name, content="30 days")).id)
    return Place(core, me, groups[:2], connections, items)


class Generator:
    """Random bodies with references to what is there, the same for the same seed."""

    def __init__(self, place: Place, seed: int) -> None:
        self._place = place
        self._random = random.Random(seed)
        self._skills: list[int] = []
        self._workflows: list[int] = []

    async def create(self, skills: int, workflows: int) -> None:
        """Create resources; about half of them are deployed, and some have a draft beside that."""
        for _ in range(skills):
            made = await self._place.create("skill", self._skill(), deploy=self._random.random() < 0.5)
            self._skills.append(made.id)
        for _ in range(workflows):
            made = await self._place.create("workflow", self._workflow())
            self._workflows.append(made.id)
            if self._random.random() < 0.3:
                structure = {"nodes": [NODE], "edges": []}
                await self._place.core.workflows.patch(self._place.me, made.id, workflow_structure=structure)
                await self._place.core.workflows.deploy(self._place.me, made.id)
                await self._place.core.workflows.patch(self._place.me, made.id, self._content())

    def _some(self, items: list[Any], most: int = 2) -> list[Any]:
        return self._random.sample(items, min(len(items), self._random.randint(0, most)))

    def _text(self) -> str:
        return self._random.choice(TEXTS)

    def _head(self) -> Json:
        name = self._random.choice(["Refunds", "Über uns", "名前", "2024", "a" * 90, "x: y"])
        description = self._random.choice([{}, {"description": self._text()}])
        return {"name": name, **description, **self._random.choice([{}, {"accessConfig": self._access()}])}

    def _access(self) -> Json:
        rights = {"use": self._random.random() < 0.5, "manage": self._random.random() < 0.5}
        org = {self._place.me.org_uuid: {"use": True, "manage": True}}
        shared = [{"email": f"{name}@y.org"} for name in self._some(["eve", "Zoe"])]
        groups = {**org, **dict.fromkeys(self._some(self._place.groups), rights)}
        return self._random.choice([
            {"visibility": "shared", "groupPermissions": groups},
            {"visibility": "private", "sharedWith": shared},
        ])  # fmt: skip

    def _skill(self) -> Json:
        below = self._some([one for one in self._skills[-20:] if one % 3 == 0]) if len(self._skills) % 3 else []
        tools = {"core.http": {"enabled": True}, f"mcp.{self._place.connections[1]}.find": {"enabled": False}}
        tools |= {f"skill:{one}": {"enabled": True, "requiresApproval": True} for one in below}
        case = {"id": "c", "input": {"message": "x"}, "checks": [{"kind": "toolCalled", "tool": "core.http"}],
                "tools": {f"mcp.{self._place.connections[2]}.b.find": 1}}  # fmt: skip
        return {
            **self._head(),
            "instructions": [self._text() for _ in range(self._random.randint(0, 3))],
            "expectedOutput": self._text(),
            "toolset": self._random.choice([{}, tools]),
            "supervisionSubordinateIds": [str(one) for one in below],
            "supervisionSubordinateDescriptions": {str(one): self._text() for one in below[:1]},
            "contextSelections": [{"id": one} for one in self._some(self._place.items)],
            "connectionSet": [{"connectionId": one} for one in self._some(self._place.connections)],
            "evaluations": self._random.choice([[], [case]]),
            "budget": self._random.choice([{}, {"maxTokens": 5}, {"maxCost": 0.25}]),
        }  # fmt: skip

    def _workflow(self) -> Json:
        return {"type": "workflow", **self._head(), **self._content()}

    def _content(self) -> Json:
        nodes = [NODE, *(self._node(f"n.{place}") for place in range(self._random.randint(0, 5)))]
        edges = [{"id": f"e{place}", "source": "s", "target": node["id"]} for place, node in enumerate(nodes[1:])]
        trigger = {"trigger_type": "schedule", "schedule": {
            "frequency": "daily", "timezone": "UTC", "time_of_day": "09:30"}}  # fmt: skip
        return {
            "trigger": self._random.choice([None, {"trigger_type": "manual", "note": [1, 2.5, None]}, trigger]),
            "workflowStructure": self._random.choice(
                [None, {"nodes": nodes, "edges": edges, "viewport": {"zoom": 1.5, "x": -3}}]
            ),
        }

    def _node(self, name: str) -> Json:
        position = {"position": {"x": self._random.randint(-9, 9), "y": 0.5}}
        return {"id": name, **self._random.choice([{}, position]), **self._random.choice(self._kinds())}

    def _kinds(self) -> list[Json]:
        org, groups = self._place.me.org_uuid, self._place.groups
        connection = self._random.choice(self._place.connections)
        found: list[Json] = [
            {"type": "agent", "data": {"message": self._text(), "mine": {"text": self._text()},
                                       "tool_restrictions": [f"mcp.{connection}.find"]}},
            {"type": "action", "data": {"toolId": "core.http", "params": {"connection": connection, "url": "https://x"}}},
            {"type": "action", "data": {"toolId": f"mcp.{connection}.find", "params": {"connection": connection}}},
            {"type": "action", "data": {"toolId": "core.workflow", "params": {"workflowId": "{{ input.flow }}"}}},
            {"type": "humanApproval", "data": {"approvers": {"groups": [org, *groups], "emails": ["a@x.org"]},
                                               "escalateTo": {"groups": groups[:1]}, "escalateAfterSeconds": 60}},
        ]  # fmt: skip
        if self._skills:
            found.append({"type": "agent", "data": {"agent_id": self._random.choice(self._skills), "message": "x"}})
        if self._workflows:
            child = {"workflowId": self._random.choice(self._workflows), "input": {}}
            found.append({"type": "action", "data": {"toolId": "core.workflow", "params": child}})
        return found
