"""`wfcore org`, `member`, `group` and `token`: who may use this installation. They work beside a running server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import CycloptsError, Parameter

from wfcore.cli.opening import DATABASE, Config, Database, Flag, opened, print_result

if TYPE_CHECKING:
    from wfcore.runtime.organization.directory import Directory

Organization = Annotated[str, Parameter(help="The organization's UUID.")]


async def create_organization(
    name: str,
    /,
    *,
    id: str | None = None,
    database: Database = DATABASE,
    config: Config = None,
) -> None:
    """Create an organization; prints it as JSON.

    Parameters
    ----------
    name
        What people call it.
    id
        Its UUID; a new one when left out.
    """
    from wfcore.domain.kernel.ids import iso

    async with opened(database, config) as core:
        made = await core.directory.create_organization(name, id=id)
    print_result({"id": made.uuid, "name": made.name, "createdAt": iso(made.created_at)})


async def add_member(
    *,
    org: Organization,
    user_id: str,
    email: str,
    name: str | None = None,
    role: Literal["owner", "admin", "member"] | None = None,
    group: Annotated[list[str], Parameter(negative=())] = [],  # noqa: B006  (never changed)
    database: Database = DATABASE,
    config: Config = None,
) -> None:
    """Add a member, or change the one of the same user id; prints it as JSON. The e-mail counts as verified.

    Of a member who is there already, the options that are not given leave what it has.

    Parameters
    ----------
    role
        A new member is a `member` unless it is given.
    group
        The UUID of a group it is in, once or more often: all of its groups.
    """
    async with _directory_of(org, database, config) as directory:
        made = await directory.add_member(org, user_id, email, name=name, role=role, groups=group or None)
    shown = {"userId": made.user_id, "email": made.email, "name": made.name}
    print_result({**shown, "role": str(made.role), "groups": sorted(made.groups)})


async def create_group(
    name: str, /, *, org: Organization, database: Database = DATABASE, config: Config = None
) -> None:
    """Create a group; prints it as JSON."""
    async with _directory_of(org, database, config) as directory:
        made = await directory.create_group(org, name)
    print_result({"id": made.id, "name": made.name})


async def create_token(
    *,
    org: Organization,
    user_id: str,
    scope: Annotated[list[str], Parameter(negative=())] = [],  # noqa: B006  (never changed)
    all_scopes: Flag = False,
    expires_in: int | None = None,
    database: Database = DATABASE,
    config: Config = None,
) -> None:
    """Make a personal access token for a member; prints the token alone, this once.

    Parameters
    ----------
    expires_in
        Seconds; it never expires when left out.
    """
    from wfcore.domain.resources.access import TOKEN_SCOPES

    if all_scopes == bool(scope):
        raise CycloptsError(msg="give either --scope, once or more often, or --all-scopes")
    async with _directory_of(org, database, config) as directory:
        scopes = TOKEN_SCOPES if all_scopes else scope
        token = await directory.create_token(org, user_id, scopes=scopes, expires_in=expires_in)
    print(token)  # noqa: T201


@asynccontextmanager
async def _directory_of(org: str, database: str, config: str | None) -> "AsyncIterator[Directory]":
    """The directory, once it is sure that the organization exists."""
    from wfcore.domain.kernel.errors import NotFound

    async with opened(database, config) as core:
        if await core.ports.storage.organization(org) is None:
            raise NotFound(f"there is no organization `{org}` in `{database}`")
        yield core.directory
