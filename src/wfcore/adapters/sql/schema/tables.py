"""The tables. All rows belong to `org`, the key of an organization; JSON is stored as text, verbatim.

Times are milliseconds since the Unix epoch.
"""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, ForeignKey, Index, PrimaryKeyConstraint, Table

from wfcore.adapters.sql.schema.dialect import INT, TEXT, only_where
from wfcore.adapters.sql.schema.names import NO_RESOURCE
from wfcore.adapters.sql.schema.record_tables import add_record_tables

metadata: Final = sa.MetaData()


def _text(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, TEXT, nullable=null)


def _int(name: str, *, null: bool = False) -> Column[Any]:
    return Column(name, INT, nullable=null)


def _bool(name: str) -> Column[Any]:
    return Column(name, Boolean, nullable=False)


def _org() -> Column[Any]:
    return Column("org", INT, ForeignKey("wfcore_organizations.key"), nullable=False)


# Organizations and their members

organizations: Final = Table(
    "wfcore_organizations",
    metadata,
    Column("key", INT, primary_key=True),
    _text("uuid"),
    _text("name"),
    _int("created_at"),
    _int("max_concurrent_runs", null=True),
    sa.UniqueConstraint("uuid"),
    sqlite_autoincrement=True,
)
Index(
    "wfcore_organizations_limited",
    organizations.c.max_concurrent_runs,
    **only_where(organizations.c.max_concurrent_runs.is_not(None)),
)

members: Final = Table(
    "wfcore_members",
    metadata,
    _org(),
    _text("user_id"),
    _text("email", null=True),
    _bool("email_verified"),
    _text("name", null=True),
    _text("role"),
    PrimaryKeyConstraint("org", "user_id"),
    Index("wfcore_members_email", "org", "email", "user_id"),
    sqlite_with_rowid=False,
)

