"""The records of an organization: schedules, connections, hooks, policies, members, groups, tokens, audit, usage."""

from typing import Final, Literal

from cyclopts import App

from wfcore.cli.client import TARGET, CommandTarget, Json, Limit, Reference, at, connected
from wfcore.cli.common import DATABASE, Config, Database, Schema, known_organization, open_core, print_result
from wfcore.cli.confirm import Yes, confirm
from wfcore.cli.files import read_workflow
from wfcore.cli.output import print_rows
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON


class RecordCommands:
    """`list`, `show` and `remove` of one kind of record. `key` is the name of its list in the API."""

    def __init__(self, name: str, key: str, columns: dict[str, str], removal: str = "remove") -> None:
        self._name = name
        self._key = key
        self._path = f"/api/v1/{key}"
        self._columns = columns
        self._removal = removal

    def add_to(self, app: App) -> App:
        """Add the commands to those of the area."""
        app.command(self.list, name="list", help=f"List {self._key}.")
        app.command(self.show, name="show", help=f"Print a {self._name} as JSON.")
        app.command(self.remove, name=self._removal, help=f"{self._removal.capitalize()} a {self._name}.")
        return app

    async def list(self, *, limit: Limit | None = None, json: Json = False, target: CommandTarget = TARGET) -> None:
        """List them.

        Parameters
        ----------
        limit
            The most rows; all of them when left out.
        """
        async with connected(target) as api:
            rows = await api.pages(self._path, self._key, limit)
        print_rows(rows, self._columns, as_json=json)

    async def show(self, id: str, /, *, target: CommandTarget = TARGET) -> None:
        """Print one as JSON."""
        async with connected(target) as api:
            print_result(await api.get(at(self._path, id)))

    async def remove(self, id: str, /, *, yes: Yes = False, target: CommandTarget = TARGET) -> None:
        """Remove one."""
        await confirm(f"{self._removal} {self._name} {id}?", yes=yes)
        async with connected(target) as api:
            print_result(await api.delete(at(self._path, id)))


MEMBERS: Final = RecordCommands(
    "member", "members", {"userId": "USER", "email": "EMAIL", "name": "NAME", "role": "ROLE", "groups": "GROUPS"}
)
GROUPS: Final = RecordCommands("group", "groups", {"id": "ID", "name": "NAME"})
TOKENS: Final = RecordCommands(
    "token", "tokens", {"id": "ID", "name": "NAME", "scopes": "SCOPES", "expiresAt": "EXPIRES"}, "revoke"
)
CONNECTIONS: Final = RecordCommands(
    "connection",
    "connections",
    {"id": "ID", "name": "NAME", "provider": "PROVIDER", "kind": "KIND", "status": "STATUS"},
)
HOOKS: Final = RecordCommands("hook", "hooks", {"id": "ID", "url": "URL", "events": "EVENTS", "isEnabled": "ENABLED"})
POLICIES: Final = RecordCommands(
    "policy", "policies", {"id": "ID", "name": "NAME", "when": "WHEN", "require": "REQUIRE", "severity": "SEVERITY"}
)

_AUDIT: Final = {
    "at": "AT",
    "userId": "BY",
    "action": "ACTION",
    "resource.type": "KIND",
    "resource.id": "ID",
    "details": "DETAILS",
}
_SCHEDULES: Final = {"id": "ID", "slug": "SLUG", "isEnabled": "ENABLED", "nextAt": "NEXT", "paused.message": "PAUSED"}


async def list_organizations(
    *, json: Json = False, database: Database = DATABASE, config: Config = None, schema: Schema = None
) -> None:
    """List the organizations of a database."""
    async with open_core(database, config, schema) as core:
        found = await core.ports.storage.organizations(limit=100)
        rows = list(found)
        while len(found) == 100:
            found = await core.ports.storage.organizations(limit=100, after=found[-1].uuid)
            rows += found
    print_rows([{"id": row.uuid, "name": row.name} for row in rows], {"id": "ID", "name": "NAME"}, as_json=json)


async def show_organization(
    id: str, /, *, database: Database = DATABASE, config: Config = None, schema: Schema = None
) -> None:
    """Print an organization of a database as JSON, with how many rows of each kind it has."""
    async with open_core(database, config, schema) as core:
        found = await known_organization(core, id, database)
        sizes = await core.ports.storage.maintenance.sizes(id)
        limits = await core.directory.run_limits(id)
    counts: dict[str, JSON] = {"runs": sizes.runs, "messages": sizes.messages, "audit": sizes.audit}
    shown: dict[str, JSON] = {"id": found.uuid, "name": found.name, "createdAt": iso(found.created_at)}
    shown |= {"maxConcurrentRuns": found.max_concurrent_runs}
    shown |= {"workflowLimits": {str(workflow): most for workflow, most in limits.items()}}
    print_result({**shown, **counts})


