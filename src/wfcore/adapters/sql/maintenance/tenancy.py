"""Which rows belong to an organization, in every table."""

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from wfcore.adapters.sql.schema.tables import (
    executions,
    grants,
    journal,
    metadata,
    organizations,
    resources,
    runs,
    workers,
)

TABLES: Final[Sequence[sa.Table]] = [table for table in metadata.sorted_tables if table is not workers]
"""The tables with rows of organizations, each after those that it refers to."""

_CONVERSATIONS: Final = metadata.tables["wfcore_conversations"]


def of_organization(table: sa.Table, org: int) -> sa.ColumnElement[bool]:
    """The condition for the rows of the organization with this key."""
    match table.name:
        case "wfcore_organizations":
            return organizations.c.key == org
        case "wfcore_grants":
            return grants.c.resource.in_(sa.select(resources.c.key).where(resources.c.org == org))
        case "wfcore_journal":
            return journal.c.execution.in_(sa.select(executions.c.id).where(executions.c.org == org))
        case "wfcore_messages":
            of = sa.select(_CONVERSATIONS.c.key).where(_CONVERSATIONS.c.org == org)
            return table.c.conversation.in_(of)
    return table.c.org == org


def executions_after(org: int, key: int, limit: int) -> sa.Select[tuple[int, int, int]]:
    """The first run of each execution of an organization, after the run with this key: its key, execution and target.

    An index of runs begins with the organization; executions have none.
    """
    earlier = runs.alias("earlier")
    is_first = ~sa.exists().where(earlier.c.execution == runs.c.execution, earlier.c.key < runs.c.key)
    own = runs.c.org == org, runs.c.execution != 0, runs.c.key > key
    return (
        sa.select(runs.c.key, runs.c.execution, runs.c.target).where(*own, is_first).order_by(runs.c.key).limit(limit)
    )


def deletion_order() -> Sequence[sa.Table]:
    """The tables in an order in which rows can be deleted: the conditions of later ones still hold."""
    derived = [grants, journal, metadata.tables["wfcore_messages"]]
    return [*derived, *(table for table in reversed(TABLES) if table not in derived)]


def reading_order(table: sa.Table) -> Sequence[sa.Column[Any]]:
    """The columns by which the rows of an organization are read in pages: those of an index that begins with it.

    In another order, each page would sort all rows of the organization.
    """
    primary = list(table.primary_key.columns)
    if primary[0].name == "org":
        return primary[1:]
    unique = [[*one.columns] for one in table.constraints if isinstance(one, sa.UniqueConstraint)]
    plain = [[*one.columns] for one in table.indexes if all(isinstance(part, sa.Column) for part in one.expressions)]
    found = [one[1:] for one in (*unique, *plain) if one[0].name == "org" and not any(part.nullable for part in one)]
    chosen = min(found, key=lambda one: (one != primary, len(one), [part.name for part in one]), default=primary)
    return [*chosen, *(one for one in primary if one not in chosen)]


def text_columns(table: sa.Table) -> list[sa.Column[str]]:
    return [column for column in table.columns if isinstance(column.type, sa.Text)]
