"""`wfcore workflow` and `wfcore skill`: the resources of an organization."""

from collections.abc import Callable
from typing import Annotated, Any, Final

from cyclopts import App, Parameter

from wfcore.cli.client import TARGET, CommandTarget, Json, Limit, Reference, connected
from wfcore.cli.common import print_result
from wfcore.cli.confirm import Yes, confirm
from wfcore.cli.declared.commands import DeclaredCommands
from wfcore.cli.declared.documents import KINDS
from wfcore.cli.impacts import impact_text
from wfcore.cli.output import print_rows
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.resources.resource import Kind

_COLUMNS: Final = {
    "id": "ID",
    "slug": "SLUG",
    "name": "NAME",
    "status": "STATUS",
    "hasUnpublishedChanges": "CHANGED",
    "updatedAt": "UPDATED",
}


class ResourceCommands:
    """The commands of one kind of resource: `workflow` or `skill`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._key = f"{kind}s"
        self._path = f"/api/v1/{kind}s"

    def app(self) -> App:
        """The commands, to be added to those of other areas."""
        app = App(name=self._kind, help=f"The {self._kind}s of an organization.")
        commands: dict[str, Callable[..., Any]] = {
            "list": self.list, "show": self.show,
            "deploy": self.deploy_skill, "rollback": self.rollback, "delete": self.delete, "restore": self.restore,
        }  # fmt: skip
        if self._kind == "workflow":
            commands |= {"deploy": self.deploy_workflow, "impact": self.impact}
        for name, command in commands.items():
            app.command(command, name=name)
        return app

    async def list(
        self,
        *,
        deleted: Annotated[bool, Parameter(negative=())] = False,
        limit: Limit | None = None,
        json: Json = False,
        target: CommandTarget = TARGET,
    ) -> None:
        """List those that the member can see.

        Parameters
        ----------
        deleted
            List deleted ones instead, which can be restored.
        limit
            The most rows; all of them when left out.
        """
        async with connected(target) as api:
            rows = await api.pages(self._path, self._key, limit, status="deleted" if deleted else None)
        print_rows(rows, _COLUMNS, as_json=json)

    async def show(
        self,
        reference: Reference,
        /,
        *,
        draft: Annotated[bool, Parameter(negative=())] = False,
        target: CommandTarget = TARGET,
    ) -> None:
        """Print one as JSON, with its content.

        Parameters
        ----------
        draft
            The content of the draft instead of the deployed one.
        """
        async with connected(target) as api:
            number = await api.number_of(self._kind, reference)
            print_result(await api.get(f"{self._path}/{number}", view="draft" if draft else None))

    async def deploy_workflow(
        self, reference: Reference, /, *, impact: str | None = None, target: CommandTarget = TARGET
    ) -> None:
        """Publish the draft: runs that start from now on use it.

        Parameters
        ----------
        impact
            The tag that `workflow impact` printed: deploy only if nothing of what it showed has changed since.
        """
        headers = {} if impact is None else {"if_match": impact}
        async with connected(target) as api:
            number = await api.number_of(self._kind, reference)
            print_result(await api.post(f"{self._path}/{number}/deploy", {}, **headers))

    async def impact(self, reference: Reference, /, *, json: Json = False, target: CommandTarget = TARGET) -> None:
        """Show what a deploy of the draft would change: the graph, waiting runs, the schedule, policies, the cost.

        The last line is a tag for `workflow deploy --impact`.
        """
        async with connected(target) as api:
            found = await api.read(f"{self._path}/{await api.number_of(self._kind, reference)}/impact")
        if json:
            print_result({**as_object(found.value), "etag": found.etag})
        else:
            print(impact_text(as_object(found.value)), found.etag, sep="\n")  # noqa: T201  (the result of the command)

    async def deploy_skill(
        self,
        reference: Reference,
        /,
        *,
        force: Annotated[bool, Parameter(negative=())] = False,
        target: CommandTarget = TARGET,
    ) -> None:
        """Publish the draft: runs that start from now on use it.

        Parameters
        ----------
        force
            Deploy although required evaluations have not passed.
        """
        async with connected(target) as api:
            number = await api.number_of(self._kind, reference)
            print_result(await api.post(f"{self._path}/{number}/deploy", {"force": True} if force else {}))

    async def rollback(self, reference: Reference, variation_id: str, /, *, target: CommandTarget = TARGET) -> None:
        """Deploy an earlier variation again."""
        async with connected(target) as api:
            number = await api.number_of(self._kind, reference)
            print_result(await api.post(f"{self._path}/{number}/rollback", {"variationId": variation_id}))

    async def delete(self, reference: Reference, /, *, yes: Yes = False, target: CommandTarget = TARGET) -> None:
        """Delete it. It can be restored."""
        async with connected(target) as api:
            number = await api.number_of(self._kind, reference)
            await confirm(f"delete {self._kind} {number}?", yes=yes)
            print_result(await api.delete(f"{self._path}/{number}"))

    async def restore(self, reference: Reference, /, *, target: CommandTarget = TARGET) -> None:
        """Undo a delete."""
        async with connected(target) as api:
            number = await api.number_of(self._kind, reference, "deleted")
            print_result(await api.post(f"{self._path}/{number}/restore"))


workflow = ResourceCommands("workflow").app()
skill = ResourceCommands("skill").app()
_BOTH: Final = DeclaredCommands(KINDS)
apply, diff, export = _BOTH.apply, _BOTH.diff, _BOTH.export
DeclaredCommands([Kind.WORKFLOW]).add_to(workflow)
DeclaredCommands([Kind.SKILL]).add_to(skill)