async def list_schedules(*, json: Json = False, target: CommandTarget = TARGET) -> None:
    """List the workflows with a schedule, and when each fires next."""
    async with connected(target) as api:
        rows = await api.pages("/api/v1/schedules", "schedules", count=1)
    print_rows(rows, _SCHEDULES, as_json=json)


async def next_runs(reference: Reference, /, *, json: Json = False, target: CommandTarget = TARGET) -> None:
    """List the next times at which the schedule of a workflow fires."""
    async with connected(target) as api:
        number = await api.number_of("workflow", reference)
        found = as_object(await api.get(f"/api/v1/workflows/{number}/next-runs"))
    rows = as_objects(found["nextRuns"])
    print_rows(rows, {"at": "AT", "local": "LOCAL", "note": "NOTE"}, as_json=json)


async def apply_policy(file: str, /, *, target: CommandTarget = TARGET) -> None:
    """Create the policy in a file of YAML or JSON, or change the one that has its name. Prints it as JSON.

    Parameters
    ----------
    file
        The fields of a policy: name, when, require, severity; `name` defaults to the name of the file.
    """
    body = {key: value for key, value in read_workflow(file).items() if key not in ("id", "type")}
    async with connected(target) as api:
        rows = await api.pages("/api/v1/policies", "policies", None)
        found = [as_text(row["id"]) for row in rows if row["name"] == body["name"]]
        if len(found) > 1:
            raise Conflict(f"{len(found)} policies have the name `{body['name']}`: change one by its id, or remove one")
        whole = {"severity": "error", **body}
        print_result(
            await (api.patch(f"/api/v1/policies/{found[0]}", whole) if found else api.post("/api/v1/policies", whole))
        )


async def audit(
    *,
    action: str | None = None,
    user: str | None = None,
    limit: Limit = 25,
    json: Json = False,
    target: CommandTarget = TARGET,
) -> None:
    """List the audit trail, newest first.

    Parameters
    ----------
    action
        Only this action, such as `workflow.deploy`.
    user
        Only what this user did.
    limit
        The most rows.
    """
    async with connected(target) as api:
        rows = await api.pages("/api/v1/audit", "audit", limit, action=action, userId=user)
    print_rows(rows, _AUDIT, as_json=json)


async def usage(
    *,
    group_by: Literal["model", "skill", "workflow", "user", "day", "origin"] = "model",
    json: Json = False,
    target: CommandTarget = TARGET,
) -> None:
    """Report the usage of models in the last 30 days."""
    async with connected(target) as api:
        report = as_object(await api.get("/api/v1/usage", groupBy=group_by))
    if json:
        print_result(report)
        return
    columns = {
        "key": group_by.upper(),
        "calls": "CALLS",
        "inputTokens": "INPUT TOKENS",
        "outputTokens": "OUTPUT TOKENS",
        "cost": "COST",
    }
    totals = {"key": "total", **as_object(report["totals"])}
    print_rows([*as_objects(report["usage"]), totals], columns, as_json=False)


schedule = App(name="schedule", help="Schedules of workflows.")
schedule.command(list_schedules, name="list")
schedule.command(next_runs, name="next")
connection = CONNECTIONS.add_to(App(name="connection", help="Connections to other services."))
hook = HOOKS.add_to(App(name="hook", help="Hooks: addresses that events are sent to."))
policy = POLICIES.add_to(App(name="policy", help="Policies: what workflows must keep to be deployed."))
policy.command(apply_policy, name="apply")
member = MEMBERS.add_to(App(name="member", help="Members of an organization."))
member.command("wfcore.cli.commands.directory:add_member", name="add", help="Add a member, or change it.")
member.command("wfcore.cli.commands.directory:export_member", name="export", help="Export the data of a member.")
member.command(
    "wfcore.cli.commands.directory:erase_member",
    name="erase",
    help="Erase a member and its own data. It cannot be undone.",
)
group = GROUPS.add_to(App(name="group", help="Groups of members."))
group.command("wfcore.cli.commands.directory:create_group", name="create", help="Create a group.")
token = TOKENS.add_to(App(name="token", help="Personal access tokens."))
token.command(
    "wfcore.cli.commands.directory:create_token",
    name="create",
    help="Create a personal access token for a member and print it.",
)