groups: Final = Table(
    "wfcore_groups",
    metadata,
    _org(),
    _text("id"),
    _text("name"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

group_members: Final = Table(
    "wfcore_group_members",
    metadata,
    _int("org"),
    _text("user_id"),
    _text("group_id"),
    PrimaryKeyConstraint("org", "user_id", "group_id"),
    sa.ForeignKeyConstraint(["org", "user_id"], ["wfcore_members.org", "wfcore_members.user_id"]),
    Index("wfcore_group_members_group", "org", "group_id", "user_id"),
    sqlite_with_rowid=False,
)

tokens: Final = Table(
    "wfcore_tokens",
    metadata,
    _org(),
    _text("prefix"),
    _text("secret_hash"),
    _text("user_id"),
    _text("name"),
    _text("scopes"),
    _int("created_at"),
    _int("expires_at", null=True),
    _int("revoked_at", null=True),
    PrimaryKeyConstraint("org", "prefix"),
    Index("wfcore_tokens_user", "org", "user_id", "prefix"),
    sqlite_with_rowid=False,
)

audit: Final = Table(
    "wfcore_audit",
    metadata,
    Column("key", INT, primary_key=True),
    _org(),
    _int("at"),
    _text("user_id", null=True),
    _text("action"),
    _text("kind"),
    _text("resource_id"),
    _text("details"),
    _text("request_id", null=True),
    _text("remote_address", null=True),
    Index("wfcore_audit_at", "org", "at", "key"),
    Index("wfcore_audit_user", "org", "user_id", "at", "key"),
    Index("wfcore_audit_action", "org", "action", "at", "key"),
    sqlite_autoincrement=True,
)

# Workflows and skills

counters: Final = Table(
    "wfcore_counters",
    metadata,
    _org(),
    _text("kind"),
    _int("last"),
    PrimaryKeyConstraint("org", "kind"),
    sqlite_with_rowid=False,
)

resources: Final = Table(
    "wfcore_resources",
    metadata,
    Column("key", INT, primary_key=True),
    _org(),
    _text("kind"),
    _int("id"),
    _text("slug"),
    _text("name"),
    _text("description", null=True),
    _text("status"),
    _text("access"),
    _text("active_variation_id", null=True),
    _text("draft_variation_id", null=True),
    _bool("is_enabled"),
    _text("pending_transfer", null=True),
    _int("created_at"),
    _int("updated_at"),
    _int("deleted_at", null=True),
    _int("revision"),
    _int("max_concurrent_runs", null=True),
    sa.UniqueConstraint("org", "kind", "id"),
    sa.UniqueConstraint("org", "kind", "slug"),
)
Index(
    "wfcore_resources_limited",
    resources.c.org,
    resources.c.kind,
    resources.c.id,
    **only_where(resources.c.max_concurrent_runs.is_not(None)),
)

grants: Final = Table(
    "wfcore_grants",
    metadata,
    Column("resource", INT, ForeignKey("wfcore_resources.key"), nullable=False),
    _text("subject"),
    _bool("use"),
    _bool("manage"),
    PrimaryKeyConstraint("resource", "subject"),
    Index("wfcore_grants_subject", "subject"),
    sqlite_with_rowid=False,
)

variations: Final = Table(
    "wfcore_variations",
    metadata,
    _int("org"),
    _text("kind"),
    _int("resource_id"),
    _text("id"),
    _text("content"),
    _int("created_at"),
    _text("created_by"),
    _int("deployed_at", null=True),
    _text("deployed_by", null=True),
    PrimaryKeyConstraint("org", "kind", "resource_id", "id"),
    sa.ForeignKeyConstraint(
        ["org", "kind", "resource_id"], ["wfcore_resources.org", "wfcore_resources.kind", "wfcore_resources.id"]
    ),
)
Index(
    "wfcore_variations_deployed",
    variations.c.org,
    variations.c.kind,
    variations.c.resource_id,
    variations.c.deployed_at.desc(),
    variations.c.id.desc(),
    **only_where(variations.c.deployed_at.is_not(None)),
)

kept: Final = Table(
    "wfcore_kept",
    metadata,
    _org(),
    _text("kind"),
    _text("user_id"),
    _text("key"),
    _text("fingerprint"),
    _text("answer"),
    PrimaryKeyConstraint("org", "kind", "user_id", "key"),
    sqlite_with_rowid=False,
)

# Memories of skills, and the words in them

memories: Final = Table(
    "wfcore_memories",
    metadata,
    Column("key", INT, primary_key=True),
    _org(),
    _int("skill_id"),
    _text("id"),
    _text("memory", null=True),
    _text("hash"),
    _text("metadata"),
    _int("created_at"),
    _int("updated_at"),
    _text("user_id", null=True),
    sa.UniqueConstraint("org", "skill_id", "id"),
    sqlite_autoincrement=True,
)
Index(
    "wfcore_memories_list",
    memories.c.org,
    memories.c.skill_id,
    memories.c.key,
    **only_where(memories.c.memory.is_not(None)),
)
Index(
    "wfcore_memories_of_user",
    memories.c.org,
    memories.c.skill_id,
    memories.c.user_id,
    memories.c.key,
    **only_where(memories.c.memory.is_not(None)),
)

memory_words: Final = Table(
    "wfcore_memory_words",
    metadata,
    _int("org"),
    _int("skill_id"),
    _text("word"),
    _int("memory"),
    PrimaryKeyConstraint("org", "skill_id", "word", "memory"),
    Index("wfcore_memory_words_of", "memory"),
    sqlite_with_rowid=False,
)

interfaces: Final = Table(
    "wfcore_interfaces",
    metadata,
    _org(),
    _text("target"),
    _int("resource_id"),
    _text("id"),
    _text("kind"),
    _text("config"),
    _int("created_at"),
    _text("sealed", null=True),
    PrimaryKeyConstraint("org", "target", "resource_id", "id"),
    Index("wfcore_interfaces_id", "id"),
    sqlite_with_rowid=False,
)

schedules: Final = Table(
    "wfcore_schedules",
    metadata,
    _org(),
    _int("workflow_id"),
    _text("variation_id"),
    _int("next_at", null=True),
    _text("paused", null=True),
    _text("last_run_id", null=True),
    _text("missed"),
    PrimaryKeyConstraint("org", "workflow_id"),
    sqlite_with_rowid=False,
)
Index("wfcore_schedules_due_org", schedules.c.org, schedules.c.next_at, **only_where(schedules.c.next_at.is_not(None)))
Index("wfcore_schedules_due", schedules.c.next_at, **only_where(schedules.c.next_at.is_not(None)))

webhooks: Final = Table(
    "wfcore_webhooks",
    metadata,
    _org(),
    _int("workflow_id"),
    _text("digest"),
    _text("sealed"),
    PrimaryKeyConstraint("org", "workflow_id"),
    Index("wfcore_webhooks_digest", "digest", unique=True),
    sqlite_with_rowid=False,
)

context_items: Final = Table(
    "wfcore_context_items",
    metadata,
    _org(),
    _text("id"),
    _text("title"),
    _text("content"),
    _int("created_at"),
    _int("updated_at"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

policies: Final = Table(
    "wfcore_policies",
    metadata,
    _org(),
    _text("id"),
    _text("name"),
    _text("condition"),
    _text("requirement"),
    _text("severity"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

connections: Final = Table(
    "wfcore_connections",
    metadata,
    _org(),
    _text("id"),
    _text("name"),
    _text("provider"),
    _text("kind"),
    _text("config"),
    _text("sealed"),
    _text("status"),
    _int("last_checked_at", null=True),
    _text("status_reason", null=True),
    _text("ownership"),
    _text("client"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

connection_grants: Final = Table(
    "wfcore_connection_grants",
    metadata,
    _org(),
    _text("id"),
    _text("connection_id"),
    _text("user_id"),
    _text("sealed"),
    _int("expires_at", null=True),
    _bool("can_refresh"),
    _text("status"),
    _text("reason", null=True),
    _int("leased_until"),
    PrimaryKeyConstraint("org", "id"),
    sqlite_with_rowid=False,
)

# Executions. The journal is authoritative; the other rows are written in the same transaction.

executions: Final = Table(
    "wfcore_executions",
    metadata,
    Column("id", INT, primary_key=True),
    _int("org"),
    _text("kind"),
    _int("resource_id", null=True),
    Column("variation_id", sa.LargeBinary),
    _bool("is_draft"),
    _text("user_id"),
    _text("thread_id", null=True),
    _text("started_by"),
    _int("wake_at", null=True),
    _int("claimed_by", null=True),
    _int("epoch"),
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
    _int("execution"),
    _int("pos"),
    Column("checksum", sa.Integer, nullable=False),
    _text("entry"),
    PrimaryKeyConstraint("execution", "pos"),
    sqlite_with_rowid=False,
)

snapshots: Final = Table(
    "wfcore_snapshots",
    metadata,
    Column("execution", INT, primary_key=True, autoincrement=False),
    _int("org"),
    _int("length"),
    Column("checksum", sa.Integer, nullable=False),
    Column("body", sa.LargeBinary, nullable=False),
)
"""Of some parked executions the state after so many entries. `checksum` is of the last of them, and of the body."""

runs: Final = Table(
    "wfcore_runs",
    metadata,
    Column("key", INT, primary_key=True),
    _int("org"),
    _text("id"),
    _int("execution"),
    _text("user_id"),
    Column("fingerprint", sa.LargeBinary, nullable=False),
    _text("status"),
    _text("parent_run_id", null=True),
    _text("resumed_by", null=True),
    _text("result", null=True),
    _int("created_at"),
    _int("updated_at", null=True),
    _int("finished_at", null=True),
    _text("started_by"),
    _text("origin"),
    _int("target"),
    _text("retried_by", null=True),
    _text("forked_from", null=True),
    Column("variation_id", sa.LargeBinary),
    _bool("is_draft"),
    sa.UniqueConstraint("org", "id"),
    Index("wfcore_runs_recent", "org", "key"),
    Index("wfcore_runs_execution", "execution"),
    Index("wfcore_runs_target", "org", "target", "key"),
    Index("wfcore_runs_user", "org", "user_id", "key"),
    Index("wfcore_runs_created", "org", "created_at"),
)
Index("wfcore_runs_status", runs.c.org, runs.c.status, runs.c.key, **only_where(runs.c.status != "done"))
Index("wfcore_runs_variation", runs.c.variation_id, **only_where(runs.c.variation_id.is_not(None)))
Index("wfcore_runs_own", runs.c.org, runs.c.user_id, runs.c.key, **only_where(runs.c.target > NO_RESOURCE))
Index("wfcore_runs_origin", runs.c.org, runs.c.origin, runs.c.key, **only_where(runs.c.origin != ""))

interrupts: Final = Table(
    "wfcore_interrupts",
    metadata,
    Column("key", INT, primary_key=True),
    _int("org"),
    _int("execution"),
    _text("body"),
    _int("resource", null=True),
    Index("wfcore_interrupts_inbox", "resource", "key"),
    Index("wfcore_interrupts_execution", "execution"),
    sqlite_autoincrement=True,
)

closed_interrupts: Final = Table(
    "wfcore_closed_interrupts",
    metadata,
    Column("key", INT, primary_key=True, autoincrement=False),
    _int("org"),
    _int("execution"),
    _text("body"),
    _text("decision"),
    _int("decided_at"),
    _int("resource", null=True),
    Index("wfcore_closed_interrupts_inbox", "resource", "key"),
    Index("wfcore_closed_interrupts_execution", "execution"),
)

approvers: Final = Table(
    "wfcore_approvers",
    metadata,
    _int("org"),
    _text("subject"),
    _int("closed"),
    _int("interrupt"),
    PrimaryKeyConstraint("org", "subject", "closed", "interrupt"),
    Index("wfcore_approvers_interrupt", "interrupt"),
    sqlite_with_rowid=False,
)

call_slots: Final = Table(
    "wfcore_call_slots",
    metadata,
    Column("key", INT, primary_key=True),
    _int("org"),
    _text("name"),
    _int("execution"),
    _text("attempt"),
    _int("most"),
    sa.UniqueConstraint("execution", "attempt"),
    Index("wfcore_call_slots_queue", "org", "name", "key"),
    sqlite_autoincrement=True,
)

workers: Final = Table(
    "wfcore_workers",
    metadata,
    Column("id", INT, primary_key=True),
    _text("host"),
    _int("pid"),
    _int("beats"),
    sqlite_autoincrement=True,
)

add_record_tables(metadata)
