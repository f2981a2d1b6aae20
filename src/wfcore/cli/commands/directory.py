"""`wfcore org`, `member`, `group` and `token`: the directory of users. They can run beside a server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import CycloptsError, Parameter

from wfcore.cli.client import TARGET, Api, CommandTarget, Refused, connected
from wfcore.cli.common import DATABASE, Config, Database, Flag, Schema, open_core, print_message, print_result
from wfcore.cli.confirm import Yes, confirm

if TYPE_CHECKING:
    from wfcore.core import Core
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.runtime.organization.directory import Directory

AsJson = Annotated[bool, Parameter(negative=(), help="Print the whole object as JSON, instead of its id.")]
Organization = Annotated[str, Parameter(help="The organization's UUID.")]


POLL_SECONDS: Final = 0.5

_GONE: Final = (401, 404)
"""The statuses of a member that does not exist any more: of another one, and of the caller."""

To = Annotated[Path, Parameter(help="The new ZIP file.")]


async def create_organization(
    name: str,
    /,
    *,
    id: str | None = None,
    allow_duplicate: Flag = False,
    json: AsJson = False,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Create an organization; prints its id.

    Parameters
    ----------
    name
        The name shown to people.
    id
        Its UUID; a new one when left out.
    allow_duplicate
        Create it even if another organization has the name.
    """
    from wfcore.domain.kernel.ids import iso

    async with open_core(database, config, schema) as core:
        if not allow_duplicate and id is None:
            await _check_name_is_free(core, name)
        created = await core.directory.create_organization(name, id=id)
    shown = {"id": created.uuid, "name": created.name, "createdAt": iso(created.created_at)}
    print_result(shown) if json else print(created.uuid)  # noqa: T201


async def delete_organization(
    id: Organization,
    /,
    *,
    yes: Yes = False,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Delete an organization with all of its data: it cannot be undone.

    Its runs that are under way end.
    """
    from wfcore.domain.kernel.errors import NotFound

    async with open_core(database, config, schema) as core:
        found = await core.ports.storage.organization(id)
        if found is None:
            raise NotFound(f"unknown organization `{id}` in `{database}`")
        await confirm(f"delete organization `{found.name}` with all of its data?", yes=yes)
        await core.retention.delete_organization(id)
    print_message(f"deleted organization `{found.name}`")


async def _check_name_is_free(core: "Core", name: str) -> None:
    """Raises Conflict when an organization has this name."""
    from wfcore.domain.kernel.errors import Conflict

    after = ""
    while rows := await core.ports.storage.organizations(limit=100, after=after):
        for row in rows:
            if row.name == name:
                more = "use another name, --id for a UUID of your own, or --allow-duplicate"
                raise Conflict(f"organization `{row.uuid}` already has the name `{name}`: {more}")
        after = rows[-1].uuid


async def add_member(
    *,
    org: Organization,
    user_id: str,
    email: str,
    name: str | None = None,
    role: Literal["owner", "admin", "member"] | None = None,
    group: Annotated[list[str], Parameter(negative=())] = [],  # noqa: B006  (never changed)
    json: AsJson = False,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Add a member, or change the one of the same user id; prints the user id. The e-mail counts as verified.

    For an existing member, the options that are left out keep their values.

    Parameters
    ----------
    role
        The role; a new member is a `member` by default.
    group
        The UUID of one of its groups; repeat the option to give all of its groups.
    """
    async with _directory_of(org, database, config, schema) as directory:
        created = await directory.add_member(org, user_id, email, name=name, role=role, groups=group or None)
    shown: dict[str, JSON] = {"userId": created.user_id, "email": created.email, "name": created.name}
    shown |= {"role": str(created.role), "groups": sorted(created.groups)}
    print_result(shown) if json else print(created.user_id)  # noqa: T201


async def create_group(
    name: str,
    /,
    *,
    org: Organization,
    json: AsJson = False,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Create a group; prints its id."""
    async with _directory_of(org, database, config, schema) as directory:
        created = await directory.create_group(org, name)
    print_result({"id": created.id, "name": created.name}) if json else print(created.id)  # noqa: T201


async def create_token(
    *,
    org: Organization,
    user_id: str,
    scope: Annotated[list[str], Parameter(negative=())] = [],  # noqa: B006  (never changed)
    all_scopes: Flag = False,
    expires_in: int | None = None,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Create a personal access token for a member. Prints the token, which cannot be read again.

    Parameters
    ----------
    expires_in
        Seconds until it expires; never when left out.
    """
    from wfcore.domain.resources.access import TOKEN_SCOPES

    if all_scopes == bool(scope):
        raise CycloptsError(msg="use either --scope (repeatable) or --all-scopes")
    async with _directory_of(org, database, config, schema) as directory:
        scopes = TOKEN_SCOPES if all_scopes else scope
        token = await directory.create_token(org, user_id, scopes=scopes, expires_in=expires_in)
    print(token)  # noqa: T201


async def export_member(user_id: str, /, *, to: To, target: CommandTarget = TARGET) -> None:
    """Export the data of a member: a ZIP archive of JSON Lines, with their JSON Schemas and attachments.

    Admins export any member, each member itself.
    """
    async with connected(target) as api:
        await api.download(f"/api/v1/members/{user_id}/export", to)
    print_message(f"wrote `{to}`")


async def erase_member(
    user_id: str, /, *, transfer_to: str | None = None, yes: Yes = False, target: CommandTarget = TARGET
) -> None:
    """Erase a member: its own runs, conversations and memories are deleted, a pseudonym replaces it elsewhere.

    It cannot be undone. Prints the pseudonym when everything is erased.

    Parameters
    ----------
    transfer_to
        The member who becomes the owner of its workflows and skills; without it, private ones are erased.
    """
    from wfcore.domain.kernel.json_readers import as_object

    await confirm(f"erase member {user_id}?", yes=yes)
    async with connected(target) as api:
        body = {} if transfer_to is None else {"transferTo": transfer_to}
        erasure = as_object(await api.post(f"/api/v1/members/{user_id}/erase", body))
        while erasure["status"] == "running" and await _exists(api, user_id):  # noqa: ASYNC110  (a server erases)
            await asyncio.sleep(POLL_SECONDS)
    print(erasure["id"])  # noqa: T201


async def _exists(api: Api, user_id: str) -> bool:
    try:
        await api.get(f"/api/v1/members/{user_id}")
    except Refused as error:
        if error.refused_with not in _GONE:
            raise
        return False
    return True


async def export_organization(
    id: Annotated[str, Parameter(help="The organization's UUID.")],
    /,
    *,
    to: To,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Export the data of an organization: a ZIP archive of JSON Lines, with their JSON Schemas and attachments."""
    from wfcore.domain.kernel.errors import NotFound

    async with open_core(database, config, schema) as core:
        if await core.ports.storage.organization(id) is None:
            raise NotFound(f"unknown organization `{id}` in `{database}`")
        chunks = await core.exports.organization(id)
        with to.open("xb") as out:
            to.chmod(0o600)
            try:
                async for chunk in chunks:
                    out.write(chunk)
            except BaseException:
                to.unlink()
                raise
    print_message(f"wrote `{to}`")


@asynccontextmanager
async def _directory_of(org: str, database: str, config: str | None, schema: str | None) -> "AsyncIterator[Directory]":
    """The directory of an existing organization. Raises NotFound for an unknown one."""
    from wfcore.domain.kernel.errors import NotFound

    async with open_core(database, config, schema) as core:
        if await core.ports.storage.organization(org) is None:
            raise NotFound(f"unknown organization `{org}` in `{database}`")
        yield core.directory
