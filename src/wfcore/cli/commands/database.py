"""`wfcore db`: the database's schema, and copies of it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import CycloptsError, Parameter

from wfcore.cli.client import Json
from wfcore.cli.common import (
    DATABASE,
    IN_MEMORY,
    Config,
    Database,
    Flag,
    Schema,
    at_interruption,
    open_core,
    print_message,
)

if TYPE_CHECKING:
    from wfcore.adapters.sql.migrations import RevisionChain
    from wfcore.adapters.sql.transfer.databases import Address
    from wfcore.cli.backups import Installation
    from wfcore.core import Core
    from wfcore.domain.kernel.json_type import JSON


async def upgrade(
    *, dry_run: Flag = False, database: Database = DATABASE, config: Config = None, schema: Schema = None
) -> None:
    """Upgrade the schema to this release. Creates the database if it does not exist.

    Parameters
    ----------
    dry_run
        Print the statements of the upgrade, which are tried in a transaction that is rolled back. With shards, those of
        each database.
    """
    if dry_run:
        of = _installation(database, config, schema)
        for name, address in _by_shard(of).items():
            if of.shards:
                print(f"-- shard `{name}`")  # noqa: T201
            _print_plan(address)
        return
    async with open_core(database, config, schema, migrate=True):
        print("every step of the schema is done; `wfcore db check` compares what is there")  # noqa: T201


def _print_plan(address: "Address", history: "RevisionChain | None" = None) -> None:
    from wfcore.adapters.sql.migrations import RELEASED, works_with
    from wfcore.adapters.sql.transfer.databases import planned_upgrade

    history = history or RELEASED
    found, statements = planned_upgrade(address, history)
    for statement in statements:
        print(f"{statement};")  # noqa: T201
    now = "there is no schema yet" if found is None else f"the schema is `{found}`"
    print_message(f"{now}: an upgrade to `{history.head}` has {len(statements)} statements; nothing was changed")
    if found is not None and statements:
        expands = works_with(found, history.head)
        print_message(
            f"it expands the schema: processes of `{found}` work during and after it"
            if expands
            else f"it contracts the schema: stop processes of `{found}` before it"
        )


async def check(
    *, deep: Flag = False, database: Database = DATABASE, config: Config = None, schema: Schema = None
) -> None:
    """Check that the schema is that of this release; fails and prints the differences if not. Changes nothing.

    Parameters
    ----------
    deep
        Also read all rows, verify the checksums of all journals, and look for the attachments and the keys that rows
        need. Prints each table that cannot be read, the id of each damaged run, what is missing, and how many rows each
        key encrypts.
    """
    from wfcore.domain.kernel.errors import Unavailable

    async with open_core(database, config, schema) as core:
        if found := await core.ports.storage.schema_differences():
            raise Unavailable(f"the schema is not that of this release: {'; '.join(found)}")
        print("the schema is that of this release")  # noqa: T201
        if deep:
            faults = [] if database in IN_MEMORY else _row_faults(_installation(database, config, schema))
            await _check_journals(core, faults)


def _row_faults(of: "Installation") -> list[str]:
    """Print which keys the rows use, and what is wrong with them."""
    from wfcore.cli.backups import row_faults
    from wfcore.cli.bars import bar

    faults, keys = row_faults(of, _by_shard(of).values(), bar)
    for line in (*keys, *faults):
        print(line)  # noqa: T201
    return faults


async def _check_journals(core: "Core", faults: Sequence[str]) -> None:
    """Print the id of each damaged run. Raises Unavailable when there are any, or other faults."""
    from wfcore.cli.bars import counting
    from wfcore.domain.kernel.errors import Unavailable

    damaged, sizes = 0, await core.ports.storage.maintenance.sizes()
    with counting("runs", sizes.executions) as advance:
        async for run_id in core.ports.journal.damaged(advance):
            damaged += 1
            print(run_id)  # noqa: T201
    if damaged:
        more = f", and there are {len(faults)} other faults" if faults else ""
        raise Unavailable(f"the journals of {damaged} runs are damaged{more}")
    print("all journals are intact")  # noqa: T201
    if faults:
        raise Unavailable(f"{len(faults)} faults beside the journals: see above")
    print("nothing that rows need is missing")  # noqa: T201


async def prune(
    *,
    dry_run: Flag = False,
    json: Json = False,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Delete what is older than `[retention]` says, in batches. Servers and workers can run meanwhile.

    Parameters
    ----------
    dry_run
        Only count it.
    """
    from wfcore.cli.bars import bar
    from wfcore.cli.output import print_rows

    async with open_core(database, config, schema) as core:
        if not core.ports.settings.retention:
            print_message("there is no `[retention]`: everything is kept")
        found = await core.retention.prune(dry_run=True)
        if not dry_run:
            total = sum(found.values())
            with bar("rows") as show, at_interruption("what is deleted stays so: the next prune deletes the rest"):
                found = await core.retention.prune(on_progress=lambda deleted: show(sum(deleted.values()), total))
    rows: list[dict[str, JSON]] = [{"kind": kind, "count": count} for kind, count in found.items()]
    print_rows(rows, {"kind": "KIND", "count": "TO DELETE" if dry_run else "DELETED"}, as_json=json)


