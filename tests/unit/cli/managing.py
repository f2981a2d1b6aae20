"""An organization in a database file for the commands that manage one."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

import wfcore
from wfcore.cli.main import main
from wfcore.testing.histories import sketch

ASK = sketch("s -> w", "w -approved-> t", w={"type": "humanApproval", "message": "Refund?"}, t={
    "toolId": "core.transform", "params": {"value": "{{ input.order }}"}
})  # fmt: skip
ECHO = sketch("s -> t", t={"toolId": "core.transform", "params": {"value": "{{ input.order }}"}})
FAILING = sketch("s -> t", t={"toolId": "core.fail", "params": {"message": "no stock"}})


@attrs.frozen
class Command:
    """What one command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a printed table, without its heading."""
        return [line.split() for line in self.out.splitlines()[1:]]


@attrs.frozen
class Organization:
    """An organization with the owner `ada`, in the current directory's database."""

    id: str
    capsys: pytest.CaptureFixture[str]

    def call(self, *arguments: str) -> Command:
        status = main(arguments)
        captured = self.capsys.readouterr()
        return Command(status, captured.out, captured.err)

    def policy(self, fields: Any) -> None:
        """Create a policy."""

        async def create() -> None:
            async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
                await core.policies.create(core.principal(self.id, user="ada", role="owner"), fields)

        asyncio.run(create())

    def deployed(self, *workflows: tuple[str, Any]) -> None:
        """Create and deploy workflows, by name and structure."""
        asyncio.run(self._deploy(workflows))

    def changed(self, number: int, structure: Any, *, deploy: bool = True, **fields: Any) -> None:
        """Change the draft of a workflow, and deploy it."""
        asyncio.run(self._change(number, {"structure": structure, **fields}, deploy=deploy))

    async def _change(self, number: int, fields: Any, *, deploy: bool) -> None:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            me = core.principal(self.id, user="ada", role="owner")
            await core.workflows.patch(me, number, **fields)
            if deploy:
                await core.workflows.deploy(me, number)

    def skill(self, name: str, **fields: Any) -> None:
        """Create a skill."""
        asyncio.run(self._create_skill({"name": name, **fields}))

    async def _create_skill(self, body: Any) -> None:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            await core.skills.create(core.principal(self.id, user="ada", role="owner"), body)

    async def _deploy(self, workflows: Sequence[tuple[str, Any]]) -> None:
        async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
            me = core.principal(self.id, user="ada", role="owner")
            for name, structure in workflows:
                flow = await core.workflows.create(me, name=name, structure=structure)
                await core.workflows.deploy(me, flow.id)


def organization(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Organization:
    monkeypatch.chdir(folder)
    made = asyncio.run(_create())
    monkeypatch.setenv("WFCORE_ORG", made)
    monkeypatch.setenv("WFCORE_USER_ID", "ada")
    return Organization(made, capsys)


async def _create() -> str:
    async with wfcore.open("sqlite:///wfcore.db", worker=False) as core:
        org = (await core.directory.create_organization("Acme")).uuid
        await core.directory.add_member(org, "ada", "ada@example.org", role="owner")
        await core.directory.add_member(org, "bob", "bob@example.org")
        await core.directory.create_group(org, "Finance")
        return org
