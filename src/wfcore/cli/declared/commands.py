"""`wfcore apply`, `diff` and `export`, and the same commands of `wfcore workflow` and `wfcore skill`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Console
from rich.text import Text

from wfcore.cli.bars import counting
from wfcore.cli.client import TARGET, Api, CommandTarget, Json, connected
from wfcore.cli.common import Flag, print_message, print_result
from wfcore.cli.confirm import Yes, confirm
from wfcore.cli.declared.documents import Declaration, read_documents, write_documents
from wfcore.cli.declared.organization import Applying, LiveOrganization, check_documents, check_pruned
from wfcore.cli.declared.plan import Current, Key, PlanStep, differences_of, steps_of, unified
from wfcore.cli.declared.references import portable
from wfcore.cli.plain import plain
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.resource import Kind

Folder = Annotated[Path, Parameter(help="A folder with `workflows/SLUG.yaml` and `skills/SLUG.yaml`.")]

_COLORS = {"create": "green", "restore": "green", "change": "yellow", "deploy": "cyan", "delete": "red"}


class DeclaredCommands:
    """The commands for these kinds of resources."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = kinds
        self._what = " and ".join(f"{kind}s" for kind in sorted(kinds, reverse=True))

    def add_to(self, app: App) -> None:
        """Add the commands to those of the area."""
        app.command(self.apply, name="apply", help=f"Make the {self._what} of an organization those of a folder.")
        app.command(self.diff, name="diff", help=f"Show how a folder differs from the {self._what} of an organization.")
        app.command(self.export, name="export", help=f"Write the {self._what} of an organization to a folder.")

    async def apply(
        self,
        folder: Folder,
        /,
        *,
        prune: Flag = False,
        deploy: Flag = False,
        force: Flag = False,
        yes: Yes = False,
        json: Json = False,
        target: CommandTarget = TARGET,
    ) -> None:
        """Create, change and restore resources until they are those of a folder.

        Checks all files and prints the plan before the first change. Applying the same folder again changes nothing.

        Parameters
        ----------
        prune
            Delete those that have no file, after a confirmation; they can be restored.
        deploy
            Deploy every draft.
        force
            Deploy skills although required evaluations have not passed.
        """
        documents, faults = read_documents(folder, self._kinds)
        async with connected(target) as api:
            organization, current = await self._read(api, documents)
            with counting("checking", len(documents)) as advance:
                await check_documents(organization, documents, faults, deploy=deploy, advance=advance)
            steps = steps_of(documents, current, organization.names, deploy=deploy)
            steps += await self._pruned(organization, documents, prune=prune)
            check_pruned(documents, steps)
            if not json:
                print_plan(steps)
            if any(step.action == "delete" for step in steps):
                await confirm(f"delete {_count(steps, 'delete')}?", yes=yes)
            with counting("applying", len(steps)) as advance:
                await Applying(organization, force).carry_out(steps, advance)
        if json:
            print_result([step.to_wire() for step in steps])

    async def diff(self, folder: Folder, /, *, json: Json = False, target: CommandTarget = TARGET) -> int:
        """Print the differences from the organization to the files. Exit status: 0 for none, 1 for some."""
        documents, faults = read_documents(folder, self._kinds)
        async with connected(target) as api:
            organization, current = await self._read(api, documents)
            await check_documents(organization, documents, faults, deploy=False)
            steps = steps_of(documents, current, organization.names, deploy=False)
            steps += await self._pruned(organization, documents, prune=True)
            gone = {(step.kind, step.slug): step.current for step in steps if step.current and step.action == "delete"}
            await organization.read_names([*(one.body() for one in gone.values()), *_bodies(current)])
            edited = [step.document for step in steps if step.document is not None]
            lines = list(differences_of(edited, current, organization.names))
            for (kind, slug), before in gone.items():
                lines += unified(before.text(organization.names), "", f"{kind}s/{slug}")
        if json:
            print_result([step.to_wire() for step in steps])
        else:
            print_differences(lines)
        return int(bool(steps))

    async def export(self, folder: Folder, /, *, prune: Flag = False, target: CommandTarget = TARGET) -> None:
        """Write a file for each resource that the member can manage, with the content of its draft.

        Parameters
        ----------
        prune
            Remove the files of resources that do not exist.
        """
        async with connected(target) as api:
            organization = LiveOrganization(api)
            await organization.read(())
            keys = organization.manageable(self._kinds)
            with counting("reading", len(keys)) as advance:
                current = await organization.current(keys, advance)
            await organization.read_names(_bodies(current))
        bodies = {key: portable(one.body(), organization.names) for key, one in current.items()}
        for file in write_documents(folder, bodies, self._kinds, prune=prune):
            print_message(f"removed {file}" if prune else f"{file} belongs to no resource: --prune removes it")
        print_message(f"wrote {len(bodies)} files")

    async def _read(self, api: Api, documents: Sequence[Declaration]) -> tuple[LiveOrganization, dict[Key, Current]]:
        organization = LiveOrganization(api)
        await organization.read(self._kinds)
        organization.expect(documents)
        with counting("reading", len(documents)) as advance:
            current = await organization.current([(one.kind, one.slug) for one in documents], advance)
        await organization.read_names([one.body for one in documents])
        return organization, current

    async def _pruned(
        self, organization: LiveOrganization, documents: Sequence[Declaration], *, prune: bool
    ) -> list[PlanStep]:
        """The steps that delete what has no file; without `prune` they are only listed."""
        files = {(one.kind, one.slug) for one in documents}
        others = [key for key in organization.manageable(self._kinds) if key not in files]
        if not prune:
            for kind, slug in others:
                print_message(f"no file: {kind} {slug}")
            return []
        found = await organization.current(others)
        return [PlanStep("delete", kind, slug, (), None, one) for (kind, slug), one in reversed(found.items())]


def _bodies(current: dict[Key, Current]) -> list[dict[str, JSON]]:
    return [one.body() for one in current.values()]


def _count(steps: Sequence[PlanStep], action: str) -> str:
    found = [f"{step.kind} {step.slug}" for step in steps if step.action == action]
    shown = ", ".join(found[:5])
    return shown if len(found) <= 5 else f"{shown} and {len(found) - 5} more"


def print_plan(steps: Sequence[PlanStep]) -> None:
    """Print one line for each step, with the parts that it changes."""
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    if not steps:
        console.print("nothing to change")
    for step in steps:
        parts = "; ".join(step.paths)
        head = Text(f"{step.action:<8}", _COLORS[step.action])
        console.print(
            Text.assemble(head, plain(f"{step.kind} {step.slug}"), (plain(f"  {parts}" if parts else ""), "dim"))
        )


def print_differences(lines: Sequence[str]) -> None:
    """Print the lines of a diff, in color on a terminal."""
    console = Console(width=None if sys.stdout.isatty() else 1_000_000, highlight=False)
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        console.print(Text(plain(line), styles.get(line[:1], "")), soft_wrap=True)
