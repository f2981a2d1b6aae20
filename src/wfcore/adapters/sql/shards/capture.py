"""What changes in an organization while it is copied: triggers note the keys of its rows, and can refuse its writes.

All of it is in a schema of its own, which is deleted at the end. `LOCK` is held shared by each transaction that writes
rows of the organization; while another session holds it exclusively, such writes are refused with `Moving`. It ends
with a transaction, for which the server has a limit: a move that was killed or suspended refuses nothing any more,
until `refuse_for_good`.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import psycopg as dialects

from wfcore.adapters.sql.maintenance.tenancy import TABLES, deletion_order, of_organization
from wfcore.adapters.sql.postgres.names import TableNames
from wfcore.adapters.sql.schema.statement import PostgresDialect, own_name

LOCK: Final = 7_766_070_004

TRIGGER: Final = "wfcore_moving"

LOCK_MILLISECONDS: Final = 200
"""How long a statement waits for the lock of a table. Readers and writers of all organizations wait behind it."""

LOCK_TRIES: Final = 40
"""Attempts at such a statement, with a pause of the same time between two of them."""

LOCKING: Final = 0.25
"""The share of the time for which writes are refused that transactions under way have to end."""

REFUSING: Final = 0.6
"""The share after that."""

_OFF: Final = "wfcore.is_moving_rows"
"""The setting of the session that deletes the rows of an organization that has left."""

Row = tuple[Any, ...]
Connection = psycopg.Connection[Any]


def run(connection: Connection, statement: str, values: Sequence[Any] | None = None) -> psycopg.Cursor[Any]:
    """Run a statement with the names of tables in it."""
    text: Any = statement
    return connection.execute(text, values)


@attrs.frozen
class ChangedRows:
    """Rows of one table: those that are there now, and the keys of those that are gone."""

    table: sa.Table
    rows: Sequence[Row]
    gone: Sequence[Sequence[str]]


@attrs.frozen
class TenantRows:
    """The rows of the organization with the key `org` in the tables of a schema."""

    schema: str
    org: int

    @property
    def own_schema(self) -> str:
        """The schema of the notes, the functions and the lock."""
        return f'"{self.schema}_moving"'

    def name(self, table: sa.Table) -> str:
        return PostgresDialect(self.schema, str)[table]

    def condition(self, table: sa.Table, row: str = "") -> str:
        """The condition for its rows, as text. `row` is put before the name of the first column."""
        dialect: sa.Dialect = dialects.dialect()  # type: ignore[no-untyped-call]
        dialect.identifier_preparer = TableNames(dialect, self.schema)
        options = {"literal_binds": True}
        text = str(of_organization(table, self.org).compile(dialect=dialect, compile_kwargs=options))
        return row + text.partition(f"{own_name(table)}.")[2]

    def select(self, table: sa.Table) -> str:
        return f"SELECT {columns(table)} FROM {self.name(table)} WHERE {self.condition(table)}"


def columns(table: sa.Table, prefix: str = "") -> str:
    return ", ".join(f'{prefix}"{column.name}"' for column in table.columns)


def start(source: Connection, tenant: TenantRows) -> None:
    """Note every change from now on. Each table waits a moment for the transactions that are writing it."""
    own = tenant.own_schema
    run(source, f"CREATE SCHEMA {own}")
    run(source, f"CREATE SEQUENCE {own}.final")
    run(source, f"CREATE TABLE {own}.notes (of smallint, key jsonb)")
    run(source, ";".join(_function(tenant, number, table) for number, table in enumerate(TABLES)))
    for table in TABLES:
        trigger = f"{TRIGGER} AFTER INSERT OR UPDATE OR DELETE ON {tenant.name(table)} FOR EACH ROW"
        _run_locking(source, f"CREATE TRIGGER {trigger} EXECUTE FUNCTION {own}.{own_name(table)}()")


def _run_locking(source: Connection, statement: str) -> None:
    """Run a statement that locks a table, as soon as no transaction uses the table."""
    for left in reversed(range(LOCK_TRIES)):
        try:
            run(source, f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}; {statement}")
        except psycopg.errors.LockNotAvailable:
            if not left:
                raise
            time.sleep(LOCK_MILLISECONDS / 1000)
        else:
            return


def _function(tenant: TenantRows, number: int, table: sa.Table) -> str:
    """The function of a table's trigger. A row without an organization of its own may be deleted after its parent.

    The sequence `final` is read after the lock was taken, and has no versions: a transaction with an older snapshot
    sees its current value.
    """
    own, name = tenant.own_schema, tenant.name(table)
    keys = ", ".join(f'r."{column.name}"::text' for column in table.primary_key.columns)
    note = f"INSERT INTO {own}.notes VALUES ({number}, jsonb_build_array({keys}));"
    condition = tenant.condition(table, "r.")
    refuse = f"RAISE EXCEPTION 'the organization is being moved' USING ERRCODE = 'WF001', DETAIL = '{tenant.org}'"
    gone = f"ELSIF TG_OP = 'DELETE' THEN {note}" if "SELECT" in condition else ""
    return f"""
