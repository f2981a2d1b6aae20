"""`wfcore org`, `member`, `group` and `token`: the directory of users. They can run beside a server."""

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import CycloptsError, Parameter

from wfcore.cli.client import TARGET, Api, CommandTarget, Refused, at, connected, opened, signed_in
from wfcore.cli.common import (
    DATABASE,
    Config,
    Database,
    Flag,
    Schema,
    at_interruption,
    known_organization,
    open_core,
    print_message,
    print_result,
)
from wfcore.cli.confirm import Yes, confirm

if TYPE_CHECKING:
    from wfcore.core import Core
    from wfcore.domain.kernel.json_type import JSON
    from wfcore.runtime.organization.directory import Directory

AsJson = Annotated[bool, Parameter(negative=(), help="Print the whole object as JSON, instead of its id.")]
Organization = Annotated[str, Parameter(help="The organization's UUID.")]


_MEMBERS: Final = "/api/v1/members"

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

    async with open_core(database, config, schema, migrate=True) as core:
        if not allow_duplicate and id is None:
            await _check_name_is_free(core, name)
        created = await core.directory.create_organization(name, id=id)
    shown = {"id": created.uuid, "name": created.name, "createdAt": iso(created.created_at)}
    print_result(shown) if json else print(created.uuid)  # noqa: T201


async def limit_organization(
    id: Organization,
    max_concurrent_runs: int | Literal["none"],
    /,
    *,
    workflow: int | None = None,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Limit how many runs of an organization are driven at the same time, by all workers together.

    Further runs wait as `queued`. Runs that are under way continue.

    Parameters
    ----------
    max_concurrent_runs
        How many, at least 1, or `none` for no limit.
    workflow
        The id of a workflow: limit its runs only, which count for the organization too.
    """
    most = None if max_concurrent_runs == "none" else max_concurrent_runs
    limited = f"organization `{id}`" if workflow is None else f"workflow `{workflow}`"
    async with open_core(database, config, schema) as core:
        await known_organization(core, id, database)
        await core.directory.limit_runs(id, most, workflow=workflow)
    print_message(f"limit of concurrent runs of {limited}: {max_concurrent_runs}")


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
    async with open_core(database, config, schema) as core:
        found = await known_organization(core, id, database)
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
    from wfcore.cli.bars import bar
    from wfcore.domain.kernel.errors import NotFound

    target = signed_in(target)
    if target.server is not None:
        async with connected(target) as api:
            with bar("bytes") as show:
                await _write(api.download(at(_MEMBERS, user_id, "export")), to, lambda size: show(size, None))
    else:
        async with opened(target) as (core, me):
            with bar("rows") as show:
                try:
                    rows = await core.exports.member(me, user_id, show)
                except NotFound:
                    raise NotFound(f"member `{user_id}` not found") from None
                await _write(rows, to)


_CONTINUED: Final = "an erasure that has begun goes on: a process with a worker completes it, or the same command"


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
    await confirm(f"erase member {user_id}?", yes=yes)
    async with connected(target) as api:
        with at_interruption(_CONTINUED):
            erasure = await _erased(api, user_id, transfer_to)
    print(erasure["id"])  # noqa: T201


async def _erased(api: Api, user_id: str, transfer_to: str | None) -> "Mapping[str, JSON]":
    """The erasure, when it is over."""
    from wfcore.cli.bars import bar
    from wfcore.domain.kernel.json_readers import as_integer, as_object

    path, body = at(_MEMBERS, user_id, "erase"), {} if transfer_to is None else {"transferTo": transfer_to}
    erasure = as_object(await api.post(path, body))
    with bar("runs") as show:
        while erasure["status"] == "running":
            progress = as_object(erasure["progress"])
            show(as_integer(progress["done"]), as_integer(progress["total"]))
            erasure = await _continued(api, path) or {**erasure, "status": "done"}
    return erasure


async def _continued(api: Api, path: str) -> "Mapping[str, JSON] | None":
    """The erasure after some seconds, which the server waits for its end; None when the member does not exist."""
    from wfcore.domain.kernel.json_readers import as_object

    try:
        return as_object(await api.post(path, {}))
    except Refused as error:
        if error.refused_with not in _GONE:
            raise
        return None


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
    from wfcore.cli.bars import bar

    async with open_core(database, config, schema) as core:
        await known_organization(core, id, database)
        with bar("rows") as show:
            await _write(await core.exports.organization(id, show), to)


async def _write(
    chunks: "AsyncIterator[bytes]", to: Path, on_size: "Callable[[int], None]" = lambda _size: None
) -> None:
    """Write a new file, which only the user can read; none when there is an error. Raises Conflict if it exists."""
    from wfcore.domain.kernel.errors import Conflict

    try:
        handle = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Conflict(f"`{to}` exists: name a new file") from None
    try:
        with os.fdopen(handle, "wb") as out:
            size = 0
            async for chunk in chunks:
                size += out.write(chunk)
                on_size(size)
    except BaseException:
        os.unlink(to)
        raise
    print_message(f"wrote `{to}`")


@asynccontextmanager
async def _directory_of(org: str, database: str, config: str | None, schema: str | None) -> "AsyncIterator[Directory]":
    """The directory of an existing organization. Raises NotFound for an unknown one."""
    async with open_core(database, config, schema) as core:
        await known_organization(core, org, database)
        yield core.directory
