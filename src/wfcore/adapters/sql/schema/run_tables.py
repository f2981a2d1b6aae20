"""The tables of executions. The journal is authoritative; the other rows are written in the same transaction."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table

from wfcore.adapters.sql.schema.columns import boolean, integer, metadata, text
from wfcore.adapters.sql.schema.dialect import INT, only_where
from wfcore.adapters.sql.schema.names import NO_RESOURCE

BY_KEY: Final = {"ends_with": "key"}
"""The mark of an index whose rows are read in the order of their keys. Each index of SQLite ends with the key; to those
of PostgreSQL, the migrations add it.
"""

executions: Final = Table(
    "wfcore_executions",
    metadata,
    Column("id", INT, primary_key=True),
    integer("org"),
    text("kind"),
    integer("resource_id", null=True),
    Column("variation_id", sa.LargeBinary),
    boolean("is_draft"),
    text("user_id"),
    text("thread_id", null=True),
    text("started_by"),
    integer("wake_at", null=True),
    integer("claimed_by", null=True),
    integer("epoch"),
    Index("wfcore_executions_variation", "variation_id"),
    sqlite_autoincrement=True,
)
Index(
    "wfcore_executions_thread",
    executions.c.org,
    executions.c.thread_id,
    **only_where(executions.c.thread_id.is_not(None)),
)
Index("wfcore_executions_draft", executions.c.variation_id, **only_where(sa.text("is_draft")))
Index(
    "wfcore_executions_due",
    executions.c.wake_at,
    **only_where(executions.c.wake_at.is_not(None) & executions.c.claimed_by.is_(None)),
)
Index(
    "wfcore_executions_due_org",
    executions.c.org,
    executions.c.wake_at,
    **only_where(executions.c.wake_at.is_not(None) & executions.c.claimed_by.is_(None)),
)
Index("wfcore_executions_claims", executions.c.claimed_by, **only_where(executions.c.claimed_by.is_not(None)))

journal: Final = Table(
    "wfcore_journal",
    metadata,
    integer("execution"),
    integer("pos"),
    Column("checksum", sa.Integer, nullable=False),
    text("entry"),
    PrimaryKeyConstraint("execution", "pos"),
    sqlite_with_rowid=False,
)

snapshots: Final = Table(
    "wfcore_snapshots",
    metadata,
    Column("execution", INT, primary_key=True, autoincrement=False),
    integer("org"),
    integer("length"),
    Column("checksum", sa.Integer, nullable=False),
    Column("body", sa.LargeBinary, nullable=False),
)
"""Of some parked executions the state after so many entries. `checksum` is of the last of them, and of the body."""

runs: Final = Table(
    "wfcore_runs",
    metadata,
    Column("key", INT, primary_key=True),
    integer("org"),
    text("id"),
    integer("execution"),
    text("user_id"),
    Column("fingerprint", sa.LargeBinary, nullable=False),
    text("status"),
    text("parent_run_id", null=True),
    text("resumed_by", null=True),
    text("result", null=True),
    integer("created_at"),
    integer("updated_at", null=True),
    integer("finished_at", null=True),
    text("started_by"),
    text("origin"),
    integer("target"),
    text("retried_by", null=True),
    text("forked_from", null=True),
    Column("variation_id", sa.LargeBinary),
    boolean("is_draft"),
    sa.UniqueConstraint("org", "id"),
    Index("wfcore_runs_recent", "org", info=BY_KEY),
    Index("wfcore_runs_turns", "execution", info=BY_KEY),
    Index("wfcore_runs_target", "org", "target", info=BY_KEY),
    Index("wfcore_runs_user", "org", "user_id", info=BY_KEY),
    Index("wfcore_runs_created", "org", "created_at"),
)
Index("wfcore_runs_variation", runs.c.variation_id, **only_where(runs.c.variation_id.is_not(None)))
Index("wfcore_runs_status", runs.c.org, runs.c.status, **only_where(runs.c.status != "done"), info=BY_KEY)
Index("wfcore_runs_own", runs.c.org, runs.c.user_id, **only_where(runs.c.target > NO_RESOURCE), info=BY_KEY)
Index("wfcore_runs_origin", runs.c.org, runs.c.origin, **only_where(runs.c.origin != ""), info=BY_KEY)

interrupts: Final = Table(
    "wfcore_interrupts",
    metadata,
    Column("key", INT, primary_key=True),
    integer("org"),
    integer("execution"),
    text("body"),
    integer("resource", null=True),
    integer("expires_at", null=True),
    Column("id_hash", sa.Integer, nullable=False),
    Index("wfcore_interrupts_id", "id_hash"),
    Index("wfcore_interrupts_inbox", "resource", info=BY_KEY),
    Index("wfcore_interrupts_execution", "execution"),
    sqlite_autoincrement=True,
)
Index(
    "wfcore_interrupts_deadline",
    interrupts.c.org,
    interrupts.c.expires_at,
    **only_where(interrupts.c.expires_at.is_not(None)),
)

closed_interrupts: Final = Table(
    "wfcore_closed_interrupts",
    metadata,
    Column("key", INT, primary_key=True, autoincrement=False),
    integer("org"),
    integer("execution"),
    text("body"),
    text("decision"),
    integer("decided_at"),
    integer("resource", null=True),
    integer("expires_at", null=True),
    Column("id_hash", sa.Integer, nullable=False),
    Index("wfcore_closed_interrupts_id", "id_hash"),
    Index("wfcore_closed_interrupts_inbox", "resource", info=BY_KEY),
    Index("wfcore_closed_interrupts_execution", "execution"),
)

approvers: Final = Table(
    "wfcore_approvers",
    metadata,
    integer("org"),
    text("subject"),
    integer("closed"),
    integer("interrupt"),
    PrimaryKeyConstraint("org", "subject", "closed", "interrupt"),
    Index("wfcore_approvers_interrupt", "interrupt"),
    sqlite_with_rowid=False,
)

call_slots: Final = Table(
    "wfcore_call_slots",
    metadata,
    Column("key", INT, primary_key=True),
    integer("org"),
    text("name"),
    integer("execution"),
    text("attempt"),
    integer("most"),
    sa.UniqueConstraint("execution", "attempt"),
    Index("wfcore_call_slots_queue", "org", "name", "key"),
    sqlite_autoincrement=True,
)

workers: Final = Table(
    "wfcore_workers",
    metadata,
    Column("id", INT, primary_key=True),
    text("host"),
    integer("pid"),
    integer("beats"),
    sqlite_autoincrement=True,
)