async def reencrypt(
    *,
    dry_run: Flag = False,
    json: Json = False,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Encrypt all stored secrets with the current key, so that earlier ones can be removed.

    Servers and workers can run meanwhile, if all of them have the current key. Prints each secret that no key decrypts,
    and then fails; all others are encrypted. When it is interrupted, run it again. With shards, no organization is
    moved meanwhile.

    Parameters
    ----------
    dry_run
        Only count them, and look for those that cannot be decrypted.
    """
    from wfcore.cli.bars import bar
    from wfcore.cli.output import print_rows
    from wfcore.domain.kernel.errors import Unavailable

    async with open_core(database, config, schema) as core:
        found = await core.secrets.reencrypt(dry_run=True)
        if not dry_run:
            total = sum(found.counts.values())
            with (
                nullcontext() if database in IN_MEMORY else _without_moves(_installation(database, config, schema)),
                bar("rows") as show,
                at_interruption("what is encrypted stays so: run the command again for the rest"),
            ):
                found = await core.secrets.reencrypt(on_progress=lambda done: show(sum(done.values()), total))
    rows: list[dict[str, JSON]] = [{"kind": kind, "count": count} for kind, count in found.counts.items()]
    print_rows(rows, {"kind": "KIND", "count": "TO ENCRYPT" if dry_run else "ENCRYPTED"}, as_json=json)
    for fault in found.faults:
        print_message(fault)
    if found.faults:
        rest = "" if dry_run else ": all others are encrypted with the current key"
        raise Unavailable(f"{len(found.faults)} secrets cannot be decrypted{rest}")


# Copies


def copy(
    source: str,
    target: str,
    /,
    *,
    blobs: Annotated[tuple[Path, Path] | None, Parameter(negative=())] = None,
    target_schema: Schema = None,
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Copy all of wfcore's rows into a database that has none, SQLite or PostgreSQL, and verify every row.

    Stop servers and workers of the source first: a SQLite file that one has open is refused. Runs that wait continue on
    the copy. The secret key must be the same on both. With shards, a copy of the database has the organizations of all
    of them.

    Parameters
    ----------
    source
        The database to copy: sqlite:///path or postgresql://user@host/name.
    target
        The database that gets the rows, in one transaction.
    blobs
        Also copy the attachments from one directory into another: FROM TO.
    target_schema
        The PostgreSQL schema with the tables of the target; by default `wfcore`.
    """
    from wfcore.adapters.blobs import copy_blobs
    from wfcore.adapters.sql.transfer.copying import copy as copy_database
    from wfcore.cli.bars import bar

    of, read = _installation(database, config, schema), _address(source, schema)
    for name in [name for name, address in of.shards.items() if address == read]:
        raise CycloptsError(msg=f"the source is shard `{name}`: name shard `main`, whose copy has all organizations")
    shards = of.shards if read == of.database else {}
    if blobs is not None and not blobs[0].is_dir():
        raise CycloptsError(msg=f"`--blobs`: `{blobs[0]}` is not a directory")
    with _without_moves(of) if shards else nullcontext(), bar("rows") as show:
        copied = copy_database(read, _address(target, target_schema), shards=shards, on_progress=show)
    print(f"copied and verified {copied.total} rows")  # noqa: T201
    if blobs is not None:
        with bar("attachments") as show:
            count, damaged = copy_blobs(*blobs, show)
        print(f"copied and verified {count} attachments")  # noqa: T201
        _report([f"attachment `{file}` is damaged" for file in damaged], "all else is copied")


def backup(folder: Path, /, *, database: Database = DATABASE, config: Config = None, schema: Schema = None) -> None:
    """Write a backup into a new folder: the database, its attachments and its secret keys. Servers go on meanwhile.

    The folder holds an embedded database, whichever the database was: keep it as secret as the keys in it. It has the
    organizations of all shards; none is moved meanwhile. Prints what it lacks, such as a key, and then fails.
    """
    from wfcore.cli.backups import back_up
    from wfcore.cli.bars import bar

    of = _installation(database, config, schema)
    with _without_moves(of):
        made = back_up(of, folder.absolute(), bar)
    key = {0: "without a secret key", 1: "with a secret key"}.get(made.keys, f"with {made.keys} secret keys")
    print(f"wrote and verified {made.copied.total} rows and {made.blobs} attachments, {key}")  # noqa: T201
    _report(made.faults, f"`{folder}` is complete but for what is above")


def restore(folder: Path, /, *, database: Database = DATABASE, config: Config = None, schema: Schema = None) -> None:
    """Copy a backup into a database that has no rows of wfcore, with its attachments and its secret keys.

    With shards, all organizations are on the shard `main` then. Prints what the backup lacks, and then fails.
    """
    from wfcore.cli.backups import NAME
    from wfcore.cli.backups import restore as restore_backup
    from wfcore.cli.bars import bar

    into = _installation(database, config, schema)
    made = restore_backup(folder.absolute(), into, bar)
    print(f"restored and verified {made.copied.total} rows and {made.blobs} attachments")  # noqa: T201
    if made.keys and not into.has_key:
        earlier = ", and `previous_secret_keys` to the other lines" if made.keys > 1 else ""
        print_message(f"set `secret_key` to the first line of `{folder / NAME}.key`{earlier}")
    _report(made.faults, "all else is restored")


def _report(faults: Sequence[str], rest: str) -> None:
    """Print each fault. Raises Unavailable when there are any."""
    from wfcore.domain.kernel.errors import Unavailable

    for fault in faults:
        print(fault)  # noqa: T201
    if faults:
        raise Unavailable(f"{len(faults)} faults: {rest}")


def _installation(database: str, config: str | None, schema: str | None) -> "Installation":
    from wfcore.cli.backups import Installation
    from wfcore.settings.installation import load

    found = load(config)
    blobs = Path(found.blobs) if found.blobs else None
    shards = {name: _address(url, schema) for name, url in found.shards.items()}
    return Installation(_address(database, schema), blobs, found.secret(), shards, found.previous_secrets())


def _without_moves(of: "Installation") -> AbstractContextManager[None]:
    if not of.shards:
        return nullcontext()
    from wfcore.adapters.sql.shards.moving import ShardDatabases, without_moves

    urls = {name: address.url for name, address in _by_shard(of).items()}
    return without_moves(ShardDatabases(urls, of.database.schema))


def _by_shard(of: "Installation") -> "dict[str, Address]":
    from wfcore.ports.shards import MAIN

    return {MAIN: of.database, **of.shards}


def _address(database: str, schema: str | None) -> "Address":
    """Raises CycloptsError for a URL or a schema that is not valid."""
    from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
    from wfcore.adapters.sql.transfer.databases import Address

    try:
        return Address(database, schema or DEFAULT_SCHEMA)
    except ValueError as error:
        raise CycloptsError(msg=str(error)) from None