CREATE FUNCTION {own}.{own_name(table)}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE r {name};
BEGIN
    IF current_setting('{_OFF}', true) = 'on' THEN RETURN NULL; END IF;
    IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;
    IF {condition} THEN
        IF NOT pg_try_advisory_xact_lock_shared({LOCK}) THEN {refuse}; END IF;
        IF (SELECT last_value FROM {own}.final) > 1 THEN {refuse}; END IF;
        {note}
    {gone}
    END IF;
    RETURN NULL;
END $$"""


def noted(source: Connection, tenant: TenantRows) -> Iterator[ChangedRows]:
    """The rows that changed since the last call, in the open transaction, which sees one state of the database."""
    own = tenant.own_schema
    found = {number for (number,) in run(source, f"SELECT DISTINCT of FROM {own}.notes")}
    for number in sorted(found):
        table = TABLES[number]
        keys = table.primary_key.columns
        same = " AND ".join(f't."{key.name}" = (n.key->>{at})::{_type(key)}' for at, key in enumerate(keys))
        query = f"""
SELECT n.key, {columns(table, "t.")} FROM (SELECT DISTINCT key FROM {own}.notes WHERE of = {number}) n
LEFT JOIN {tenant.name(table)} t ON {same} AND {tenant.condition(table, "t.")}"""
        rows = run(source, query).fetchall()
        first = 1 + list(table.columns).index(next(iter(keys)))
        there = [row[1:] for row in rows if row[first] is not None]
        yield ChangedRows(table, there, [row[0] for row in rows if row[first] is None])
    run(source, f"DELETE FROM {own}.notes")


def apply(target: Connection, tenant: TenantRows, changes: Sequence[ChangedRows]) -> int:
    """Make the rows of the target those of the source. Returns how many there were."""
    for change in reversed(changes):
        keys = " AND ".join(f'"{key.name}" = %s::{_type(key)}' for key in change.table.primary_key.columns)
        _each(target, f"DELETE FROM {tenant.name(change.table)} WHERE {keys}", change.gone)
    for change in changes:
        _each(target, _upsert(tenant, change.table), change.rows)
    return sum(len(change.rows) + len(change.gone) for change in changes)


def _type(column: sa.Column[Any]) -> str:
    return "bigint" if isinstance(column.type, sa.Integer) else "text"


def _upsert(tenant: TenantRows, table: sa.Table) -> str:
    keys = ", ".join(f'"{key.name}"' for key in table.primary_key.columns)
    others = ", ".join(f'"{c.name}" = excluded."{c.name}"' for c in table.columns if not c.primary_key)
    return (
        f"INSERT INTO {tenant.name(table)} ({columns(table)}) VALUES ({', '.join(['%s'] * len(table.columns))})"
        f" ON CONFLICT ({keys}) DO {f'UPDATE SET {others}' if others else 'NOTHING'}"
    )


def _each(target: Connection, statement: Any, rows: Sequence[Sequence[Any]]) -> None:
    if rows:
        with target.cursor() as cursor:
            cursor.executemany(statement, rows)


def is_final(source: Connection, tenant: TenantRows) -> bool:
    """Whether `refuse_for_good` was called."""
    ((final,),) = run(source, "SELECT to_regclass(%s)", (f"{tenant.own_schema}.final",)).fetchall()
    return final is not None and run(source, f"SELECT last_value FROM {tenant.own_schema}.final").fetchall() == [(2,)]


def refuse(source: Connection, seconds: float) -> None:
    """Wait for the transactions that write rows of the organization, and refuse others, in less than `seconds`.

    A transaction of this session is open then. The server ends it, and the session, if nothing else does.
    """
    locking, refusing = (int(1000 * seconds * share) for share in (LOCKING, REFUSING))
    limits = f"SET LOCAL lock_timeout = {locking}; SET LOCAL idle_in_transaction_session_timeout = {refusing}"
    run(source, f"BEGIN; {limits}; SELECT pg_advisory_xact_lock({LOCK})")


def refuse_for_good(source: Connection, tenant: TenantRows) -> None:
    """Refuse all writes of the organization until its rows are deleted, and end the transaction of `refuse`."""
    run(source, f"SELECT setval('{tenant.own_schema}.final', 2); COMMIT")


def delete(database: Connection, tenant: TenantRows) -> None:
    """Delete the rows of the organization, also while its writes are refused."""
    with database.transaction():
        run(database, f"SET LOCAL {_OFF} = 'on'")
        for table in deletion_order():
            run(database, f"DELETE FROM {tenant.name(table)} WHERE {tenant.condition(table)}")


def stop(source: Connection, tenant: TenantRows) -> None:
    """Remove the triggers, the notes and the functions, whichever of them are there."""
    run(source, "SET client_min_messages = warning")
    schema = f"(SELECT oid FROM pg_namespace WHERE nspname = '{tenant.schema}')"
    tables = f"(SELECT oid FROM pg_class WHERE relnamespace = {schema})"
    query = f"SELECT tgrelid::regclass::text FROM pg_trigger WHERE tgname = '{TRIGGER}' AND tgrelid IN {tables}"
    for (table,) in run(source, query).fetchall():
        _run_locking(source, f"DROP TRIGGER {TRIGGER} ON {table}")
    _run_locking(source, f"DROP SCHEMA IF EXISTS {tenant.own_schema} CASCADE")
